// One remote block device on Boost.Asio: a session, its paths and the mapped device in one object.
//
//     co_await device.async_map(use_awaitable);
//     co_await device.async_read(0, buffer, use_awaitable);
//
// Signature of every operation: void(boost::system::error_code), completion token or plain callback; an errno
// of the server is a code of the generic category. All calls and handlers belong to the one thread that runs
// the io_context. Handlers never run inside the call that started the operation, and may destroy the device.
// Memory given to an operation belongs to it until its handler runs.
//
// Requests of any length (whole logical blocks) are split to what the session and the device take. There is
// no order between requests that are in flight together; a flush covers every write that completed before it
// was started. It fails once with EIO when the server's cache, and with it such a write, was lost meanwhile;
// so does a write with FUA. While no path is connected requests wait, at most queue_timeout; at most twice
// that when the last path was lost while the device was being opened again, or when more than 4,000 pieces
// are under way, because those requests are handed to the session only then. When a server restarted the
// device is opened again, and requests that the new server did not know are sent again under the new id.
#pragma once
#include <boost/asio/async_result.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/asio/handler_slot.hpp"
#include "backends/asio/session.hpp"
#include "core/rnbd/client_devices.hpp"
#include "core/rnbd/io_request.hpp"
#include "core/trace/recorder.hpp"

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
  std::vector<PathAddress> paths;  // 1..kMaxPaths; see parse_path()
  std::string device;              // as the server knows it
  wire::rnbd::AccessMode access_mode = wire::rnbd::AccessMode::read_write;
  ClientConfig protocol;  // con_num counts the service connection too
  WaitMode wait = WaitMode::events;
  std::function<void(const PathNews&)> on_path;      // may be empty
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
  RemoteDevice(boost::asio::io_context&, std::unique_ptr<Fabric>, RemoteDeviceOptions);
  ~RemoteDevice();
  RemoteDevice(const RemoteDevice&) = delete;
  RemoteDevice& operator=(const RemoteDevice&) = delete;

  // Records the session, from its beginning when it is called before async_map(). 0 or a positive errno.
  int open_trace(const std::string& file, const trace::Origin&, const trace::FileOptions& options = {});
  // 0, or the errno that ended the trace before its end; IO goes on without it.
  int trace_errno() const noexcept { return recorder_.file_errno(); }
  // Writes the last records, which are always kept in memory, as a trace. 0 or a positive errno.
  int dump_trace(const std::string& file, const trace::Origin&) const;

  // Connects and opens the device; geometry() counts afterwards. Goes on trying while no server answers: end
  // it with async_close(). Errors: the server's errno (ENOENT: no such device, EPERM: somebody else writes),
  // no_path (every path gave up for good), session_closed, and what Client::open() says. Once only.
  template <class Token>
  auto async_map(Token&& token) {
    return boost::asio::async_initiate<Token, void(boost::system::error_code)>(
        [this](auto handler) {
          mapping_.store(context_.get_executor(), std::move(handler));
          begin_map();
        },
        token);
  }
  // Lets what is in flight end, unmaps, disconnects, completes the trace. Requests that were not sent yet
  // fail. Once only; allowed at any time, also while async_map() is under way, which then fails.
  template <class Token>
  auto async_close(Token&& token) {
    return boost::asio::async_initiate<Token, void(boost::system::error_code)>(
        [this](auto handler) {
          closing_.store(context_.get_executor(), std::move(handler));
          begin_close();
        },
        token);
  }

  // Errors: EINVAL (not whole blocks), EIO (beyond the end), EPERM (mapped read-only), EOPNOTSUPP, the
  // server's errno, no_path (none came within queue_timeout), session_closed. No bytes is a success.
  template <class Token>
  auto async_io(const DeviceIo& io, Token&& token) {
    return boost::asio::async_initiate<Token, void(boost::system::error_code)>(
        [this](auto handler, const DeviceIo& copy) {
          Request& request = this->take_request(copy);
          request.handler.store(context_.get_executor(), std::move(handler));
          this->begin(request);
        },
        token, io);
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

  // Of the last successful open.
  const rnbd::Geometry& geometry() const noexcept { return geometry_; }
  std::uint64_t size_bytes() const noexcept { return geometry_.nsectors * wire::rnbd::kSectorBytes; }
  bool writable() const noexcept { return rnbd::is_writable(options_.access_mode); }
  rnbd::DeviceState state() const noexcept { return devices_.state(handle_); }
  const RemoteDeviceOptions& options() const noexcept { return options_; }
  Session& session() noexcept { return session_; }
  std::span<const PathStatus> paths() noexcept { return session_.client().paths(); }

 private:
  struct Request {
    HandlerSlot handler;
    DeviceIo io;
    rnbd::IoArrival arrival;
    std::uint64_t sent = 0;    // bytes of it that are in pieces already
    unsigned outstanding = 0;  // pieces
    bool all_sent = false;
    bool all_fua = true;  // every piece of it made itself durable
    boost::system::error_code error;
  };
  struct Piece {
    Request* request = nullptr;
    rnbd::IoPiece what;
    rnbd::IoTicket ticket;
    std::byte* data = nullptr;
  };
  struct Message {
    std::array<std::byte, wire::rnbd::kOpenRspBytes> response{};
    std::uint64_t token = 0;
    std::uint16_t length = 0;
  };

  // remote_device.cpp: session and device
  void begin_map();
  void on_opened(const boost::system::error_code&);
  void begin_close();
  void close_session();
  void on_session_closed();
  void on_path_news(const PathNews&);
  template <class Input>
  void feed(const Input& input);
  void perform();
  void send(const rnbd::SendMessage&);
  void on_message_done(std::unique_ptr<Message>, const boost::system::error_code&);
  void on_device_changed(const rnbd::DeviceChanged&);
  void arm_retry();
  void arm_reopen();
  void settle();
  void settle_later();

  // remote_device_io.cpp: requests and their pieces
  Request& take_request(const DeviceIo&);
  void begin(Request&);
  void issue();
  void issue_next(Request&);
  boost::system::error_code next_piece(Request&, Piece&);
  bool submit(std::uint32_t piece);
  rnbd::IoNature nature_of(const Piece&) const;
  std::uint32_t take_piece(const Piece&);
  void on_piece_done(std::uint32_t piece, const boost::system::error_code&);
  void end_piece(std::uint32_t piece, const boost::system::error_code&);
  void finish_if_done(Request&);
  void abandon(const boost::system::error_code&);

  boost::asio::io_context& context_;
  RemoteDeviceOptions options_;
  Recorder recorder_;
  Session session_;
  rnbd::ClientDevices devices_;
  rnbd::ClientActions actions_;
  rnbd::DeviceHandle handle_ = 0;
  rnbd::Geometry geometry_;
  HandlerSlot mapping_;
  HandlerSlot closing_;
  std::optional<boost::system::error_code> map_result_;
  bool map_begun_ = false;
  bool has_handle_ = false;
  bool close_begun_ = false;
  bool session_closing_ = false;
  bool closed_ = false;
  bool retry_armed_ = false;
  bool reopen_armed_ = false;
  std::uint16_t refused_errno_ = 0;  // that was told last, since the device was open
  bool settle_posted_ = false;
  boost::asio::steady_timer retry_timer_;
  boost::asio::steady_timer reopen_timer_;
  boost::asio::steady_timer close_timer_;

  std::vector<std::unique_ptr<Request>> requests_;
  std::vector<Request*> free_requests_;
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> free_pieces_;
  std::deque<std::uint32_t> again_;  // pieces to be sent again, before anything new
  std::deque<Request*> backlog_;     // requests with pieces not sent yet
  std::deque<Request*> finished_;
  std::deque<DeviceNews> news_;
  std::uint32_t in_flight_ = 0;  // pieces
  std::uint16_t next_affinity_ = 0;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace rtrs::asio
