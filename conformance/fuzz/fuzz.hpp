// The entry point that libFuzzer and corpus_test call, and the check macro for fuzz targets.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// Aborts the process if the expression is false. The expression must hold for all input bytes.
#define RTRS_FUZZ_CHECK(expression)                                                  \
  do {                                                                               \
    if (!(expression)) {                                                             \
      std::fprintf(stderr, "broken: %s (%s:%d)\n", #expression, __FILE__, __LINE__); \
      std::abort();                                                                  \
    }                                                                                \
  } while (false)
