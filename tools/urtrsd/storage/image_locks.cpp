#include "tools/urtrsd/storage/image_locks.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "tools/urtrsd/storage/host_holders.hpp"

namespace rtrs::daemon {
namespace {

struct flock whole_file(short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

bool is_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

std::string process_name(const std::string& pid) {
  const std::string name = first_line("/proc/" + pid + "/comm");
  return "process " + pid + (name.empty() ? "" : " (" + name + ")");
}

// Returns the identity of a file as in /proc/locks (proc(5)), for example "08:01:1234"; the inode is decimal,
// the device hexadecimal.
std::string lock_name(const struct stat& status) {
  char text[64];
  std::snprintf(text, sizeof text, " %02x:%02x:%lu ", major(status.st_dev), minor(status.st_dev),
                static_cast<unsigned long>(status.st_ino));
  return text;
}

// True if a process holds the lock. An open file description lock has no process id, so /proc/locks does not
// help. Only /proc/PID/fdinfo/FD shows the lock, and only processes with the permission to read that file see
// it.
bool holds_lock(const std::filesystem::path& process, const std::string& name, int& budget) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(process / "fdinfo", error)) {
    if (--budget < 0) return false;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);)
      if (line.rfind("lock:", 0) == 0 && line.find(name) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

std::string lock_holder(int fd, bool write) {
  constexpr int kMaxDescriptors = 20000;
  struct flock lock = whole_file(write ? F_WRLCK : F_RDLCK);
  struct stat status {};
  if (::fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK && lock.l_pid > 0)
    return process_name(std::to_string(lock.l_pid));
  if (::fstat(fd, &status) != 0) return "another process";
  const std::string name = lock_name(status);
  const std::string self = std::to_string(::getpid());
  int budget = kMaxDescriptors;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string pid = entry.path().filename();
    if (is_number(pid) && pid != self && holds_lock(entry.path(), name, budget)) return process_name(pid);
  }
  return "another process";
}

std::vector<std::string> ImageLocks::others(const Located& located, bool write,
                                            const std::string& described) {
  const UniqueFd fd = reopen(located, O_RDONLY);
  struct flock lock = whole_file(write ? F_WRLCK : F_RDLCK);
  // F_OFD_GETLK also works with a descriptor that is open only for reading. If the file cannot be opened
  // here, no warning is needed, because the later open reports the error.
  if (!fd || ::fcntl(fd.get(), F_OFD_GETLK, &lock) != 0 || lock.l_type == F_UNLCK) return {};
  return {described + " is in use by " + lock_holder(fd.get(), write) +
          ", which holds a lock on it; urtrsd cannot start until the lock is released"};
}

std::shared_ptr<ImageLocks::Image> ImageLocks::image_of(const DeviceId& id) {
  const std::lock_guard guard(mutex_);
  std::erase_if(images_, [](const auto& one) { return one.second.expired(); });
  auto image = images_[id].lock();
  if (!image) images_[id] = image = std::make_shared<Image>();
  return image;
}

std::optional<OpenError> ImageLocks::host_use(const Located& located, const Use& use,
                                              const std::string& described) {
  if (!use.write || use.force) return std::nullopt;
  const std::string holders = host_holders(located);
  if (holders.empty()) return std::nullopt;
  return OpenError{EBUSY, in_use_by_host(described, holders)};
}

// Locks the image and, if necessary, claims it. Returns 0 or an errno. EAGAIN: another process holds the
// lock. EBUSY: this host has claimed the device.
int ImageLocks::set(Image& image, const Located& located, const Use& use) {
  const bool claims = use.claims(located);
  UniqueFd before;
  const bool claimed_before = image.claimed;
  if (!image.fd || (use.write && !image.fd_writes) || (claims && !image.claimed)) {
    UniqueFd fd = reopen(located, (use.write ? O_RDWR : O_RDONLY) | (claims ? O_EXCL : 0));
    if (!fd) return errno;
    // The previous file description is unlocked, because its read lock would conflict with the new lock.
    before = std::exchange(image.fd, std::move(fd));
    image.claimed = claims;
    if (before) {
      struct flock unlock = whole_file(F_UNLCK);
      ::fcntl(before.get(), F_OFD_SETLK, &unlock);
    }
  }
  struct flock lock = whole_file(use.write ? F_WRLCK : F_RDLCK);
  int result = ::fcntl(image.fd.get(), F_OFD_SETLK, &lock) == 0 ? 0 : errno;
  if (result == EACCES) result = EAGAIN;  // POSIX allows both errors for a conflicting lock
  if (result == 0) {
    image.fd_writes = image.fd_writes || use.write;
    image.strength = use.write ? Strength::write : Strength::read;
  } else if (before) {
    image.fd = std::move(before);
    image.claimed = claimed_before;
    lock = whole_file(image.strength == Strength::write ? F_WRLCK : F_RDLCK);
    ::fcntl(image.fd.get(), F_OFD_SETLK, &lock);
  }
  return result;
}

tl::expected<ImageLocks::Hold, OpenError> ImageLocks::acquire(const Located& located, const Use& use,
                                                              const std::string& described) {
  if (located.id.kind == ExportKind::file)
    if (auto used = host_use(located, use, described)) return tl::unexpected(std::move(*used));
  auto image = image_of(located.id);
  const std::lock_guard guard(image->mutex);
  Hold hold;
  const char* const purpose = use.write ? "writing" : "reading";
  const bool locked = image->strength == Strength::write || (image->strength == Strength::read && !use.write);
  const bool enough = locked && (image->claimed || !use.claims(located));
  const int error = enough ? 0 : set(*image, located, use);
  if (error == EAGAIN) {
    const std::string holder = lock_holder(image->fd.get(), use.write);
    if (image->readers + image->writers == 0) close(*image);
    return refuse(EBUSY, described + " is in use by " + holder +
                             ", which holds a lock on it: it cannot be opened for " + purpose);
  }
  if (error == EBUSY && use.write && located.id.kind == ExportKind::block_device)
    return refuse(EBUSY, in_use_by_host(described, host_holders(located)));
  if (error != 0 && !image->fd)
    return refuse(error, described + " cannot be opened for " + purpose + ": " + errno_text(error));
  if (error != 0)
    hold.warning_ = described + " cannot be locked: " + errno_text(error) +
                    "; another server could write to it at the same time";
  if (use.write && use.force)
    if (const std::string holders = host_holders(located); !holders.empty())
      hold.warning_ =
          described + " is opened for writing because of \"force\", although this host uses it: " + holders;
  hold.image_ = image;
  hold.write_ = use.write;
  ++(use.write ? image->writers : image->readers);
  return hold;
}

void ImageLocks::close(Image& image) noexcept {
  image.fd.reset();
  image.fd_writes = image.claimed = false;
  image.strength = Strength::none;
}

ImageLocks::Hold& ImageLocks::Hold::operator=(Hold&& other) noexcept {
  if (this != &other) {
    release();
    image_ = std::move(other.image_);
    write_ = other.write_;
    warning_ = std::move(other.warning_);
  }
  return *this;
}

void ImageLocks::Hold::release() noexcept {
  const std::shared_ptr<Image> image = std::exchange(image_, nullptr);
  if (!image) return;
  const std::lock_guard guard(image->mutex);
  --(write_ ? image->writers : image->readers);
  if (image->writers == 0 && image->readers == 0)
    close(*image);
  else if (image->writers == 0)
    give_up_writing(*image);
}

// Called when only readers are left. Downgrades the lock to a read lock and ends the claim, so that the host
// can use the device again. If /proc is not available, the claim lasts until the last reader closes the
// device.
void ImageLocks::give_up_writing(Image& image) noexcept {
  struct flock lock = whole_file(F_RDLCK);
  if (image.strength == Strength::write && ::fcntl(image.fd.get(), F_OFD_SETLK, &lock) == 0)
    image.strength = Strength::read;
  if (!image.claimed) return;
  const std::string self = "/proc/self/fd/" + std::to_string(image.fd.get());
  UniqueFd fd(::open(self.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd || ::fcntl(fd.get(), F_OFD_SETLK, &lock) != 0) return;
  image.fd = std::move(fd);
  image.fd_writes = image.claimed = false;
}

}  // namespace rtrs::daemon
