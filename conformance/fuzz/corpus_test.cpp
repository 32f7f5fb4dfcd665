// Runs a fuzz target over each file of its corpus, and over variants with one byte changed or the end cut
// off.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "conformance/fuzz/fuzz.hpp"

namespace {

void run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

// Passes if the process survives: RTRS_FUZZ_CHECK aborts it.
TEST(Corpus, NoInputFailsACheck) {
  unsigned files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(URTRS_CORPUS)) {
    std::ostringstream all;
    all << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    const std::string bytes = all.str();
    run(bytes);
    const std::size_t step = bytes.size() / 500 + 1;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      run(bytes.substr(0, at));
      for (const unsigned change : {0x01U, 0x80U, 0xffU}) {
        std::string changed = bytes;
        changed[at] = static_cast<char>(static_cast<unsigned char>(changed[at]) ^ change);
        run(changed);
      }
    }
    ++files;
  }
  EXPECT_GE(files, 2U);
}

}  // namespace
