// Runs calls to disks that may hang.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

namespace rtrs::daemon {

// Runs the tasks in parallel threads and waits for them at most `bound`. Returns for each task whether it
// ended in time. Unfinished tasks keep running, and queued tasks start when a thread is free, until the
// process ends, so a task must own everything that it uses. `threads`: maximum number of threads; 0 means 16,
// or fewer if the process may open few descriptors.
std::vector<bool> in_parallel(std::vector<std::function<void()>> tasks, std::chrono::milliseconds bound,
                              unsigned threads = 0);

}  // namespace rtrs::daemon
