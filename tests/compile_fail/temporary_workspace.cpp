// expect: (cannot bind non-const lvalue reference of type .std::vector<std::byte>|no viable conversion .*workspace_ref)
#include "imbrex/workspace.hpp"

#include <vector>

#ifdef IMBREX_EXPECT_FAIL
imbrex::workspace_ref const workspace = std::vector<std::byte>(4096);    // would refer to memory that is gone
#else
std::vector<std::byte> bytes(4096);
imbrex::workspace_ref const workspace = bytes;
#endif
