// A disk of an NBD server: nbdkit with any plugin, qemu-nbd with any QEMU format, or another host. Each disk
// uses libnbd in its own thread, so that a hanging server delays nothing else.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <tl/expected.hpp>

#include "core/rnbd/geometry.hpp"
#include "tools/urtrsd/storage/nbd_link.hpp"
#include "tools/urtrsd/storage/op_progress.hpp"
#include "tools/urtrsd/storage/open_error.hpp"
#include "tools/urtrsd/storage/wake_up.hpp"

struct nbd_handle;

namespace rtrs::daemon {

class NbdDisk;
class NbdResults;

// One step of an operation. The disk owns it from submit() until it is put into NbdResults.
struct NbdCommand {
  NbdCommand* next = nullptr;
  NbdResults* results = nullptr;
  std::uint32_t index = 0;  // opaque, for the submitter
  Opcode opcode = Opcode::read;
  OpStep step = OpStep::done;
  std::uint64_t offset = 0;     // bytes
  std::uint32_t length = 0;     // bytes
  std::byte* buffer = nullptr;  // not modified by a write
  bool fua = false;
  std::int32_t result = 0;  // value for OpProgress::on_result()
  std::uint64_t* seen =
      nullptr;  // losses that this open has seen (NbdLink::Losses); only the disk's thread uses it
  // The server failed a flush: writes acknowledged earlier may be lost.
  bool lost_changes = false;

  // Private to the disk.
  NbdDisk* disk = nullptr;
  std::uint64_t changes = 0;  // number of changes acknowledged when its flush began
  bool flushing = false;      // the change is complete, and the flush that makes it durable is in flight
  Nanos wait_until = 0;       // from NbdLink; 0: it never waited for the server
  std::uint64_t seen_at_begin = 0;
};

// FIFO list, linked through the commands.
class NbdCommands {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  void push(NbdCommand& command) noexcept;
  NbdCommand* pop() noexcept;  // null if empty

 private:
  NbdCommand* first_ = nullptr;
  NbdCommand* last_ = nullptr;
};

// Queue of finished commands of any number of disks, read by one thread.
class NbdResults {
 public:
  void put(NbdCommand& command) noexcept;  // any thread
  NbdCommand* take() noexcept;             // null if there is none
  bool has_some() const noexcept { return some_.load(std::memory_order_acquire); }
  int fd() const noexcept { return event_.fd(); }  // readable while take() would return a command

 private:
  std::mutex mutex_;
  NbdCommands done_;
  std::atomic<bool> some_{false};
  WakeUp event_;
};

// Thread-safe.
class NbdDisk {
 public:
  // Receives log lines: the server was lost, or reconnected. Called from the disk's thread.
  using Tell = std::function<void(const std::string&)>;

  // True for the URIs of the NBD specification: nbd://, nbds://, nbd+unix://, nbds+unix:// and nbd+vsock://.
  static bool is_uri(std::string_view source) noexcept;

  struct Options {
    Nanos wait = 0;            // time that requests wait for a lost server
    NbdLink::Losses losses{};  // losses of an earlier connection
  };
  // Connects; takes at most 10 s. `described` names the export in messages. Errors: ENODEV (no such server,
  // or the server rejected the connection), EINVAL (the disk cannot be exported), EOPNOTSUPP (built without
  // libnbd).
  static tl::expected<std::shared_ptr<NbdDisk>, OpenError> connect(const std::string& uri,
                                                                   std::string described, Tell tell,
                                                                   const Options& options);
  NbdDisk(const NbdDisk&) = delete;
  NbdDisk& operator=(const NbdDisk&) = delete;
  ~NbdDisk();  // requires that no command is submitted any more

  const std::string& uri() const noexcept { return uri_; }
  // Geometry at the first connect. After a reconnect, a disk that differs in anything but a larger size is
  // not used.
  const rnbd::Geometry& geometry() const noexcept { return geometry_; }
  std::uint64_t size_bytes() const noexcept { return size_.load(std::memory_order_relaxed); }
  bool read_only() const noexcept { return facts_.read_only; }
  bool is_up() const noexcept { return up_.load(std::memory_order_relaxed); }
  // True if an acknowledged change is not covered by a flush; becomes true no later than the command
  // completes.
  bool owes_flush() const noexcept { return owes_flush_.load(std::memory_order_relaxed); }

  NbdLink::Losses losses() const noexcept;

  // Never blocks. While the server is lost, it is retried once a second; commands that were in flight are
  // resent. Commands wait for at most Options::wait and then fail with ENOTCONN. After a loss of changes, one
  // flush of each open fails with EIO.
  void submit(NbdCommand& command) noexcept;
  // From now on commands fail at once while the server is lost.
  void stop_waiting() noexcept;

 private:
  struct Facts {
    std::uint64_t size = 0;
    std::uint64_t block = 512;      // bytes; minimum request size
    std::uint64_t preferred = 512;  // bytes
    bool read_only = false;
    bool flush = false, fua = false, trim = false, zero = false;
  };
  NbdDisk(std::string uri, std::string described, Tell tell, const Options& options);
  void run();
  std::string connect_once();  // "" if connected, otherwise the error
  std::string await_connection();
  std::string learn();
  void drop();
  void publish() noexcept;
  void give_up();
  int wait_ms(Nanos now) const;
  void take_submitted();
  void begin(NbdCommand& command);
  bool post(NbdCommand& command, OpStep step);
  void finish(NbdCommand& command, std::int32_t result) noexcept;
  void finish_ended();
  bool is_alive() const noexcept;
  void end(NbdCommand& command);
  void hold(NbdCommand& command, Nanos now);
  void fail_overdue(Nanos now);
  void send_held();
  void wait(int timeout_ms);
  static int completed(void* data, int* error);

  const std::string uri_;
  const std::string described_;
  const Tell tell_;
  const Nanos wait_;
  WakeUp wake_;
  std::mutex mutex_;
  NbdCommands submitted_;
  bool stopping_ = false;
  std::atomic<bool> waits_{true};

  // Used by the disk's thread only.
  nbd_handle* handle_ = nullptr;
  NbdLink link_;
  std::string told_;           // reported error of the last failed attempt
  NbdCommands held_;           // commands that wait for the server
  Nanos held_until_ = kNever;  // time until which the first of them waits
  NbdCommands ended_;          // completed by libnbd; `result` is 0 or a negative errno
  bool known_ = false;
  bool gave_up_ = false;  // the connection was abandoned because its server does not answer

  Facts facts_;  // constant after connect() returns
  rnbd::Geometry geometry_;
  std::atomic<std::uint64_t> size_{0};
  std::atomic<bool> up_{false};
  std::atomic<bool> owes_flush_{false};
  std::atomic<std::uint64_t> losses_{0};  // bit 0: newest loss not yet reported; other bits: count
  std::thread thread_;
};

}  // namespace rtrs::daemon
