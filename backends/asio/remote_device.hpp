// One remote block device on Boost.Asio: a session, its paths and the mapped device in one object.
//
//     co_await device.async_map(use_awaitable);
//     co_await device.async_read(0, buffer, use_awaitable);
//
// Signature of every operation: void(boost::system::error_code), completion token or plain callback; an errno
// of the server is a code of the generic category. Threads, handlers, memory, run() and destruction: as for a
// session (backends/asio/session.hpp). Handlers may destroy the device. So may on_path and on_device, as the
// last thing they do: they run in the event loop, never inside a call of the device, may call it, and must
// not throw.
//
// Cancellation:
//  * async_map, async_close: `terminal` and `partial` complete the operation with operation_aborted at
//    once. What it began goes on; the same call again waits for its end.
//  * Requests are not cancelled: they complete with their own result, no_path among them.
//
// Requests of any length (whole logical blocks) are split to what the session and the device take. There is
// no order between requests that are in flight together; a flush covers every write that completed before it
// was started. It fails once with EIO when the server's cache, and with it such a write, was lost meanwhile;
// so does a write with FUA. While no path is connected requests wait, at most queue_timeout; at most twice
// that when the last path was lost while the device was being opened again, or when more than 3,900 pieces
// are under way, because those requests are handed to the session only then. When a server restarted the
// device is opened again, and requests that the new server did not know are sent again under the new id.
// While the server refuses to open it for a reason that may pass (docs/reasons.md), requests wait for
// queue_timeout.
#pragma once
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "backends/asio/error.hpp"
#include "backends/asio/fabric_pump.hpp"
#include "backends/asio/initiation.hpp"
#include "backends/asio/operation.hpp"
#include "core/driver/block_client.hpp"
#include "core/driver/index_queue.hpp"
#include "core/record/recorder.hpp"

namespace rtrs::asio {

// `error` is 0, or the errno that closed the device. The size of an open device may differ from before.
struct DeviceNews {
  rnbd::DeviceState state = rnbd::DeviceState::init;
  int error = 0;
  rnbd::Geometry geometry{};
  // The cache behind the device is another one than before, and `unflushed` acknowledged changes may be lost.
  bool cache_replaced = false;
  std::uint64_t unflushed = 0;
};

struct RemoteDeviceOptions {
  std::string session_name;        // 1..254 characters, neither '/' nor '.'
  std::vector<PathAddress> paths;  // 1..kMaxPaths, each once; see parse_path()
  std::string device;              // as the server knows it
  wire::rnbd::AccessMode access_mode = wire::rnbd::AccessMode::read_write;
  ClientConfig protocol;  // con_num counts the service connection too
  WaitMode wait = WaitMode::events;
  std::function<void(const PathEvent&)> on_path;     // may be empty
  std::function<void(const DeviceNews&)> on_device;  // may be empty
};

// One request. `offset` and `length` in bytes, whole logical blocks of the device.
struct DeviceIo {
  wire::rnbd::Opcode opcode = wire::rnbd::Opcode::read;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::byte* data = nullptr;  // read, write: `length` bytes; a write only reads them
  bool fua = false;           // durable before it completes
  bool nounmap = false;       // write_zeroes: the blocks stay allocated, see rnbd::IoPiece
};

class RemoteDevice {
 public:
  using executor_type = boost::asio::io_context::executor_type;

  RemoteDevice(boost::asio::io_context&, std::unique_ptr<Fabric>, RemoteDeviceOptions);
  ~RemoteDevice();
  RemoteDevice(const RemoteDevice&) = delete;
  RemoteDevice& operator=(const RemoteDevice&) = delete;

  executor_type get_executor() const noexcept { return context_.get_executor(); }

  // Records the session, from its beginning when it is called before async_map(). 0 or a positive errno.
  int open_trace(const std::string& file, const trace::Origin&, const trace::FileOptions& options = {});
  // 0, or the errno that ended the trace before its end; IO goes on without it.
  int trace_errno() const noexcept { return recorder_.file_errno(); }
  // Writes the last records, which are always kept in memory, as a trace. 0 or a positive errno.
  int dump_trace(const std::string& file, const trace::Origin&) const;

  // Connects and opens the device; geometry() counts afterwards. Goes on trying while no server answers: end
  // it with async_close(). Errors: the server's errno (ENOENT: no such device, EPERM: somebody else writes),
  // no_path (every path gave up for good), session_closed, and what Client::open() says. A device is mapped
  // once: while a call is outstanding, and after one completed, Errc::invalid; after async_close(),
  // session_closed.
  template <class Token>
  auto async_map(Token&& token) {
    return initiate(*this, std::forward<Token>(token), [](RemoteDevice& self, auto&& handler) {
      if (begin_single(self.mapping_, self.pending_, self.get_executor(),
                       std::forward<decltype(handler)>(handler), to_error_code(Errc::invalid)))
        self.begin_map();
    });
  }
  // Lets what is in flight end, unmaps, disconnects, completes the trace. Requests that were not sent yet
  // fail. Allowed at any time, also while async_map() is under way, which then fails. While a call is
  // outstanding, Errc::invalid; after one completed, success.
  template <class Token>
  auto async_close(Token&& token) {
    return initiate(*this, std::forward<Token>(token), [](RemoteDevice& self, auto&& handler) {
      if (begin_single(self.closing_, self.pending_, self.get_executor(),
                       std::forward<decltype(handler)>(handler), to_error_code(Errc::invalid)))
        self.begin_close();
    });
  }

  // Errors: EINVAL (not whole blocks), EIO (beyond the end), EPERM (mapped read-only), EOPNOTSUPP, the
  // server's errno, no_path (none came within queue_timeout), session_closed. No bytes is a success.
  template <class Token>
  auto async_io(const DeviceIo& io, Token&& token) {
    return initiate(
        *this, std::forward<Token>(token),
        [](RemoteDevice& self, auto&& handler, const DeviceIo& copy) {
          self.requests_.next().begin(self.pending_, self.get_executor(),
                                      std::forward<decltype(handler)>(handler),
                                      [](boost::asio::cancellation_type_t) {});
          self.begin(self.requests_.take(), copy);
        },
        DeviceIo(io));
  }
  template <class Token>
  auto async_read(std::uint64_t offset, std::span<std::byte> data, Token&& token) {
    return async_io({wire::rnbd::Opcode::read, offset, data.size(), data.data(), false},
                    std::forward<Token>(token));
  }
  template <class Token>
  auto async_write(std::uint64_t offset, std::span<const std::byte> data, bool fua, Token&& token) {
    return async_io(
        {wire::rnbd::Opcode::write, offset, data.size(), const_cast<std::byte*>(data.data()), fua},
        std::forward<Token>(token));
  }
  template <class Token>
  auto async_flush(Token&& token) {
    return async_io({wire::rnbd::Opcode::flush, 0, 0, nullptr, false}, std::forward<Token>(token));
  }
  template <class Token>
  auto async_discard(std::uint64_t offset, std::uint64_t length, bool fua, Token&& token) {
    return async_io({wire::rnbd::Opcode::discard, offset, length, nullptr, fua}, std::forward<Token>(token));
  }
  template <class Token>
  auto async_write_zeroes(std::uint64_t offset, std::uint64_t length, bool fua, Token&& token) {
    return async_io({wire::rnbd::Opcode::write_zeroes, offset, length, nullptr, fua},
                    std::forward<Token>(token));
  }

  // As BlockClient::resize(): an open device has this many sectors of 512 bytes until it is opened again,
  // whatever the server has. geometry() has the size at once, on_device is told. False: not mapped, or no
  // size for its logical blocks.
  bool resize(std::uint64_t sectors);

  // Of the last successful open, or of resize().
  const rnbd::Geometry& geometry() const noexcept { return geometry_; }
  std::uint64_t size_bytes() const noexcept { return geometry_.nsectors * wire::rnbd::kSectorBytes; }
  bool writable() const noexcept { return rnbd::is_writable(options_.access_mode); }
  rnbd::DeviceState state() const noexcept { return client_.state(handle_); }
  const RemoteDeviceOptions& options() const noexcept { return options_; }
  std::span<const PathStatus> paths() const noexcept { return session().paths(); }
  // Link, limits, statistics.
  const Client& session() const noexcept { return client_.session(); }
  // Errors: what the functions of Client say; path_exists in whatever spelling of the addresses.
  Errc add_path(const PathAddress&);
  Errc reconnect_path(unsigned path);
  Errc disconnect_path(unsigned path);
  Errc remove_path(unsigned path);

 private:
  void begin_map();
  void begin_close();
  void begin(std::uint32_t slot, const DeviceIo&);
  void finish(std::uint32_t slot, const boost::system::error_code&);
  bool step(Nanos now);
  void take_events();
  void on_path_event(const PathEvent&);
  void on_device_changed(const rnbd::DeviceChanged&);
  bool hopeless() const;
  bool settle();
  void settle_later();

  struct Finished {
    boost::system::error_code error;
    std::uint32_t next = kNoIndex;
  };

  boost::asio::io_context& context_;
  PendingOperations& pending_;
  // Before the fabric, so that handlers are told that they are aborted when it no longer uses their memory.
  Operation mapping_;
  Operation closing_;
  OperationTable requests_;  // by user_data
  std::unique_ptr<Fabric> fabric_;
  RemoteDeviceOptions options_;
  Recorder recorder_;
  BlockClient client_;
  rnbd::DeviceHandle handle_ = 0;
  rnbd::Geometry geometry_;
  std::optional<boost::system::error_code> map_result_;
  bool map_begun_ = false;
  bool map_pending_ = false;  // begun, and no handler was given the result
  bool close_begun_ = false;
  bool closed_ = false;
  std::uint16_t refused_errno_ = 0;  // that was told last, since the device was open
  bool settle_posted_ = false;
  // Of one step. Kept, because initialising them anew costs more than an empty step.
  std::array<BlockCompletion, 64> completions_;
  BlockEvent event_;
  std::deque<std::variant<PathEvent, DeviceNews>> news_;
  std::vector<Finished> results_;  // by slot
  IndexQueue finished_;            // slots whose handler is due
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  FabricPump pump_;
};

}  // namespace rtrs::asio
