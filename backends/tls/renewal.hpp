// Files that are read again when they change: certificates and keys of a client, which connects again and
// again while they are renewed. docs/security.md has what an administrator sees of it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace rtrs::tls {

// Tells a changed file from an unchanged one without reading it.
struct FileMark {
  int error = 0;  // errno of stat(2); then the rest is 0
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t size = 0;     // bytes
  std::int64_t modified = 0;  // mtime and ctime, nanoseconds since 1970
  std::int64_t changed = 0;
  bool operator==(const FileMark&) const = default;
};
using FileMarks = std::vector<FileMark>;
FileMarks mark_files(const std::vector<std::string>& files);

// One thread calls it. A thread of its own looks at the files, because their file system may hang, or be on
// the very device that the caller serves.
class Renewal {
 public:
  // Keys and certificates in the form in which they are used.
  using Set = std::shared_ptr<const void>;
  // Reads all of the files; the error is a sentence that names one. Called by the other thread.
  using Read = std::function<tl::expected<Set, std::string>()>;
  // A line for the log, from the thread that calls look().
  using Tell = std::function<void(bool warning, const std::string& sentence)>;

  // `seen`: of `files`, marked before the set that is in use was read from them.
  // `threads`: false where the process must not get any; then look() waits for the files itself.
  Renewal(std::vector<std::string> files, FileMarks seen, Read, Tell, bool threads = true);
  // Waits up to a second for its thread; one that hangs longer outlives it.
  ~Renewal();
  Renewal(const Renewal&) = delete;
  Renewal& operator=(const Renewal&) = delete;

  // Before a connection attempt. The new set, or null: use the one from before. Files that changed and cannot
  // be used are warned of once, and tried again with each call until they can. Returns within
  // `kPatienceMs`; while the file system hangs, at once: what it answers later, a later call returns.
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
  std::string warned_;  // of files that cannot be used now; empty: they can
};

}  // namespace rtrs::tls
