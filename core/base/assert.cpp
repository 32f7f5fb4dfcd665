#include "core/base/assert.hpp"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/base/assert_hook.hpp"

namespace rtrs {

namespace {
AssertHook the_hook = nullptr;
void* the_argument = nullptr;
}  // namespace

void set_assert_hook(AssertHook hook, void* argument) noexcept {
  the_hook = hook;
  the_argument = argument;
}

void assert_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "urtrs: broken invariant: %s (%s:%d)\n", expression, file, line);
  if (const AssertHook hook = std::exchange(the_hook, nullptr)) hook(the_argument);
  std::abort();
}

}  // namespace rtrs
