// A client session on Boost.Asio: `co_await session.async_write(...)`, with any completion token or a plain
// callback. Signature of every operation: void(boost::system::error_code).
//
// All calls must come from the one thread that runs the io_context, including the emission of cancellation
// signals. Handlers run on their associated executor, by default that of the io_context, and never inside the
// call that started the operation. Memory passed to an operation must stay valid until its handler runs.
// Headers are copied when the operation is created, even for tokens that start it later (deferred,
// use_awaitable).
//
// run() of the io_context returns when no operation is pending. While it is not running, the session does not
// respond to the server, which closes the session after its dead-peer time.
//
// Destroying the session completes pending operations with operation_aborted. Cancellation:
//  - async_open, async_close: `terminal` and `partial` complete the operation with operation_aborted at once.
//  The started work continues; call the function again to wait for its end.
//  - Requests are not cancelled: they complete with their own result, such as no_path.
#pragma once
#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/error_code.hpp>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/bindings/asio/error.hpp"
#include "backends/bindings/asio/fabric_pump.hpp"
#include "backends/bindings/asio/initiation.hpp"
#include "backends/bindings/asio/operation.hpp"
#include "core/driver/client.hpp"

namespace rtrs::asio {

struct SessionSettings {
  // Settings that depend on the fabric (credits, keys) are adapted to its capabilities. A default
  // protocol.seed is replaced by one derived from session_uuid, so that different sessions reconnect at
  // different times.
  ClientOptions client;
  WaitMode wait = WaitMode::events;
  // Called for path state and link changes as they happen; may be empty. Runs in the event loop, never inside
  // a call of the session. May call the session, may destroy it as its last action, and must not throw.
  std::function<void(const PathEvent&)> on_news;
};

class Session {
 public:
  using executor_type = boost::asio::io_context::executor_type;

  // `recorder` may be null and must outlive the session.
  Session(boost::asio::io_context&, std::unique_ptr<Fabric>, SessionSettings, Recorder* recorder = nullptr);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  executor_type get_executor() const noexcept { return context_.get_executor(); }

  // Completes when the first path is connected. Fails with Errc::no_path if no path will be retried, with
  // Errc::invalid if another call is pending.
  template <class Token>
  auto async_open(Token&& token) {
    return initiate(*this, std::forward<Token>(token), [](Session& self, auto&& handler) {
      if (begin_single(self.opening_, self.pending_, self.get_executor(),
                       std::forward<decltype(handler)>(handler), to_error_code(Errc::invalid)))
        self.start();
    });
  }
  // Fails queued requests, waits for requests in flight, disconnects.
  template <class Token>
  auto async_close(Token&& token) {
    return initiate(*this, std::forward<Token>(token), [](Session& self, auto&& handler) {
      if (begin_single(self.closing_, self.pending_, self.get_executor(),
                       std::forward<decltype(handler)>(handler), to_error_code(Errc::invalid)))
        self.begin_close();
    });
  }
  // Sends `data` with `header` (the message of the upper layer).
  template <class Token>
  auto async_write(std::span<const std::byte> header, std::span<const std::byte> data, Token&& token) {
    IoRequest request;
    request.direction = Direction::write;
    request.user_header = header;
    // The cast is safe, because a write only reads its data.
    request.data = {const_cast<std::byte*>(data.data()), data.size()};
    return async_request(request, std::forward<Token>(token));
  }
  // Reads into `data`.
  template <class Token>
  auto async_read(std::span<const std::byte> header, std::span<std::byte> data, Token&& token) {
    IoRequest request;
    request.direction = Direction::read;
    request.user_header = header;
    request.data = data;
    return async_request(request, std::forward<Token>(token));
  }
  // Starts any request: service messages, affinity, registered memory. Ignores `request.user_data`.
  template <class Token>
  auto async_request(const IoRequest& request, Token&& token) {
    return initiate(
        *this, std::forward<Token>(token),
        [](Session& self, auto&& handler, const OwnedRequest& owned) {
          self.requests_.next().begin(self.pending_, self.get_executor(),
                                      std::forward<decltype(handler)>(handler),
                                      [](boost::asio::cancellation_type_t) {});
          self.submit(self.requests_.take(), owned.get());
        },
        OwnedRequest(request));
  }

  Client& client() noexcept { return client_; }
  Fabric& fabric() noexcept { return *fabric_; }
  // add_path() and the functions below return the errors of the Client functions with the same names.
  Errc add_path(const PathAddress&);
  Errc reconnect_path(unsigned path);
  Errc disconnect_path(unsigned path);
  Errc remove_path(unsigned path);

 private:
  // A request with a copy of its header.
  class OwnedRequest {
   public:
    explicit OwnedRequest(const IoRequest& request)
        : request_(request), header_bytes_(std::min(request.user_header.size(), kMaxUserHeader + 1)) {
      std::copy_n(request.user_header.begin(), header_bytes_, header_.begin());
    }
    IoRequest get() const {
      IoRequest request = request_;
      request.user_header = std::span(header_).first(header_bytes_);
      return request;
    }

   private:
    IoRequest request_;
    std::size_t header_bytes_;
    // One byte more than allowed, so that a header that is too long stays too long and the client rejects it.
    std::array<std::byte, kMaxUserHeader + 1> header_;
  };

  void start();
  void begin_close();
  bool step(Nanos now);
  void tell(const PathEvent&);
  void submit(std::uint32_t slot, IoRequest);
  void fail_later(std::uint32_t slot, Errc);
  void finish_later(Operation Session::*operation, const boost::system::error_code&);
  bool hopeless() const;

  boost::asio::io_context& context_;
  PendingOperations& pending_;
  // Declared before the fabric, so that it is destroyed after the fabric: handlers receive operation_aborted
  // only when the fabric no longer uses their memory.
  Operation opening_;
  Operation closing_;
  OperationTable requests_;  // indexed by user_data
  std::unique_ptr<Fabric> fabric_;
  SessionSettings settings_;
  Client client_;
  bool started_ = false;
  bool ended_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  FabricPump pump_;
};

}  // namespace rtrs::asio
