// The process that serves a session. The process holds a lock on a file until it ends. Therefore there is at
// most one such process per session, and a restarted urtrs-mapd can find it.
#pragma once
#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace rtrs::mapd {

// The files of a session in the run-time directory.
struct SessionFiles {
  std::string lock;     // lock file; contains the process id
  std::string nbd;      // socket for NBD clients
  std::string control;  // socket for "urtrs client"

  SessionFiles(const std::string& folder, const std::string& session);
  // Removes the files if the process has ended. Does nothing while any process holds the lock.
  void remove() const;
};
// Returns the sessions that have a lock file in `folder`.
std::vector<std::string> sessions_with_locks(const std::string& folder);

class Process {
 public:
  // Called once, from the event loop, when the process has ended. The callback may destroy the Process.
  using Gone = std::function<void()>;

  // Starts `command`. The error is a human-readable message. The process runs in a new session (setsid), so
  // that it receives no signals from a terminal and continues when this program ends.
  static tl::expected<std::unique_ptr<Process>, std::string> start(boost::asio::io_context&,
                                                                   const SessionFiles&,
                                                                   const std::vector<std::string>& command,
                                                                   Gone);
  // Returns the process that holds the lock; nullptr if no process does. If the lock is held but the file
  // does not contain the process id, the error is a human-readable message.
  static tl::expected<std::unique_ptr<Process>, std::string> adopt(boost::asio::io_context&,
                                                                   const SessionFiles&, Gone);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Returns the last error line that the process printed during its start, or the last line if none is an
  // error; may be empty.
  std::string last_error();
  void signal(int number) const;
  // Returns the command line of the process from /proc; empty if the process has ended.
  std::vector<std::string> command() const;
  pid_t pid() const noexcept { return pid_; }

 private:
  Process(boost::asio::io_context&, pid_t pid, int pidfd, Gone);
  void watch(Gone gone);
  // Reads what the process prints on standard error during its start.
  void listen(int said);
  struct Said;
  pid_t pid_;
  std::shared_ptr<Said> said_;                 // null for an adopted process
  boost::asio::posix::stream_descriptor end_;  // pidfd; readable when the process has ended
};

}  // namespace rtrs::mapd
