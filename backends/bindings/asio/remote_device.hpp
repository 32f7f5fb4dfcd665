// A remote block device on Boost.Asio: a session, its paths and the mapped device in one object.
//
//     co_await device.async_map(use_awaitable);
//     co_await device.async_read(0, buffer, use_awaitable);
//
// Signature of every operation: void(boost::system::error_code), with a completion token or a plain callback.
// An errno of the server is a code of the generic category. Rules for threads, handlers, memory, run() and
// destruction: see backends/bindings/asio/session.hpp. Handlers may destroy the device. on_path and on_device
// may too, as their last action. Both run in the event loop, never inside a call of the device; they may call
// the device and must not throw.
//
// Cancellation:
//  * async_map, async_close: `terminal` and `partial` complete the operation with operation_aborted at
//    once. The started work continues; call the function again to wait for its end.
//  * Requests are not cancelled: they complete with their own result, such as no_path.
//
// Requests of any length (whole logical blocks) are split according to the limits of the session and the
// device. Requests in flight at the same time have no order; a flush covers every write that completed before
// the flush was started.
//
// If the server's cache, and with it an acknowledged write, was lost, a flush or a write with FUA fails once
// with EIO.
//
// While no path is connected, requests wait for at most queue_timeout. The wait is at most twice as long if
// the last path was lost while the device was being reopened, or if more than 3,900 pieces are in flight,
// because such requests enter the session only later. After a server restart the device is reopened, and
// requests unknown to the new server are sent again with the new device id. While the server rejects the open
// for a temporary reason (docs/reasons.md), requests wait for queue_timeout.
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

#include "backends/bindings/asio/error.hpp"
#include "backends/bindings/asio/fabric_pump.hpp"
#include "backends/bindings/asio/initiation.hpp"
#include "backends/bindings/asio/operation.hpp"
#include "core/driver/block_client.hpp"
#include "core/driver/index_queue.hpp"
#include "core/record/recorder.hpp"

namespace rtrs::asio {

// A change of the device's state or size. `error` is 0, or the errno that closed the device.
struct DeviceNews {
  rnbd::DeviceState state = rnbd::DeviceState::init;
  int error = 0;
  rnbd::Geometry geometry{};
  // True if the server's cache was replaced, so that `unflushed` acknowledged changes may be lost.
  bool cache_replaced = false;
  std::uint64_t unflushed = 0;
};

struct RemoteDeviceOptions {
  std::string session_name;        // 1..254 characters other than '/' and '.'
  std::vector<PathAddress> paths;  // 1..kMaxPaths different paths; see parse_path()
  std::string device;              // name of the device on the server
  wire::rnbd::AccessMode access_mode = wire::rnbd::AccessMode::read_write;
  ClientConfig protocol;  // con_num includes the service connection
  WaitMode wait = WaitMode::events;
  std::function<void(const PathEvent&)> on_path;     // may be empty
  std::function<void(const DeviceNews&)> on_device;  // may be empty
};

using DeviceIo [[deprecated("use rtrs::BlockRequest")]] = BlockRequest;

class RemoteDevice {
 public:
  using executor_type = boost::asio::io_context::executor_type;

  RemoteDevice(boost::asio::io_context&, std::unique_ptr<Fabric>, RemoteDeviceOptions);
  ~RemoteDevice();
  RemoteDevice(const RemoteDevice&) = delete;
  RemoteDevice& operator=(const RemoteDevice&) = delete;

  executor_type get_executor() const noexcept { return context_.get_executor(); }

  // Starts recording the session to a trace file. The trace is complete only if recording starts before
  // async_map(). Returns 0 or a positive errno.
  int open_trace(const std::string& file, const trace::Origin&, const trace::FileOptions& options = {});
  // Returns 0, or the errno that ended the trace early; IO continues without the trace.
  int trace_errno() const noexcept { return recorder_.file_errno(); }
  // Writes the most recent records, which are always kept in memory, as a trace. Returns 0 or a positive
  // errno.
  int dump_trace(const std::string& file, const trace::Origin&) const;

  // Connects and opens the device; geometry() is valid afterwards. Retries while no server answers;
  // async_close() stops it. Errors: the server's errno (ENOENT: no such device, EPERM: another client
  // writes), no_path (no path will be retried), session_closed, and the errors of Client::open(). A device
  // can be mapped once: another call fails with Errc::invalid, or after async_close() with session_closed.
  template <class Token>
  auto async_map(Token&& token) {
    return initiate(*this, std::forward<Token>(token), [](RemoteDevice& self, auto&& handler) {
      if (begin_single(self.mapping_, self.pending_, self.get_executor(),
                       std::forward<decltype(handler)>(handler), to_error_code(Errc::invalid)))
        self.begin_map();
    });
  }
  // Waits for requests in flight, unmaps, disconnects and completes the trace. Requests that were not sent
  // yet fail. Allowed at any time; a pending async_map() fails. Another call fails with Errc::invalid while
  // one is pending, and succeeds after one completed.
  template <class Token>
  auto async_close(Token&& token) {
    return initiate(*this, std::forward<Token>(token), [](RemoteDevice& self, auto&& handler) {
      if (begin_single(self.closing_, self.pending_, self.get_executor(),
                       std::forward<decltype(handler)>(handler), to_error_code(Errc::invalid)))
        self.begin_close();
    });
  }

  // Errors: EINVAL (not whole blocks), EIO (beyond the end), EPERM (mapped read-only), EOPNOTSUPP, the
  // server's errno, no_path (no path within queue_timeout), session_closed. A length of 0 succeeds. The
  // device replaces `user_data`.
  template <class Token>
  auto async_io(const BlockRequest& io, Token&& token) {
    return initiate(
        *this, std::forward<Token>(token),
        [](RemoteDevice& self, auto&& handler, const BlockRequest& copy) {
          self.requests_.next().begin(self.pending_, self.get_executor(),
                                      std::forward<decltype(handler)>(handler),
                                      [](boost::asio::cancellation_type_t) {});
          self.begin(self.requests_.take(), copy);
        },
        BlockRequest(io));
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

  // Like BlockClient::resize(): sets the size of an open device in sectors of 512 bytes until it is reopened,
  // regardless of the server. geometry() changes at once, and on_device is called. Returns false if the
  // device is not mapped, or if the size is not a multiple of its logical blocks.
  bool resize(std::uint64_t sectors);

  // Geometry from the last successful open or resize().
  const rnbd::Geometry& geometry() const noexcept { return geometry_; }
  std::uint64_t size_bytes() const noexcept { return geometry_.nsectors * wire::rnbd::kSectorBytes; }
  bool writable() const noexcept { return rnbd::is_writable(options_.access_mode); }
  rnbd::DeviceState state() const noexcept { return client_.state(handle_); }
  const RemoteDeviceOptions& options() const noexcept { return options_; }
  std::span<const PathStatus> paths() const noexcept { return session().paths(); }
  // The session: link state, limits, statistics.
  const Client& session() const noexcept { return client_.session(); }
  // add_path() and the functions below return the errors of the Client functions with the same names.
  // add_path() also returns path_exists if the new path has the same addresses in another spelling.
  Errc add_path(const PathAddress&);
  Errc reconnect_path(unsigned path);
  Errc disconnect_path(unsigned path);
  Errc remove_path(unsigned path);

 private:
  void begin_map();
  void begin_close();
  void begin(std::uint32_t slot, BlockRequest);
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
  // Declared before the fabric, so that it is destroyed after the fabric: handlers receive operation_aborted
  // only when the fabric no longer uses their memory.
  Operation mapping_;
  Operation closing_;
  OperationTable requests_;  // indexed by user_data
  std::unique_ptr<Fabric> fabric_;
  RemoteDeviceOptions options_;
  Recorder recorder_;
  BlockClient client_;
  rnbd::DeviceHandle handle_ = 0;
  rnbd::Geometry geometry_;
  std::optional<boost::system::error_code> map_result_;
  bool map_begun_ = false;
  bool map_pending_ = false;  // async_map() was called; its result has not reached a handler yet
  bool close_begun_ = false;
  bool closed_ = false;
  std::uint16_t refused_errno_ = 0;  // errno of the last reported refusal; 0 after a successful open
  bool settle_posted_ = false;
  // Buffers of one step. They are members, because initialising them in each step would cost more than an
  // idle step.
  std::array<BlockCompletion, 64> completions_;
  BlockEvent event_;
  std::deque<std::variant<PathEvent, DeviceNews>> news_;
  std::vector<Finished> results_;  // indexed by slot
  IndexQueue finished_;            // slots whose handler is due
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  FabricPump pump_;
};

}  // namespace rtrs::asio
