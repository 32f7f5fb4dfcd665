// Hook that runs when a broken invariant aborts the program, for example to save the last trace records.
#pragma once

namespace rtrs {

// Called once, on the thread that found the broken invariant, before the program aborts. A second broken
// invariant, while the hook runs, aborts at once. Set and clear it from one thread; null clears.
using AssertHook = void (*)(void* argument) noexcept;
void set_assert_hook(AssertHook hook, void* argument) noexcept;

}  // namespace rtrs
