// Lines for the user, printed by a thread of their own: standard error that nobody reads, or a syslog that
// hangs, stops neither IO nor the session.
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

  // Returns the text in front of a line, for example the time. Called when the line is pushed.
  using Stamp = std::function<std::string()>;

  // `print` is called from the thread only, and may block for as long as it likes. Not before the last fork.
  // The destructor waits at most `patience` for lines that are not printed yet. `stamp`: from any thread.
  explicit LineQueue(
      Print print, std::chrono::milliseconds patience = std::chrono::seconds(1),
      Stamp stamp = [] { return std::string(); });
  ~LineQueue();
  LineQueue(const LineQueue&) = delete;
  LineQueue& operator=(const LineQueue&) = delete;

  // From any thread; never blocks. Lines that find the queue full are left out, and their number is printed
  // later.
  void push(bool important, const std::string& line);

  // Lines that clients can cause as often as they like. Of each kind a few in ten seconds are printed, and
  // the others counted.
  enum class Flood : std::uint8_t { refused_export, failed_request, count };
  void push(Flood kind, const std::string& line);

 private:
  struct State;
  static std::string kept_back(State& state);
  static void run(const std::shared_ptr<State>& state);

  // Shared with the thread, which outlives the queue where print() does not return.
  std::shared_ptr<State> state_;
  std::chrono::milliseconds patience_;
};

}  // namespace rtrs::nbdkit
