// What libFuzzer calls, and the test that stands in for it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// A rule that no bytes may break.
#define RTRS_FUZZ_CHECK(expression)                                                  \
  do {                                                                               \
    if (!(expression)) {                                                             \
      std::fprintf(stderr, "broken: %s (%s:%d)\n", #expression, __FILE__, __LINE__); \
      std::abort();                                                                  \
    }                                                                                \
  } while (false)
