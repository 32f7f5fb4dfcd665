#include "tools/urtrsd/blocking_jobs.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <system_error>
#include <utility>

namespace rtrs::daemon {

BlockingJobs::~BlockingJobs() {
  for (auto& [number, thread] : threads_) thread.join();
}

void BlockingJobs::run(Lane lane, Job job) {
  ++unfinished_;
  Queue& queue = lanes_[lane];
  if (queue.running == kThreads) {
    queue.waiting.push_back(std::move(job));
    return;
  }
  ++queue.running;
  start(lane, std::move(job));
}

void BlockingJobs::start(Lane lane, Job job) {
  const std::uint64_t number = next_thread_++;
  auto guard = boost::asio::make_work_guard(context_);
  auto body = [this, lane, number, job, guard] {
    const std::function<void()> then = job();
    boost::asio::post(context_, [this, lane, number, then] {
      if (const auto found = threads_.find(number); found != threads_.end()) {
        found->second.join();
        threads_.erase(found);
      }
      ended(lane);
      then();
    });
  };
  try {
    threads_[number] = std::thread(body);
  } catch (const std::system_error&) {  // no thread can be started: run the job in the calling thread
    threads_.erase(number);
    body();
  }
}

void BlockingJobs::ended(Lane lane) {
  --unfinished_;
  Queue& queue = lanes_[lane];
  if (!queue.waiting.empty()) {
    Job next = std::move(queue.waiting.front());
    queue.waiting.pop_front();
    start(lane, std::move(next));
  } else if (--queue.running == 0) {
    lanes_.erase(lane);
  }
}

}  // namespace rtrs::daemon
