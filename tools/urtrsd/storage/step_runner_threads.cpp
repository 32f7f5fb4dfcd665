#include <fcntl.h>
#include <linux/falloc.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <ctime>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "tools/urtrsd/storage/step_runner.hpp"
#include "tools/urtrsd/storage/unique_fd.hpp"
#include "tools/urtrsd/storage/wake_up.hpp"

namespace rtrs::daemon {
namespace {

constexpr std::size_t kStackBytes = std::size_t{256} << 10U;
constexpr std::int64_t kSecond = 1'000'000'000;

ssize_t write_step(const FileStep& step) noexcept {
  iovec part{step.buffer, step.length};
  const auto offset = static_cast<off_t>(step.offset);
  const ssize_t written = ::pwritev2(step.fd, &part, 1, offset, step.data_sync ? RWF_DSYNC : 0);
  // If a sandbox does not support the flags of pwritev2(), writes without the flag and calls fdatasync().
  if (written >= 0 || !step.data_sync || (errno != EOPNOTSUPP && errno != ENOSYS)) return written;
  const ssize_t plain = ::pwrite(step.fd, step.buffer, step.length, offset);
  return plain < 0 || ::fdatasync(step.fd) == 0 ? plain : -1;
}

std::int32_t carry_out(const FileStep& step) noexcept {
  const auto offset = static_cast<off_t>(step.offset);
  ssize_t result = 0;
  switch (step.kind) {
    case OpStep::read:
      result = ::pread(step.fd, step.buffer, step.length, offset);
      break;
    case OpStep::write:
    case OpStep::write_zero_bytes:
      result = write_step(step);
      break;
    case OpStep::punch_hole:
      result = ::fallocate(step.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, step.length);
      break;
    case OpStep::zero_range:
      result = ::fallocate(step.fd, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, offset, step.length);
      break;
    case OpStep::sync_data:
    case OpStep::done:  // not reached: finished operations are not started
      result = ::fdatasync(step.fd);
      break;
  }
  return static_cast<std::int32_t>(result < 0 ? -errno : result);
}

std::int64_t monotonic_now() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

// FIFO queue of fixed size. The caller must not push more than `room` items.
template <class T>
class Queue {
 public:
  explicit Queue(std::size_t room) : items_(room) {}
  std::size_t size() const noexcept { return size_; }
  void push(const T& item) noexcept { items_[(first_ + size_++) % items_.size()] = item; }
  T pop() noexcept {
    const T item = items_[first_];
    first_ = (first_ + 1) % items_.size();
    --size_;
    return item;
  }

 private:
  std::vector<T> items_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

class ThreadRunner final : public StepRunner {
 public:
  explicit ThreadRunner(std::uint32_t depth)
      : collected_(depth),
        jobs_(depth),
        done_(depth),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
    threads_.reserve(depth);
    delays_.reserve(depth);
  }
  ~ThreadRunner() override {
    {
      const std::lock_guard guard(jobs_mutex_);
      stopping_ = true;
    }
    there_are_jobs_.notify_all();
    for (const pthread_t thread : threads_) ::pthread_join(thread, nullptr);
  }

  // Returns 0 or an errno.
  int open() noexcept {
    if (!epoll_ || !timer_ || event_.fd() < 0) return EMFILE;
    add_to_epoll(timer_.get());
    add_to_epoll(event_.fd());
    starting_ = 1;
    return add_thread();
  }

  void start(std::uint32_t index, const FileStep& step) noexcept override { collected_.push({index, step}); }
  void start_delay(std::uint32_t index, const __kernel_timespec& delay) noexcept override {
    delays_.push_back({monotonic_now() + delay.tv_sec * kSecond + delay.tv_nsec, index});
    std::push_heap(delays_.begin(), delays_.end(), std::greater<>());
    set_timer();
  }
  void watch(int watched) noexcept override {
    if (std::exchange(watched_, watched) != watched) add_to_epoll(watched);
  }
  void hand_over() noexcept override;
  bool has_news() const noexcept override {
    return collected_.size() != 0 || some_done_.load(std::memory_order_acquire) ||
           (!delays_.empty() && delays_.front().when <= monotonic_now());
  }
  std::size_t take(std::span<StepDone> done) noexcept override;
  void wait() noexcept override {
    pollfd waited{epoll_.get(), POLLIN, 0};
    ::poll(&waited, 1, -1);
  }
  int fd() const noexcept override { return epoll_.get(); }
  const char* name() const noexcept override { return "threads"; }

 private:
  struct Job {
    std::uint32_t index = 0;
    FileStep step;
  };
  struct Delay {
    std::int64_t when;
    std::uint32_t index;
    bool operator>(const Delay& other) const noexcept { return when > other.when; }
  };
  void add_to_epoll(int fd) noexcept {
    epoll_event readable{};
    readable.events = EPOLLIN;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &readable);
  }
  int add_thread() noexcept;
  void work() noexcept;
  void set_timer() noexcept;

  Queue<Job> collected_;
  std::mutex jobs_mutex_;
  std::condition_variable there_are_jobs_;
  Queue<Job> jobs_;           // jobs_mutex_ guards this and the next three members
  std::size_t idle_ = 0;      // number of threads that wait for a job
  std::size_t starting_ = 0;  // number of new threads that have not entered work() yet
  bool stopping_ = false;
  std::mutex done_mutex_;
  Queue<StepDone> done_;  // guarded by done_mutex_; while the queue is not empty, event_ is readable
  std::atomic<bool> some_done_{false};
  WakeUp event_;
  UniqueFd epoll_;  // readable while event_, timer_ or the watched descriptor is readable
  UniqueFd timer_;
  int watched_ = -1;
  std::vector<Delay> delays_;  // pending delays: a heap with the earliest at the front
  std::vector<pthread_t> threads_;
};

int ThreadRunner::add_thread() noexcept {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread{};
  const auto body = [](void* runner) -> void* {
    static_cast<ThreadRunner*>(runner)->work();
    return nullptr;
  };
  const int error = ::pthread_create(&thread, &attributes, body, this);
  ::pthread_attr_destroy(&attributes);
  if (error == 0) threads_.push_back(thread);
  return error;
}

void ThreadRunner::work() noexcept {
  std::unique_lock lock(jobs_mutex_);
  --starting_;
  while (true) {
    while (jobs_.size() == 0 && !stopping_) {
      ++idle_;
      there_are_jobs_.wait(lock);
      --idle_;
    }
    if (jobs_.size() == 0) return;
    const Job job = jobs_.pop();
    lock.unlock();
    const StepDone done{job.index, carry_out(job.step)};
    {
      const std::lock_guard guard(done_mutex_);
      done_.push(done);
      if (done_.size() == 1) event_.signal();
      some_done_.store(true, std::memory_order_release);
    }
    lock.lock();
  }
}

void ThreadRunner::hand_over() noexcept {
  if (collected_.size() == 0) return;
  std::size_t wake = 0;
  std::size_t missing = 0;
  {
    const std::lock_guard guard(jobs_mutex_);
    while (collected_.size() != 0) jobs_.push(collected_.pop());
    wake = std::min(jobs_.size(), idle_);
    const std::size_t served = std::min(jobs_.size(), idle_ + starting_);
    missing = std::min(jobs_.size() - served, threads_.capacity() - threads_.size());
    starting_ += missing;
  }
  for (; wake != 0; --wake) there_are_jobs_.notify_one();
  for (; missing != 0 && add_thread() == 0; --missing) continue;
  if (missing == 0) return;
  // If no thread can be started now, the jobs wait for the existing threads.
  const std::lock_guard guard(jobs_mutex_);
  starting_ -= missing;
}

std::size_t ThreadRunner::take(std::span<StepDone> done) noexcept {
  std::size_t count = 0;
  if (!delays_.empty()) {
    const std::int64_t now = monotonic_now();
    while (count < done.size() && !delays_.empty() && delays_.front().when <= now) {
      std::pop_heap(delays_.begin(), delays_.end(), std::greater<>());
      done[count++] = {delays_.back().index, 0};
      delays_.pop_back();
    }
    if (count != 0) set_timer();
  }
  if (count == done.size() || !some_done_.load(std::memory_order_acquire)) return count;
  const std::lock_guard guard(done_mutex_);
  while (count < done.size() && done_.size() != 0) done[count++] = done_.pop();
  if (done_.size() == 0) {
    event_.clear();
    some_done_.store(false, std::memory_order_release);
  }
  return count;
}

void ThreadRunner::set_timer() noexcept {
  itimerspec at{};
  if (!delays_.empty()) {
    at.it_value.tv_sec = delays_.front().when / kSecond;
    at.it_value.tv_nsec = delays_.front().when % kSecond;
  }
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr);
}

}  // namespace

tl::expected<std::unique_ptr<StepRunner>, int> make_thread_runner(std::uint32_t depth) {
  auto runner = std::make_unique<ThreadRunner>(depth);
  if (const int error = runner->open()) return tl::unexpected(error);
  return runner;
}

}  // namespace rtrs::daemon
