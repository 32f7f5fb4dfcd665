// Runs calls to disks that may hang in parallel threads, with a time limit.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

namespace rtrs::daemon {

// Runs the tasks in parallel threads and waits at most `bound`. Returns for each task whether it ended in
// time. Tasks that did not end keep running, and queued tasks start when a thread becomes free. Both may
// happen at any time until the process ends, so a task must own everything that it uses. `threads` is the
// maximum number of threads; 0 stands for 16, or fewer if the process may open few descriptors.
std::vector<bool> in_parallel(std::vector<std::function<void()>> tasks, std::chrono::milliseconds bound,
                              unsigned threads = 0);

}  // namespace rtrs::daemon
