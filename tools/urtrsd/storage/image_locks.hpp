// Locks exported files and devices, so that two servers, or a server and a virtual machine, do not write to
// the same image.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "tools/urtrsd/storage/export.hpp"

namespace rtrs::daemon {

// Holds one lock per device for all sessions of this process: a read lock while all sessions only read, a
// write lock while a session may write. The locks are open file description locks (fcntl F_OFD_SETLK) on the
// whole file. They are advisory, are released when the process ends, and conflict with the locks of QEMU. On
// a file system without locks the image is used unlocked, with a warning. A block device is locked through
// its node in /dev.
//
// A block device that is opened for writing is also claimed (O_EXCL). The claim fails while the device is
// mounted, used as swap, part of device-mapper or md, or claimed by another process. The host cannot begin
// such a use until the claim ends. A file is refused while a loop device of this host can write to the file.
// `force` skips both checks.
//
// Thread-safe. Blocks while the file system does; calls for other devices are not delayed.
class ImageLocks {
 public:
  class Hold;

  struct Use {
    bool write = false;
    bool force = false;  // allow writing without a claim
    bool claims(const Located& located) const noexcept {
      return write && !force && located.id.kind == ExportKind::block_device;
    }
  };
  // Locks a device for a session. Error EBUSY: the text names the holder of the lock or of the claim, if that
  // can be found.
  tl::expected<Hold, OpenError> acquire(const Located& located, const Use& use, const std::string& described);
  // Returns an error if this host is known to use the device in a way that forbids `use`. Uses that only a
  // claim would detect are not found.
  static std::optional<OpenError> host_use(const Located& located, const Use& use,
                                           const std::string& described);
  // Returns a warning if acquire() would fail with EBUSY. Takes no lock, not even briefly, so that it cannot
  // disturb a server that locks the image at the same time.
  static std::vector<std::string> others(const Located& located, bool write, const std::string& described);

 private:
  // Lock and claim on one device. `strength` is the lock that `fd` holds.
  enum class Strength : std::uint8_t { none, read, write };
  struct Image {
    std::mutex mutex;
    UniqueFd fd;
    bool fd_writes = false;
    bool claimed = false;  // `fd` holds the exclusive claim
    Strength strength = Strength::none;
    std::uint32_t readers = 0;
    std::uint32_t writers = 0;
  };
  static int set(Image& image, const Located& located, const Use& use);
  static void give_up_writing(Image& image) noexcept;
  static void close(Image& image) noexcept;
  std::shared_ptr<Image> image_of(const DeviceId& id);

  std::mutex mutex_;
  std::map<DeviceId, std::weak_ptr<Image>> images_;

  friend class Hold;
};

// The lock of one session. The destructor releases lock and claim, which may block as acquire() does.
class ImageLocks::Hold {
 public:
  Hold() = default;
  Hold(Hold&& other) noexcept = default;
  Hold& operator=(Hold&& other) noexcept;
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  ~Hold() { release(); }
  void release() noexcept;
  const std::string& warning() const noexcept { return warning_; }  // empty: the lock is held

 private:
  friend class ImageLocks;
  std::shared_ptr<Image> image_;
  bool write_ = false;
  std::string warning_;
};

// Returns the holder of a lock on a file, such as "process 1234 (qemu-system-x86)", or "another process" if
// it is unknown: only root sees the processes of other users. `fd` is the file, opened in the mode that the
// failed lock requires.
std::string lock_holder(int fd, bool write);

}  // namespace rtrs::daemon
