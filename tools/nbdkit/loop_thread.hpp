// An event loop that runs in a separate thread. Other threads can execute functions in it.
#pragma once
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/error_code.hpp>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace rtrs::nbdkit {

class LoopThread {
 public:
  using Error = boost::system::error_code;

  // Starts the thread with all signals blocked, because signals belong to the host program.
  LoopThread();
  // Waits until the loop has no more work. No thread may be in call().
  ~LoopThread();
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  boost::asio::io_context& context() noexcept { return context_; }

  // Calls `start(done)` in the loop and waits until done(error) is called there, which must happen exactly
  // once. May be called from any thread except the loop thread; `start` may refer to the stack of the caller.
  template <class Start>
  Error call(Start&& start) {
    Waiter waiter;
    boost::asio::post(context_, [&waiter, &start] { start([&waiter](Error error) { waiter.tell(error); }); });
    return waiter.wait();
  }
  // Calls `task()` in the loop and waits until it returns.
  template <class Task>
  void run(Task&& task) {
    call([&task](auto done) {
      task();
      done(Error{});
    });
  }

 private:
  // This object is on the stack of the waiting thread, which may return as soon as the mutex is released.
  // Therefore tell() must not access the object after that.
  class Waiter {
   public:
    void tell(Error error) {
      const std::lock_guard lock(mutex_);
      result_ = error;
      changed_.notify_one();
    }
    Error wait() {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return result_.has_value(); });
      return *result_;
    }

   private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::optional<Error> result_;
  };

  boost::asio::io_context context_{1};
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work_;
  std::thread thread_;
};

}  // namespace rtrs::nbdkit
