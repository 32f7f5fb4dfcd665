#include "backends/platform/tls/renewal.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <utility>

#include "backends/platform/address/signals_blocked.hpp"

namespace rtrs::tls {
namespace {

constexpr std::chrono::milliseconds kPatience{Renewal::kPatienceMs};
constexpr std::chrono::seconds kEndPatience{1};

std::int64_t nanoseconds_of(const timespec& time) noexcept {
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

FileMark mark_file(const std::string& path) noexcept {
  struct stat about {};
  if (::stat(path.c_str(), &about) != 0) return {.error = errno};
  return {.error = 0,
          .device = about.st_dev,
          .inode = about.st_ino,
          .size = static_cast<std::uint64_t>(about.st_size),
          .modified = nanoseconds_of(about.st_mtim),
          .changed = nanoseconds_of(about.st_ctim)};
}

}  // namespace

FileMarks mark_files(const std::vector<std::string>& files) {
  FileMarks marks;
  marks.reserve(files.size());
  for (const std::string& file : files) marks.push_back(mark_file(file));
  return marks;
}

struct Renewal::Shared {
  // Accessed only by the second thread while it runs.
  std::vector<std::string> files;
  Read read;
  FileMarks used;           // marks of the files that the set in use was read from
  bool read_again = false;  // the last read failed

  std::mutex mutex;
  std::condition_variable done;
  bool busy = false;
  // Result of a read: new credentials or an error, never both.
  Set renewed;
  std::string refused;
};

Renewal::Renewal(std::vector<std::string> files, FileMarks seen, Read read, Tell tell, bool threads)
    : shared_(std::make_shared<Shared>()), tell_(std::move(tell)), threads_(threads) {
  shared_->files = std::move(files);
  shared_->used = std::move(seen);
  shared_->read = std::move(read);
}

Renewal::~Renewal() {
  std::unique_lock lock(shared_->mutex);
  shared_->done.wait_for(lock, kEndPatience, [this] { return !shared_->busy; });
}

void Renewal::work(const std::shared_ptr<Shared>& shared) {
  Set renewed;
  std::string refused;
  bool settled = true;
  FileMarks marks;
  try {
    marks = mark_files(shared->files);
    if (marks != shared->used || shared->read_again) {
      auto read = shared->read();
      // If a file changed during the read, the files may not match each other, so the next attempt reads them
      // again.
      settled = mark_files(shared->files) == marks;
      if (settled && read) renewed = std::move(*read);
      if (settled && !read) refused = std::move(read.error());
    }
  } catch (const std::bad_alloc&) {
    settled = false;
  }
  const std::lock_guard lock(shared->mutex);
  shared->read_again = !settled || !refused.empty();
  if (settled) shared->used = std::move(marks);
  if (renewed != nullptr || !refused.empty()) {
    shared->renewed = std::move(renewed);
    shared->refused = std::move(refused);
  }
  shared->busy = false;
  shared->done.notify_all();
}

// Precondition: the caller holds the lock. Returns false if the system has no thread or memory left; the
// credentials in use stay.
bool Renewal::start_thread() {
  const net::SignalsBlocked blocked;
  try {
    std::thread([shared = shared_] { work(shared); }).detach();
    shared_->busy = true;
  } catch (const std::exception&) {
    shared_->busy = false;
  }
  return shared_->busy;
}

Renewal::Set Renewal::look() {
  if (!threads_) {
    work(shared_);
  } else {
    std::unique_lock lock(shared_->mutex);
    // Does not wait for a thread that an earlier call started, because that call has already waited
    // `kPatience`.
    if (!shared_->busy && start_thread())
      shared_->done.wait_for(lock, kPatience, [this] { return !shared_->busy; });
  }
  return take();
}

Renewal::Set Renewal::take() {
  Set renewed;
  std::string refused;
  {
    const std::lock_guard lock(shared_->mutex);
    renewed = std::exchange(shared_->renewed, nullptr);
    refused = std::exchange(shared_->refused, {});
  }
  if (renewed != nullptr) {
    warned_.clear();
    if (tell_) tell_(false, "the key and certificate files have changed and were reloaded");
  } else if (!refused.empty() && refused != warned_) {
    if (tell_) tell_(true, refused + "; the previous content stays in use until the files are fixed");
    warned_ = std::move(refused);
  }
  return renewed;
}

}  // namespace rtrs::tls
