// A disk that an NBD server provides: nbdkit with any plugin, qemu-nbd with any QEMU format, or a server on a
// different host. Each disk uses libnbd in a separate thread, so that a hanging server delays nothing else.
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

// One step of an operation. The disk owns the command from submit() until it puts the command into
// NbdResults.
struct NbdCommand {
  NbdCommand* next = nullptr;
  NbdResults* results = nullptr;
  std::uint32_t index = 0;  // used by the submitter only
  Opcode opcode = Opcode::read;
  OpStep step = OpStep::done;
  std::uint64_t offset = 0;     // in bytes
  std::uint32_t length = 0;     // in bytes
  std::byte* buffer = nullptr;  // a write does not modify the buffer
  bool fua = false;
  std::int32_t result = 0;  // value for OpProgress::on_result()
  std::uint64_t* seen =
      // Number of losses that this open has seen (NbdLink::Losses). Only the disk's thread uses it.
      nullptr;
  // True if the server failed a flush, so that writes acknowledged earlier may be lost.
  bool lost_changes = false;

  // Members that only the disk uses.
  NbdDisk* disk = nullptr;
  std::uint64_t changes = 0;  // changes acknowledged when the flush of this command began
  bool flushing = false;      // the change is complete, and the flush that makes it durable is in flight
  Nanos wait_until = 0;       // see NbdLink::wait_until(); 0: the command never waited for the server
  std::uint64_t seen_at_begin = 0;
};

// FIFO list linked through NbdCommand::next.
class NbdCommands {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  void push(NbdCommand& command) noexcept;
  NbdCommand* pop() noexcept;  // null if the list is empty

 private:
  NbdCommand* first_ = nullptr;
  NbdCommand* last_ = nullptr;
};

// Queue of finished commands. Any number of disks write to the queue, one thread reads from it.
class NbdResults {
 public:
  void put(NbdCommand& command) noexcept;  // may be called in any thread
  NbdCommand* take() noexcept;             // null if the queue is empty
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
  // Receives log lines, for example that the server was lost or has reconnected. Called in the disk's thread.
  using Tell = std::function<void(const std::string&)>;

  // True for a URI of the NBD specification: nbd://, nbds://, nbd+unix://, nbds+unix:// or nbd+vsock://.
  static bool is_uri(std::string_view source) noexcept;

  struct Options {
    Nanos wait = 0;            // time that requests wait for a lost server
    NbdLink::Losses losses{};  // losses recorded on the previous connection to the server
  };
  // Connects to the server, which takes at most 10 s. `described` names the export in messages. Errors:
  // ENODEV (no such server, or the server rejected the connection), EINVAL (the disk cannot be exported),
  // EOPNOTSUPP (built without libnbd).
  static tl::expected<std::shared_ptr<NbdDisk>, OpenError> connect(const std::string& uri,
                                                                   std::string described, Tell tell,
                                                                   const Options& options);
  NbdDisk(const NbdDisk&) = delete;
  NbdDisk& operator=(const NbdDisk&) = delete;
  ~NbdDisk();  // no command may be in flight or be submitted later

  const std::string& uri() const noexcept { return uri_; }
  // Geometry at the first connect. After a reconnect, a disk with another geometry is not used, unless it has
  // only grown.
  const rnbd::Geometry& geometry() const noexcept { return geometry_; }
  std::uint64_t size_bytes() const noexcept { return size_.load(std::memory_order_relaxed); }
  bool read_only() const noexcept { return facts_.read_only; }
  bool is_up() const noexcept { return up_.load(std::memory_order_relaxed); }
  // True if a flush must still cover an acknowledged change. Set before the change itself completes.
  bool owes_flush() const noexcept { return owes_flush_.load(std::memory_order_relaxed); }

  NbdLink::Losses losses() const noexcept;

  // Never blocks. While the server is lost, a connection is attempted once a second; after it succeeds,
  // commands that were in flight are sent again. Commands wait for at most Options::wait and then fail with
  // ENOTCONN. If changes may have been lost, one flush of each open fails with EIO.
  void submit(NbdCommand& command) noexcept;
  // From now on, commands fail at once while the server is lost.
  void stop_waiting() noexcept;

 private:
  struct Facts {
    std::uint64_t size = 0;
    std::uint64_t block = 512;      // minimum request size in bytes
    std::uint64_t preferred = 512;  // preferred request size in bytes
    bool read_only = false;
    bool flush = false, fua = false, trim = false, zero = false;
  };
  NbdDisk(std::string uri, std::string described, Tell tell, const Options& options);
  void run();
  std::string connect_once();  // returns "" if connected, otherwise the error
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

  // Members that only the disk's thread uses.
  nbd_handle* handle_ = nullptr;
  NbdLink link_;
  std::string told_;           // last connection error that was reported
  NbdCommands held_;           // commands that wait for the server
  Nanos held_until_ = kNever;  // earliest `wait_until` of the commands in `held_`
  NbdCommands ended_;          // commands that libnbd completed; `result` is 0 or a negative errno
  bool known_ = false;
  bool told_wait_is_over_ = false;
  bool gave_up_ = false;  // the connection was abandoned, because the server does not answer

  Facts facts_;  // constant once connect() has returned
  rnbd::Geometry geometry_;
  std::atomic<std::uint64_t> size_{0};
  std::atomic<bool> up_{false};
  std::atomic<bool> owes_flush_{false};
  // Bit 0 is set while the newest loss is not reported; the other bits contain the number of losses.
  std::atomic<std::uint64_t> losses_{0};
  std::thread thread_;
};

}  // namespace rtrs::daemon
