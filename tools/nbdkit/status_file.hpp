// The status file. The plugin checks the file before the start, and writes it in a separate thread, so that a
// hanging file system blocks neither IO nor the session.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>

namespace rtrs::nbdkit {

// Returns the reason why `file` cannot be the status file; empty if it can. An existing file must be empty or
// contain a status of this plugin, and must be a regular file, so that a mistyped name overwrites nothing.
std::string check_status_file(const std::string& file);

// Environment variable that contains, in octal, the umask of the user who started nbdkit-urtrs.
inline constexpr const char* kMaskVariable = "URTRS_UMASK";

// Writes `file`.new and renames it to `file`. Returns 0 or an errno. Error EEXIST: `file` or `file`.new
// exists and is not a regular file; it is not changed.
int replace_file(const std::string& file, const std::string& content);

class LatestWriter {
 public:
  using Write = std::function<int(const std::string& content)>;  // returns 0 or an errno

  // Starts a thread, so the writer must be created after the last fork. Only that thread calls `write`, which
  // may block. The destructor waits at most `patience` until the last content is written.
  explicit LatestWriter(Write write, std::chrono::milliseconds patience = std::chrono::seconds(2));
  ~LatestWriter();
  LatestWriter(const LatestWriter&) = delete;
  LatestWriter& operator=(const LatestWriter&) = delete;

  // Sets the content to write next. Replaces content whose write has not started yet. Thread-safe; does not
  // wait for a write.
  void put(std::string content);
  // Result of the last finished write: 0 or an errno.
  int last_error() const;

 private:
  struct State;
  static void run(const std::shared_ptr<State>& state);

  // This state is shared with the thread, which may outlive the writer if write() does not return.
  std::shared_ptr<State> state_;
  std::chrono::milliseconds patience_;
};

}  // namespace rtrs::nbdkit
