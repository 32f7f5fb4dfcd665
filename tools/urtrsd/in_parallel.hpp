// Questions to disks that may not answer.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

namespace rtrs::daemon {

// Runs the tasks side by side, in threads of their own, and waits for them, but no longer than `bound`. One
// element for each task: whether it ended in time. Tasks that did not end go on, and those behind them begin
// when a thread is free, until the process ends: a task owns what it uses. `threads`: at most so many at a
// time; 0: 16, and fewer where the process may open few descriptors.
std::vector<bool> in_parallel(std::vector<std::function<void()>> tasks, std::chrono::milliseconds bound,
                              unsigned threads = 0);

}  // namespace rtrs::daemon
