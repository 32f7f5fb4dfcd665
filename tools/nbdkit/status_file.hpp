// The status file: checked before the start, written by a thread of its own, so that a file system that hangs
// stops neither IO nor the session.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace rtrs::nbdkit {

// Why `file` cannot become the status file, as a sentence; empty when it can. A file that exists has to be a
// regular one, empty or with a status of this plugin, so that a mistyped name destroys nothing.
std::string check_status_file(const std::string& file);

// The variable with the umask, octal, that the user started nbdkit-urtrs with.
inline constexpr const char* kMaskVariable = "URTRS_UMASK";

// Writes beside `file` and renames. 0 or an errno; EEXIST where `file` or the one beside it exists and is not
// a regular file, which then stays as it is.
int replace_file(const std::string& file, const std::string& content);

class LatestWriter {
 public:
  using Write = std::function<int(const std::string& content)>;  // 0 or an errno

  // `write` is called from the thread only, and may block for as long as it likes. Not before the last fork.
  // The destructor waits at most `patience` until the last content is written.
  explicit LatestWriter(Write write, std::chrono::milliseconds patience = std::chrono::seconds(2));
  ~LatestWriter();
  LatestWriter(const LatestWriter&) = delete;
  LatestWriter& operator=(const LatestWriter&) = delete;

  // From any thread; never waits for a write. A content whose write has not begun is replaced.
  void put(std::string content);
  // Of the last write that returned: 0 or an errno.
  int last_error() const;

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);

  // Shared with the thread, which outlives the writer where write() does not return.
  std::shared_ptr<State> state_;
  std::chrono::milliseconds patience_;
};

}  // namespace rtrs::nbdkit
