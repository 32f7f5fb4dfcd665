// One end of a connection (End) on the TCP fabric, which is called as sessions call it.
#include <poll.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <deque>
#include <utility>

#include "backends/tcp/tcp.hpp"
#include "conformance/iwarp/siw/end.hpp"
#include "core/iwarp/greeting.hpp"

namespace rtrs::siw {
namespace {

using Clock = std::chrono::steady_clock;

ByteVector copy(std::span<const std::byte> from) {
  return {from.begin(), from.end()};
}

class FabricEnd final : public End {
 public:
  explicit FabricEnd(bool crc) {
    tcp::TcpOptions options;
    options.crc = crc;
    options.log = [this](tcp::LogLevel level, const std::string& text) {
      if (level >= tcp::LogLevel::warning) last_words_ = text;
      std::fprintf(stderr, "fabric: %s\n", text.c_str());
    };
    fabric_ = must(tcp::open_tcp_fabric(options), "no fabric");
    target_ = must(fabric_->allocate(kMemoryBytes), "no memory");
    source_ = must(fabric_->allocate(kSourceBytes), "no memory");
    key_ = must(fabric_->make_key(target_.id, 0, kMemoryBytes), "no key");
  }

  void listen(const std::string& address, std::uint16_t port) override {
    const Errc error = fabric_->listen({.source = {}, .destination = address, .port = port});
    if (error != Errc::ok) throw Failure("cannot listen on " + address);
  }

  ByteVector request() override {
    wait("a connect request", [this] { return requested_; });
    requested_ = false;
    return std::move(data_);
  }

  void accept(Bytes data) override {
    begin();
    fabric_->accept(request_, con_, kParams, data);
    fabric_->post_receive(con_, kReceives, kMessageBytes);
  }

  void reject(Bytes data) override { fabric_->reject(request_, data); }

  Answer connect(const std::string& source, const std::string& address, std::uint16_t port,
                 Bytes data) override {
    begin();
    fabric_->connect(con_, {.source = source, .destination = address, .port = port}, kParams, data);
    fabric_->post_receive(con_, kReceives, kMessageBytes);
    wait("an answer to the request", [this] { return answered_; });
    return std::move(answer_);
  }

  // siw accepts 252 bytes, of which urtrs uses kOwnFieldBytes in connect requests.
  [[nodiscard]] std::size_t most_data(bool initiator) const override {
    return initiator ? 252 - iwarp::kOwnFieldBytes : 252;
  }

  [[nodiscard]] MutableBytes memory() override { return target_.bytes; }
  [[nodiscard]] Place place() const override { return {key_.remote_addr, key_.rkey}; }

  void send(Bytes message) override {
    WorkRequest work;
    work.op = WorkRequest::Op::send;
    work.inline_bytes = message;
    post(work);
  }

  void write(const Place& to, Bytes payload) override {
    if (used_ + payload.size() > source_.bytes.size()) {
      wait("the end of earlier writes", [this] { return outstanding_ == 0; });
      used_ = 0;
    }
    std::copy(payload.begin(), payload.end(), source_.bytes.begin() + static_cast<std::ptrdiff_t>(used_));
    WorkRequest work;
    work.op = WorkRequest::Op::write;
    work.part_count = payload.empty() ? 0 : 1;
    work.parts[0] = {source_.id, static_cast<std::uint32_t>(used_),
                     static_cast<std::uint32_t>(payload.size())};
    work.rkey = to.key;
    work.remote_addr = to.address;
    work.signalled = true;
    used_ += payload.size();
    ++outstanding_;
    post(work);
  }

  ByteVector message() override {
    wait("a message", [this] { return !messages_.empty(); });
    ByteVector first = std::move(messages_.front());
    messages_.pop_front();
    fabric_->post_receive(con_, 1, kMessageBytes);
    return first;
  }

  bool has_message() override {
    return wait_until(Clock::now() + std::chrono::milliseconds(kMomentMs),
                      [this] { return !messages_.empty(); });
  }

  std::string wait_for_end() override {
    expects_end_ = true;
    wait("the end of the connection", [this] { return lost_; });
    if (!messages_.empty()) throw Failure("a message that nobody sent");
    return std::string("lost: ") + to_string(reason_) + (last_words_.empty() ? "" : ": " + last_words_);
  }

  void disconnect() override {
    expects_end_ = true;
    fabric_->disconnect(con_);
    wait("the fabric to let the connection go", [this] { return closed_; });
  }

 private:
  static constexpr ConnectionParams kParams{
      .send_depth = 2 * kReceives, .receive_depth = 2 * kReceives, .key_depth = 4, .refusal = {}};

  template <class T>
  static T must(Result<T> made, const char* otherwise) {
    if (!made) throw Failure(otherwise);
    return std::move(*made);
  }

  void begin() {
    con_ = {.path = 0, .con = 0, .epoch = con_.epoch + 1};
    lost_ = closed_ = answered_ = expects_end_ = false;
    outstanding_ = 0;
    used_ = 0;
    messages_.clear();
    last_words_.clear();
  }

  void post(const WorkRequest& request) {
    WorkRequest work = request;
    work.key = con_;
    bool posted = false;
    wait("room for a request", [&] { return posted = fabric_->post(std::span(&work, 1)) == 1; });
  }

  template <class Condition>
  void wait(const char* what, Condition&& holds) {
    if (!wait_until(Clock::now() + std::chrono::seconds(kPatienceSeconds), holds))
      throw Failure(std::string("waited too long for ") + what);
  }

  template <class Condition>
  bool wait_until(Clock::time_point late, Condition&& holds) {
    while (!holds()) {
      if (lost_ && !expects_end_)
        throw Failure(std::string("the connection is lost: ") + to_string(reason_) + ": " + last_words_);
      if (Clock::now() > late) return false;
      turn();
    }
    return true;
  }

  void turn() {
    const auto now = static_cast<Nanos>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count());
    std::array<FabricEvent, 32> events;
    const std::size_t count = fabric_->poll(now, events);
    for (std::size_t i = 0; i < count; ++i) std::visit([this](const auto& one) { see(one); }, events[i]);
    if (count != 0 || !fabric_->try_wait()) return;
    pollfd waited{.fd = fabric_->wait_fd(), .events = POLLIN, .revents = 0};
    ::poll(&waited, 1, 100);
  }

  void see(const event::ConnectRequested& one) {
    requested_ = true;
    request_ = one.request;
    data_ = copy(one.private_data);
  }
  void see(const event::Connected& one) {
    answered_ = true;
    answer_ = {true, copy(one.private_data)};
  }
  void see(const event::ConnectFailed& one) {
    if (one.reason != Reason::rejected)
      throw Failure(std::string("cannot connect: ") + to_string(one.reason));
    answered_ = true;
    answer_ = {false, copy(one.private_data)};
  }
  void see(const event::ConnectionLost& one) {
    lost_ = true;
    reason_ = one.reason;
  }
  void see(const event::ConnectionClosed&) { closed_ = true; }
  void see(const event::MessageReceived& one) {
    if (one.imm) throw Failure("a message with an immediate, which nobody sent");
    messages_.push_back(copy(one.payload));
  }
  void see(const event::SendDone&) { --outstanding_; }
  template <class Other>
  void see(const Other&) {
    throw Failure("an event that nothing here makes");
  }

  std::unique_ptr<tcp::TcpFabric> fabric_;
  Region target_;
  Region source_;
  RemoteKey key_;
  ConKey con_{};
  std::uint32_t request_ = 0;
  bool requested_ = false;
  ByteVector data_;
  bool answered_ = false;
  Answer answer_;
  std::deque<ByteVector> messages_;
  bool lost_ = false;
  bool closed_ = false;
  bool expects_end_ = false;
  Reason reason_ = Reason::none;
  std::string last_words_;
  unsigned outstanding_ = 0;
  std::size_t used_ = 0;
};

}  // namespace

std::unique_ptr<End> fabric_end(bool crc) {
  return std::make_unique<FabricEnd>(crc);
}

}  // namespace rtrs::siw
