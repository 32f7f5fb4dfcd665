// A client session on Boost.Asio: `co_await session.async_write(...)`, or any other completion token, or a
// plain callback. Signature of every operation: void(boost::system::error_code).
//
// All calls and all handlers belong to the one thread that runs the io_context. Handlers run from the event
// loop, never inside the call that started the operation. Memory given to an operation belongs to it until
// its handler runs.
#pragma once
#include <boost/asio/async_result.hpp>
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
#include "backends/asio/handler_slot.hpp"
#include "core/driver/client.hpp"

namespace rtrs::asio {

struct SessionSettings {
  // What depends on the fabric (credits, keys) is bent to what it can do. A protocol.seed at its default is
  // replaced by one from session_uuid, so that sessions do not reconnect in step.
  ClientOptions client;
  WaitMode wait = WaitMode::events;
  std::function<void(const PathNews&)> on_news;  // path states and link changes, as they happen; may be empty
};

class Session {
 public:
  // `recorder` may be null and must outlive the session.
  Session(boost::asio::io_context&, std::unique_ptr<Fabric>, SessionSettings, Recorder* recorder = nullptr);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Completes when the first path is connected; with Errc::no_path when every path gave up for good.
  template <class Token>
  auto async_open(Token&& token) {
    return boost::asio::async_initiate<Token, void(boost::system::error_code)>(
        [this](auto handler) {
          opening_.store(context_.get_executor(), std::move(handler));
          start();
        },
        token);
  }
  // Fails what is queued, waits for what is in flight, disconnects.
  template <class Token>
  auto async_close(Token&& token) {
    return boost::asio::async_initiate<Token, void(boost::system::error_code)>(
        [this](auto handler) {
          closing_.store(context_.get_executor(), std::move(handler));
          begin_close();
        },
        token);
  }
  // Sends `data` under `header` (the message of the layer above, copied at once).
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
    return boost::asio::async_initiate<Token, void(boost::system::error_code)>(
        [this](auto handler, IoRequest copy) { this->submit(copy, std::move(handler)); }, token, request);
  }

  Client& client() noexcept { return client_; }
  Fabric& fabric() noexcept { return *fabric_; }
  void add_path(const PathAddress&);
  void reconnect_path(unsigned path);
  void disconnect_path(unsigned path);
  void remove_path(unsigned path);

 private:
  template <class Handler>
  void submit(IoRequest request, Handler handler) {
    const std::uint32_t slot = take_slot();
    slots_[slot]->store(context_.get_executor(), std::move(handler));
    request.user_data = slot;
    const Errc result = client_.submit(*fabric_, steady_now(), request);
    if (result != Errc::ok) return fail_later(slot, result);
    pump_.kick();
  }

  void start();
  void begin_close();
  bool step(Nanos now);
  void tell(const PathNews&);
  std::uint32_t take_slot();
  void finish(std::uint32_t slot, const boost::system::error_code&);
  void fail_later(std::uint32_t slot, Errc);
  bool hopeless() const;

  boost::asio::io_context& context_;
  std::unique_ptr<Fabric> fabric_;
  SessionSettings settings_;
  Client client_;
  HandlerSlot opening_;
  HandlerSlot closing_;
  std::vector<std::unique_ptr<HandlerSlot>> slots_;
  std::vector<std::uint32_t> free_slots_;
  bool started_ = false;
  bool ended_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  FabricPump pump_;
};

}  // namespace rtrs::asio
