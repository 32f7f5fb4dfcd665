// What a program wants done when a broken invariant ends it, such as writing down its last records.
#pragma once

namespace rtrs {

// Called once, on the thread that found the broken invariant, before the program aborts. A second broken
// invariant, inside it, aborts at once. Set and clear it from one thread; null clears.
using AssertHook = void (*)(void* argument) noexcept;
void set_assert_hook(AssertHook hook, void* argument) noexcept;

}  // namespace rtrs
