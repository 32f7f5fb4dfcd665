// A client session on Boost.Asio: `co_await session.async_write(...)`, or any other completion token, or a
// plain callback. Signature of every operation: void(boost::system::error_code).
//
// All calls belong to the one thread that runs the io_context; so does the emission of a cancellation signal.
// Handlers run on their associated executor, by default that of the io_context, and never inside the call
// that started the operation. Memory given to an operation belongs to it until its handler runs; headers are
// copied when the operation is made, also for tokens that start it later (deferred, use_awaitable).
//
// run() of the io_context returns when no operation is outstanding. While it is not running, the session does
// not answer the server, which closes it after its dead-peer time.
//
// Destroying the session completes outstanding operations with operation_aborted. Cancellation:
//  * async_open, async_close: `terminal` and `partial` complete the operation with operation_aborted at
//    once. What it began goes on; the same call again waits for its end.
//  * Requests are not cancelled: they complete with their own result, no_path among them.
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

#include "backends/asio/error.hpp"
#include "backends/asio/fabric_pump.hpp"
#include "backends/asio/initiation.hpp"
#include "backends/asio/operation.hpp"
#include "core/driver/client.hpp"

namespace rtrs::asio {

struct SessionSettings {
  // What depends on the fabric (credits, keys) is bent to what it can do. A protocol.seed at its default is
  // replaced by one from session_uuid, so that sessions do not reconnect in step.
  ClientOptions client;
  WaitMode wait = WaitMode::events;
  // Path states and link changes, as they happen; may be empty. Runs in the event loop, never inside a call
  // of the session; may call it, destroy it as the last thing it does, and must not throw.
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

  // Completes when the first path is connected; with Errc::no_path when every path gave up for good, with
  // Errc::invalid when another call is outstanding.
  template <class Token>
  auto async_open(Token&& token) {
    return initiate(*this, std::forward<Token>(token), [](Session& self, auto&& handler) {
      if (begin_single(self.opening_, self.pending_, self.get_executor(),
                       std::forward<decltype(handler)>(handler), to_error_code(Errc::invalid)))
        self.start();
    });
  }
  // Fails what is queued, waits for what is in flight, disconnects.
  template <class Token>
  auto async_close(Token&& token) {
    return initiate(*this, std::forward<Token>(token), [](Session& self, auto&& handler) {
      if (begin_single(self.closing_, self.pending_, self.get_executor(),
                       std::forward<decltype(handler)>(handler), to_error_code(Errc::invalid)))
        self.begin_close();
    });
  }
  // Sends `data` under `header` (the message of the layer above).
  template <class Token>
  auto async_write(std::span<const std::byte> header, std::span<const std::byte> data, Token&& token) {
    IoRequest request;
    request.direction = Direction::write;
    request.user_header = header;
    // The client only reads the data of a write.
    request.data = {const_cast<std::byte*>(data.data()), data.size()};
    return async_request(request, std::forward<Token>(token));
  }
  // Fills `data`.
  template <class Token>
  auto async_read(std::span<const std::byte> header, std::span<std::byte> data, Token&& token) {
    IoRequest request;
    request.direction = Direction::read;
    request.user_header = header;
    request.data = data;
    return async_request(request, std::forward<Token>(token));
  }
  // The general form: service messages, affinity, registered memory. `request.user_data` is not used.
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
  // Errors: those of Client::add_path() and so on.
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
    // One more, so that the client refuses what is too long.
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
  // Before the fabric, so that handlers are told that they are aborted when it no longer uses their memory.
  Operation opening_;
  Operation closing_;
  OperationTable requests_;  // by user_data
  std::unique_ptr<Fabric> fabric_;
  SessionSettings settings_;
  Client client_;
  bool started_ = false;
  bool ended_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  FabricPump pump_;
};

}  // namespace rtrs::asio
