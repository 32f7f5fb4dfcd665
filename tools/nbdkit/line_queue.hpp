// Prints lines for the user in a separate thread. So neither IO nor the session blocks if no process reads
// standard error or if syslog hangs.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace rtrs::nbdkit {

class LineQueue {
 public:
  using Print = std::function<void(bool important, const std::string& line)>;
  static constexpr std::size_t kCapacity = 256;

  // Returns a prefix for a line, for example the time. Called when the line is queued.
  using Stamp = std::function<std::string()>;

  // Starts the thread, so the queue must be created after the last fork. Only that thread calls `print`,
  // which may block. Any thread may call `stamp`. The destructor waits at most `patience` until the queued
  // lines are printed.
  explicit LineQueue(
      Print print, std::chrono::milliseconds patience = std::chrono::seconds(1),
      Stamp stamp = [] { return std::string(); });
  ~LineQueue();
  LineQueue(const LineQueue&) = delete;
  LineQueue& operator=(const LineQueue&) = delete;

  // Queues a line. Thread-safe; never blocks. If the queue is full, the line is dropped, and the number of
  // dropped lines is printed later.
  void push(bool important, const std::string& line);

  // Kinds of lines that clients can cause without limit. Every ten seconds, a few lines of each kind are
  // printed, and the others are only counted.
  enum class Flood : std::uint8_t { refused_export, failed_request, count };
  void push(Flood kind, const std::string& line);

 private:
  struct State;
  static std::string suppressed_summary(State& state);
  static void run(const std::shared_ptr<State>& state);

  // This state is shared with the thread, which may outlive the queue if print() does not return.
  std::shared_ptr<State> state_;
  std::chrono::milliseconds patience_;
};

}  // namespace rtrs::nbdkit
