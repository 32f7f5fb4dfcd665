// Runs a fuzz target over each file of its corpus, and over variants with one byte changed or the end cut
// off.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

#include "conformance/fuzz/fuzz.hpp"

namespace {

void run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

// Passes if the process survives: RTRS_FUZZ_CHECK aborts it.
TEST(Corpus, NoInputFailsACheck) {
  const std::filesystem::directory_iterator corpus(URTRS_CORPUS);
  const auto files = static_cast<std::size_t>(std::distance(begin(corpus), end(corpus)));
  ASSERT_GE(files, 2U);
  // Bounds the time of a large corpus, which the sanitizers make fifteen times as long.
  const std::size_t places = std::max<std::size_t>(100, 1000 / files);
  for (const auto& entry : std::filesystem::directory_iterator(URTRS_CORPUS)) {
    std::ostringstream all;
    all << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    const std::string bytes = all.str();
    run(bytes);
    const std::size_t step = bytes.size() / places + 1;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      run(bytes.substr(0, at));
      for (const unsigned change : {0x01U, 0x80U, 0xffU}) {
        std::string changed = bytes;
        changed[at] = static_cast<char>(static_cast<unsigned char>(changed[at]) ^ change);
        run(changed);
      }
    }
  }
}

}  // namespace
