// The process that serves a session, and how it is known that there is one only: it holds a lock on a file
// for as long as it lives, whoever started it. So one that runs is found again by a later urtrs-mapd.
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

// In the run-time folder, of one session.
struct SessionFiles {
  std::string lock;     // with the number of the process
  std::string nbd;      // socket for NBD clients
  std::string control;  // socket for "urtrs client"

  SessionFiles(const std::string& folder, const std::string& session);
  // What a process left behind; nothing while one holds the lock, known or not.
  void remove() const;
};
// Sessions that have a lock file in `folder`.
std::vector<std::string> sessions_with_locks(const std::string& folder);

class Process {
 public:
  // It has ended: called once, from the event loop. It may destroy the Process.
  using Gone = std::function<void()>;

  // Runs `command`; the error is a sentence. It is in a session of its own, so that signals of a terminal do
  // not reach it, and it goes on when this program ends.
  static tl::expected<std::unique_ptr<Process>, std::string> start(boost::asio::io_context&,
                                                                   const SessionFiles&,
                                                                   const std::vector<std::string>& command,
                                                                   Gone);
  // The one that holds the lock; nullptr: none does. The error is a sentence: somebody else has it.
  static tl::expected<std::unique_ptr<Process>, std::string> adopt(boost::asio::io_context&,
                                                                   const SessionFiles&, Gone);
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  // Why it did not start, in its own words: what it said last, errors first. Empty: nothing.
  std::string last_error();
  void signal(int number) const;
  // Its words, as the kernel has them; empty: it has ended.
  std::vector<std::string> command() const;
  pid_t pid() const noexcept { return pid_; }

 private:
  Process(boost::asio::io_context&, pid_t pid, int pidfd, Gone);
  void watch(Gone gone);
  // Hears its standard error while it starts.
  void listen(int said);
  struct Said;
  pid_t pid_;
  std::shared_ptr<Said> said_;                 // null: one that was there before
  boost::asio::posix::stream_descriptor end_;  // readable when it has ended
};

}  // namespace rtrs::mapd
