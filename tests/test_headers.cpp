// Nothing: the headers that the tests' objects share are compiled with it.
