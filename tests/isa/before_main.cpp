// What an ISA object must not have: code of its own that runs when the program starts.
#include <cstdlib>

int chosen_before_main = std::getenv("HOME") != nullptr;
