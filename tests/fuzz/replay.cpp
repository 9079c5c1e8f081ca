// Runs a fuzz target on the files of a corpus, as a test that any compiler builds.
//     replay <folder> [<least number of files>]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);

int main(int count, char** arguments) {
    if (count < 2) return std::fputs("replay <folder> [<least number of files>]\n", stderr), 2;
    long const least = count > 2 ? std::atol(arguments[2]) : 1;
    long files = 0;
    for (auto const& entry : std::filesystem::directory_iterator{arguments[1]}) {
        std::ifstream file{entry.path(), std::ios::binary};
        std::vector<char> const text{std::istreambuf_iterator<char>{file}, {}};
        std::vector<std::uint8_t> const bytes(text.begin(), text.end());
        std::printf("%s\n", entry.path().c_str());
        std::fflush(stdout);    // before it may abort
        LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
        ++files;
    }
    std::printf("%ld inputs\n", files);
    return files >= least ? 0 : 1;
}
