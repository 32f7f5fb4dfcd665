#include "core/base/assert.hpp"

#include <cstdio>
#include <cstdlib>

namespace rtrs {

void assert_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "urtrs: broken invariant: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace rtrs
