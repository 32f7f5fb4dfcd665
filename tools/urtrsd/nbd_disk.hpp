// A disk that an NBD server holds: nbdkit with any of its plugins, qemu-nbd with any format of QEMU, another
// host. Through libnbd, in a thread of its own, so that a server that hangs holds up nothing else.
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
#include "tools/urtrsd/nbd_link.hpp"
#include "tools/urtrsd/op_progress.hpp"
#include "tools/urtrsd/open_error.hpp"
#include "tools/urtrsd/wake_up.hpp"

struct nbd_handle;

namespace rtrs::daemon {

class NbdDisk;
class NbdResults;

// One step of an operation; belongs to the disk from submit() until NbdResults has it.
struct NbdCommand {
  NbdCommand* next = nullptr;
  NbdResults* results = nullptr;
  std::uint32_t index = 0;  // for the submitter, not interpreted
  Opcode opcode = Opcode::read;
  OpStep step = OpStep::done;
  std::uint64_t offset = 0;     // bytes
  std::uint32_t length = 0;     // bytes
  std::byte* buffer = nullptr;  // of a write not written to
  bool fua = false;
  std::int32_t result = 0;        // as OpProgress::on_result() takes it
  std::uint64_t* seen = nullptr;  // of the open, see NbdLink::Losses; used by the disk's thread alone
  // Of a flush that the server failed: what was acknowledged before may be lost.
  bool lost_changes = false;

  // The disk's own.
  NbdDisk* disk = nullptr;
  std::uint64_t changes = 0;  // acknowledged when its flush began
  bool flushing = false;      // the change is done, the flush that makes it durable is in flight
  Nanos wait_until = 0;       // of NbdLink; 0: it never waited for the server
  std::uint64_t seen_at_begin = 0;
};

// First in, first out, through the commands' own pointers.
class NbdCommands {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  void push(NbdCommand& command) noexcept;
  NbdCommand* pop() noexcept;  // null: empty

 private:
  NbdCommand* first_ = nullptr;
  NbdCommand* last_ = nullptr;
};

// Where finished commands go, of any number of disks, for one thread that takes them.
class NbdResults {
 public:
  void put(NbdCommand& command) noexcept;  // any thread
  NbdCommand* take() noexcept;             // null: there is none
  bool has_some() const noexcept { return some_.load(std::memory_order_acquire); }
  int fd() const noexcept { return event_.fd(); }  // readable while there are some

 private:
  std::mutex mutex_;
  NbdCommands done_;
  std::atomic<bool> some_{false};
  WakeUp event_;
};

// Any thread.
class NbdDisk {
 public:
  // What ends up in the log: the server was lost, or is back. From the disk's own thread.
  using Tell = std::function<void(const std::string&)>;

  // nbd://, nbds://, nbd+unix://, nbds+unix:// or nbd+vsock://, as every NBD program takes them.
  static bool is_uri(std::string_view source) noexcept;

  struct Options {
    Nanos wait = 0;            // how long requests wait for a server that was lost
    NbdLink::Losses losses{};  // of a former connection
  };
  // Connects, which takes 10 s at most. `described` names the export in sentences. ENODEV (no such server,
  // or it refused), EINVAL (a disk that cannot be exported), EOPNOTSUPP (built without libnbd).
  static tl::expected<std::shared_ptr<NbdDisk>, OpenError> connect(const std::string& uri,
                                                                   std::string described, Tell tell,
                                                                   const Options& options);
  NbdDisk(const NbdDisk&) = delete;
  NbdDisk& operator=(const NbdDisk&) = delete;
  ~NbdDisk();  // nothing is submitted any more

  const std::string& uri() const noexcept { return uri_; }
  // As it was when it was connected first; one that differs in anything but a larger size is not used.
  const rnbd::Geometry& geometry() const noexcept { return geometry_; }
  std::uint64_t size_bytes() const noexcept { return size_.load(std::memory_order_relaxed); }
  bool read_only() const noexcept { return facts_.read_only; }
  bool is_up() const noexcept { return up_.load(std::memory_order_relaxed); }
  // A change was acknowledged that no flush covered. True at the latest when its command is done.
  bool owes_flush() const noexcept { return owes_flush_.load(std::memory_order_relaxed); }

  NbdLink::Losses losses() const noexcept;

  // Never blocks. While the server is lost it is tried once a second. Commands wait for it for Options::wait,
  // and fail with ENOTCONN after that; those that were in flight are sent again. A flush after a loss of
  // changes fails with EIO, once for each open.
  void submit(NbdCommand& command) noexcept;
  // From now on commands do not wait for a server that is lost.
  void stop_waiting() noexcept;

 private:
  struct Facts {
    std::uint64_t size = 0;
    std::uint64_t block = 512;      // bytes; the smallest request
    std::uint64_t preferred = 512;  // bytes
    bool read_only = false;
    bool flush = false, fua = false, trim = false, zero = false;
  };
  NbdDisk(std::string uri, std::string described, Tell tell, const Options& options);
  void run();
  std::string connect_once();  // "": it is connected
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

  // Of the thread.
  nbd_handle* handle_ = nullptr;
  NbdLink link_;
  std::string told_;           // why the last attempt failed
  NbdCommands held_;           // until the server is back
  Nanos held_until_ = kNever;  // of the first of them
  NbdCommands ended_;          // by libnbd; `result` is 0 or a negative errno
  bool known_ = false;
  bool gave_up_ = false;  // this connection, whose server answers nothing

  Facts facts_;  // set before connect() returns
  rnbd::Geometry geometry_;
  std::atomic<std::uint64_t> size_{0};
  std::atomic<bool> up_{false};
  std::atomic<bool> owes_flush_{false};
  std::atomic<std::uint64_t> losses_{0};  // twice the count, and 1 if the newest was not reported
  std::thread thread_;
};

}  // namespace rtrs::daemon
