#include "core/base/assert.hpp"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "core/base/assert_hook.hpp"

namespace rtrs {

namespace {
AssertHook current_hook = nullptr;
void* hook_argument = nullptr;
}  // namespace

void set_assert_hook(AssertHook hook, void* argument) noexcept {
  current_hook = hook;
  hook_argument = argument;
}

void assert_failed(const char* expression, const char* file, int line) noexcept {
  std::fprintf(stderr, "urtrs: broken invariant: %s (%s:%d)\n", expression, file, line);
  if (const AssertHook hook = std::exchange(current_hook, nullptr)) hook(hook_argument);
  std::abort();
}

}  // namespace rtrs
