#include "tools/urtrsd/storage/in_parallel.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace rtrs::daemon {
namespace {

constexpr unsigned kThreads = 16;
constexpr rlim_t kDescriptorsOfATask = 8;

struct Shared {
  explicit Shared(std::vector<std::function<void()>> all) : tasks(std::move(all)), ended(tasks.size()) {}
  std::mutex mutex;
  std::condition_variable news;
  std::vector<std::function<void()>> tasks;
  std::vector<bool> ended;
  std::size_t next = 0;
  std::size_t unfinished = tasks.size();
};

void work(const std::shared_ptr<Shared>& shared) {
  std::unique_lock guard(shared->mutex);
  while (shared->next < shared->tasks.size()) {
    const std::size_t index = shared->next++;
    const std::function<void()> task = std::move(shared->tasks[index]);
    guard.unlock();
    task();
    guard.lock();
    shared->ended[index] = true;
    --shared->unfinished;
    shared->news.notify_one();
  }
}

unsigned usual_threads() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kThreads;
  return static_cast<unsigned>(std::clamp<rlim_t>(limit.rlim_cur / kDescriptorsOfATask, 1, kThreads));
}

}  // namespace

std::vector<bool> in_parallel(std::vector<std::function<void()>> tasks, std::chrono::milliseconds bound,
                              unsigned threads) {
  const auto end = std::chrono::steady_clock::now() + bound;
  const auto shared = std::make_shared<Shared>(std::move(tasks));
  const auto wanted = std::min<std::size_t>(threads != 0 ? threads : usual_threads(), shared->unfinished);
  std::size_t begun = 0;
  try {
    for (; begun < wanted; ++begun) std::thread(work, shared).detach();
  } catch (const std::system_error&) {  // no more threads can be started: the existing threads run all tasks
    if (begun == 0) work(shared);
  }
  std::unique_lock guard(shared->mutex);
  shared->news.wait_until(guard, end, [&shared] { return shared->unfinished == 0; });
  return shared->ended;
}

}  // namespace rtrs::daemon
