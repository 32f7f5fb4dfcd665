#include "core/record/writer.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "core/base/crc32c.hpp"

namespace rtrs::trace {
namespace {

// Number of blocks whose index entries are allocated at the start: 1 GiB of trace without an allocation while
// recording.
constexpr std::size_t kIndexReserve = std::size_t{1} << 14;

}  // namespace

FdSink::~FdSink() {
  ::close(fd_);
}

namespace {

// A write beyond the file size limit (ulimit -f) raises a signal that ends the program. If the signal is
// blocked during the write, the write fails with EFBIG instead.
class NoFileSizeSignal {
 public:
  NoFileSizeSignal() noexcept {
    sigemptyset(&set_);
    sigaddset(&set_, SIGXFSZ);
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~NoFileSizeSignal() {
    if (sigismember(&before_, SIGXFSZ) == 1) return;
    const timespec at_once{};
    ::sigtimedwait(&set_, nullptr, &at_once);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoFileSizeSignal(const NoFileSizeSignal&) = delete;
  NoFileSizeSignal& operator=(const NoFileSizeSignal&) = delete;

 private:
  sigset_t set_;
  sigset_t before_;
};

}  // namespace

int FdSink::write(const void* bytes, std::size_t size) noexcept {
  const NoFileSizeSignal held;
  const auto* at = static_cast<const char*>(bytes);
  while (size != 0) {
    const ssize_t written = ::write(fd_, at, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return written == 0 ? EIO : errno;
    at += written;
    size -= static_cast<std::size_t>(written);
  }
  return 0;
}

namespace {

bool is_own(const struct stat& status) noexcept {
  return status.st_uid == ::geteuid() || status.st_uid == 0;
}

// In a folder where every user may create files, such as /tmp, another user could redirect a trace: by a
// symbolic link, or by a file that this user keeps open. Linux prevents both only if fs.protected_symlinks
// and fs.protected_regular are set.
bool is_public_folder(const std::string& path) noexcept {
  struct stat status {};
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  return ::stat(folder.c_str(), &status) == 0 && (status.st_mode & S_ISVTX) != 0 &&
         (status.st_mode & S_IWOTH) != 0;
}

// Opens a file for a trace with open(2). Follows a symbolic link unless another user created it in a public
// folder. EPERM: the link or the file belongs to another user.
int open_own(const char* path, int flags) noexcept {
  std::string name = path;
  const bool is_public = is_public_folder(name);
  int fd = ::open(path, flags | (is_public ? O_NOFOLLOW : 0) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
  struct stat status {};
  if (fd >= 0) {
    if (!is_public || (::fstat(fd, &status) == 0 && is_own(status))) return fd;
    ::close(fd);
    errno = EPERM;
    return -1;
  }
  if (!is_public || errno != ELOOP) return -1;
  // The owner is read from the opened link, not by name, because the name may refer to another link by then.
  const int link = ::open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (link < 0) return -1;
  char target[PATH_MAX];
  const bool own = ::fstat(link, &status) == 0 && is_own(status);
  const ssize_t size = own ? ::readlinkat(link, "", target, sizeof target) : -1;
  ::close(link);
  errno = own ? ELOOP : EPERM;
  if (size <= 0 || static_cast<std::size_t>(size) == sizeof target) return -1;
  const std::string to(target, static_cast<std::size_t>(size));
  name = to.front() == '/' ? to : name.substr(0, name.rfind('/') + 1) + to;
  return ::open(name.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0600);
}

// Opens the file at `path` for reading and writing if a trace may replace it. Returns -1 and sets errno on
// failure; ENOENT if there is no file. Anything but a regular file is not opened, because opening alone can
// block or have side effects.
int open_replaceable(const char* path) noexcept {
  struct stat status {};
  if (::stat(path, &status) != 0) return -1;
  errno = EEXIST;
  if (!S_ISREG(status.st_mode)) return -1;
  const int fd = open_own(path, O_RDWR);
  if (fd < 0) return -1;
  char begin[kMagic.size()];
  ssize_t size = -1;
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) size = ::pread(fd, begin, sizeof begin, 0);
  // If the disk was full from the start, the file may contain only part of the magic.
  if (size >= 0 && kMagic.substr(0, static_cast<std::size_t>(size)) ==
                       std::string_view(begin, static_cast<std::size_t>(size)))
    return fd;
  ::close(fd);
  errno = EEXIST;
  return -1;
}

}  // namespace

int may_replace(const char* path) noexcept {
  const int fd = open_replaceable(path);
  if (fd < 0) return errno == ENOENT ? 0 : errno;
  ::close(fd);
  return 0;
}

std::string file_error_text(int error) {
  if (error == EEXIST) return "the file exists and is neither empty nor a trace; use another file";
  if (error == EPERM)
    return "not permitted (files and links that another user created in a public folder are not used); use a "
           "file in a folder of your own";
  return std::generic_category().message(error);
}

std::unique_ptr<FdSink> FdSink::create(const char* path, int& error) {
  int fd = open_replaceable(path);
  // No O_EXCL, because the name may be a link to a file that does not exist yet.
  if (fd < 0 && errno == ENOENT) fd = open_own(path, O_WRONLY | O_CREAT);
  if (fd < 0) {
    error = errno;
    return nullptr;
  }
  // A replaced file would otherwise keep its mode. Failure is ignored: then another user owns the file and
  // has chosen its mode.
  (void)!::fchmod(fd, 0600);
  error = ::ftruncate(fd, 0) == 0 ? 0 : errno;
  auto sink = std::make_unique<FdSink>(fd);
  return error == 0 ? std::move(sink) : nullptr;
}

int StringSink::write(const void* bytes, std::size_t size) noexcept {
  try {
    to_.append(static_cast<const char*>(bytes), size);
    return 0;
  } catch (const std::exception&) {
    return ENOMEM;
  }
}

Writer::Writer(std::unique_ptr<Sink> sink)
    : sink_(std::move(sink)), frame_(kFrameHeadSize + kMaxBlock + kCrcSize) {
  if (sink_) index_.reserve(kIndexReserve);
}

int Writer::start(const Header& header) {
  const std::string bytes = encode_header(header);
  return bytes.empty() ? EOVERFLOW : write(bytes.data(), bytes.size());
}

int Writer::append(KindId kind, InstanceId instance, const void* value) noexcept {
  std::uint8_t record[kMaxBuiltinRecord];
  const std::uint8_t* end = put_record(record, kind, instance, value, last_time_);
  return end == nullptr ? EINVAL : commit(record, static_cast<std::size_t>(end - record));
}

bool Writer::reserve_note() noexcept {
  try {
    note_.resize(kMaxBuiltinRecord + kMaxHead);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

int Writer::append_values(const EventInfo& event, InstanceId instance, Nanos time,
                          std::span<const Value> values) {
  std::uint8_t head[3 * kMaxVarint];
  std::string record(reinterpret_cast<const char*>(head),
                     put_record_head(head, event.id, instance, time, last_time_) - head);
  if (!put_values(record, event, values)) return EINVAL;
  if (record.size() > kMaxBlock) return EOVERFLOW;
  const Nanos before = last_time_;
  last_time_ = time;
  const int error = commit(record.data(), record.size());
  if (error != 0) last_time_ = before;
  return error;
}

// Precondition: last_time_ is the time of the record.
int Writer::commit(const void* record, std::size_t size) noexcept {
  if (used_ + size > kMaxBlock) {
    // flush() needs the time of the last record in this block for the next block.
    std::uint64_t delta = 0;
    const auto* at = static_cast<const std::uint8_t*>(record);
    const std::uint8_t* const end = at + size;
    for (int i = 0; i < 3; ++i) at = get_varint(at, end, delta);
    const Nanos time = last_time_;
    last_time_ = time - static_cast<std::uint64_t>(unzigzag(delta));
    const int error = flush();
    last_time_ = time;
    if (error != 0) return error;
  }
  std::memcpy(frame_.data() + kFrameHeadSize + used_, record, size);
  used_ += size;
  ++count_;
  return 0;
}

int Writer::flush() noexcept {
  if (count_ == 0) return 0;
  if (sink_) {
    try {
      index_.push_back({offset_, first_seq_, base_time_});
    } catch (const std::bad_alloc&) {
      return ENOMEM;
    }
    encode_frame_head({kBlockTag, static_cast<std::uint32_t>(used_), count_, first_seq_, base_time_},
                      frame_.data());
    const std::size_t covered = kFrameHeadSize + used_;
    put_u32(frame_.data() + covered, crc32c(frame_.data(), covered));
    if (const int error = write(frame_.data(), covered + kCrcSize)) return error;
  }
  chain_.add(payload(), used_);
  first_seq_ += count_;
  base_time_ = last_time_;
  used_ = 0;
  count_ = 0;
  return 0;
}

int Writer::finish() noexcept {
  if (const int error = flush()) return error;
  if (!sink_) return 0;
  const std::uint64_t trailer_offset = offset_;
  std::uint8_t bytes[kFrameHeadSize];
  encode_frame_head({kTrailerTag, static_cast<std::uint32_t>(index_.size() * kIndexEntrySize),
                     static_cast<std::uint32_t>(index_.size()), first_seq_, chain_.value()},
                    bytes);
  std::uint32_t crc = crc32c(bytes, kFrameHeadSize);
  if (const int error = write(bytes, kFrameHeadSize)) return error;
  // Uses the block's buffer, which is empty now.
  std::size_t filled = 0;
  for (std::size_t i = 0; i < index_.size(); ++i) {
    encode_index_entry(index_[i], frame_.data() + filled);
    filled += kIndexEntrySize;
    if (filled + kIndexEntrySize <= kMaxBlock && i + 1 != index_.size()) continue;
    crc = crc32c(frame_.data(), filled, crc);
    if (const int error = write(frame_.data(), filled)) return error;
    filled = 0;
  }
  put_u32(bytes, crc);
  put_u64(bytes + kCrcSize, trailer_offset);
  std::memcpy(bytes + kCrcSize + 8, kEndMagic.data(), kEndMagic.size());
  return write(bytes, kCrcSize + kFooterSize);
}

int Writer::write(const void* bytes, std::size_t size) noexcept {
  if (!sink_) return 0;
  if (const int error = sink_->write(bytes, size)) return error;
  offset_ += size;
  return 0;
}

}  // namespace rtrs::trace
