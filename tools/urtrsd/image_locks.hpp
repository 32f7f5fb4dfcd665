// Locks on exported files and devices, so that two servers, or a server and a virtual machine, do not write
// to one image.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "tools/urtrsd/export.hpp"

namespace rtrs::daemon {

// One lock for each device in this process, however many sessions have it open: for reading while all of them
// read, for writing while one of them may write. Open file description locks (fcntl F_OFD_SETLK) on the whole
// file: they are advisory, end with the process, and conflict with those of QEMU. A file system without locks
// is used without, with a warning. Locks of a block device are those of its node in /dev.
//
// A block device that is opened for writing is also claimed (O_EXCL). The claim fails while this host has it
// mounted, uses it as swap or in device-mapper or md, or another process claims it; the host cannot begin
// such a use until the claim ends. A file is refused while a loop device of this host can write to the file.
// `force` skips both checks.
//
// May be called from any thread, and blocks where the file system does; calls for other devices go on.
class ImageLocks {
 public:
  class Hold;

  struct Use {
    bool write = false;
    bool force = false;  // of a writer, without a claim
    bool claims(const Located& located) const noexcept {
      return write && !force && located.id.kind == ExportKind::block_device;
    }
  };
  // EBUSY with a sentence that names whoever holds the lock or the claim, if that can be found.
  tl::expected<Hold, OpenError> acquire(const Located& located, const Use& use, const std::string& described);
  // Why this host's own use of the device does not allow `use`, as far as it can be found without a claim.
  static std::optional<OpenError> host_use(const Located& located, const Use& use,
                                           const std::string& described);
  // A warning when acquire() would answer EBUSY, else none. Takes no lock, not for a moment either: a server
  // that wants the image meanwhile gets it.
  static std::vector<std::string> others(const Located& located, bool write, const std::string& described);

 private:
  // Of one device. `strength`: what the lock on `fd` is now.
  enum class Strength : std::uint8_t { none, read, write };
  struct Image {
    std::mutex mutex;
    UniqueFd fd;
    bool fd_writes = false;
    bool claimed = false;  // by `fd`
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

// Given back on destruction, which may block like acquire().
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

// "process 1234 (qemu-system-x86)", or "another process" where that cannot be found out: the names of other
// users' processes are visible to root only. `fd`: of the file, opened in the way that was refused.
std::string lock_holder(int fd, bool write);

}  // namespace rtrs::daemon
