// Runs calls in threads that may block as long as a disk does: opening and closing devices.
#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <thread>

namespace rtrs::daemon {

// Each job runs in its own thread, at most kThreads jobs of one lane at a time; further jobs of the lane wait
// in order. All functions must be called from the thread of the io_context.
class BlockingJobs {
 public:
  static constexpr unsigned kThreads = 4;
  using Lane = std::uint64_t;
  // A job runs in a separate thread. The function that the job returns then runs in the thread of the
  // io_context.
  using Job = std::function<std::function<void()>()>;

  explicit BlockingJobs(boost::asio::io_context& context) : context_(context) {}
  BlockingJobs(const BlockingJobs&) = delete;
  BlockingJobs& operator=(const BlockingJobs&) = delete;
  // Requires that all jobs have ended; otherwise the process must end without running destructors.
  ~BlockingJobs();

  void run(Lane lane, Job job);
  std::size_t unfinished() const noexcept { return unfinished_; }

 private:
  struct Queue {
    unsigned running = 0;
    std::deque<Job> waiting;
  };
  void start(Lane lane, Job job);
  void ended(Lane lane);

  boost::asio::io_context& context_;
  std::map<Lane, Queue> lanes_;
  std::map<std::uint64_t, std::thread> threads_;
  std::uint64_t next_thread_ = 0;
  std::size_t unfinished_ = 0;
};

}  // namespace rtrs::daemon
