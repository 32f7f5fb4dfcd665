// Reads certificates and keys again when their files have changed, so that a client uses the new ones at its
// next connection attempt. docs/security.md describes the behaviour for administrators.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace rtrs::tls {

// Attributes of a file that change when the file is replaced or written.
struct FileMark {
  int error = 0;  // errno of stat(2); if set, all other members are 0
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;     // in bytes
  std::int64_t modified = 0;  // mtime and ctime, nanoseconds since 1970
  std::int64_t changed = 0;
  bool operator==(const FileMark&) const = default;
};
using FileMarks = std::vector<FileMark>;
FileMarks mark_files(const std::vector<std::string>& files);

// Used by one thread. A second thread reads the files, because their file system may hang, or may be on the
// device that the caller serves.
class Renewal {
 public:
  // The keys and certificates of all files, parsed and ready for use.
  using Set = std::shared_ptr<const void>;
  // Reads all files; the error is a message that names the unusable file. Called by the second thread.
  using Read = std::function<tl::expected<Set, std::string>()>;
  // Receives a line for the log; called from look().
  using Tell = std::function<void(bool warning, const std::string& sentence)>;

  // `seen`: result of mark_files(files), taken before the set in use was read. `threads`: false if the
  // process must not start threads; look() then reads the files itself, without a time limit.
  Renewal(std::vector<std::string> files, FileMarks seen, Read, Tell, bool threads = true);
  // Waits at most 1 s for the second thread; a thread that hangs longer outlives the object.
  ~Renewal();
  Renewal(const Renewal&) = delete;
  Renewal& operator=(const Renewal&) = delete;

  // Call before each connection attempt. Returns the new set, or null if the set in use stays. If changed
  // files cannot be used, logs one warning, and every call reads them again until they can. Waits at most
  // `kPatienceMs` for the files; a later call returns a set that was read later. Does not wait while an
  // earlier read hangs.
  Set look();
  static constexpr std::uint64_t kPatienceMs = 50;

 private:
  struct Shared;
  static void work(const std::shared_ptr<Shared>&);
  bool start_thread();
  Set take();

  std::shared_ptr<Shared> shared_;
  Tell tell_;
  const bool threads_;
  std::string warned_;  // the last warning; empty: the files could be used
};

}  // namespace rtrs::tls
