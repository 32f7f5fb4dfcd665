// One connection from the start of its set-up: the requests waiting to be sent, the stream that checks
// incoming data, and the receives.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/iwarp/greeting.hpp"
#include "core/iwarp/stream.hpp"
#include "core/tcp/tcp_delivery.hpp"
#include "core/tcp/tcp_memory.hpp"
#include "core/tcp/tcp_options.hpp"
#include "core/tcp/tcp_outbox.hpp"
#include "core/tcp/tcp_receives.hpp"
#include "core/tcp/tcp_watched.hpp"

namespace rtrs::tcp {

// Parts of the fabric that a connection uses.
struct FabricParts {
  const TcpOptions& options;
  Poller& poller;
  Memory& memory;
  Outboxes& outboxes;
  TcpStats& stats;
  iwarp::MutableBytes inbox;     // buffer for the data of one receive call
  std::span<iwarp::Event> list;  // buffer for the events of one stream call
};

class Connection final : public Watched, private iwarp::Memory {
 public:
  // Stages of a connection. connecting: TCP handshake. securing (client only): handshake of the guard.
  // asking: the request is sent and the reply is pending.
  enum class Stage : std::uint8_t { connecting, securing, asking, up, lost };
  static constexpr std::uint32_t kMaxMessage = 16U << 20U;

  // Memory in bytes that a connection with these parameters uses at the start, plus the maximum that a peer
  // can cause it to allocate, without receives. `crc`: frames are sent with checksums.
  static std::uint64_t cost(const ConnectionParams&, bool crc, const Transport::Guard&) noexcept;

  // Allocates memory according to the parameters; may throw std::bad_alloc.
  Connection(const FabricParts&, ConKey, const ConnectionParams&, bool is_client);
  ~Connection() override;

  [[nodiscard]] ConKey key() const noexcept { return key_; }
  [[nodiscard]] bool is_client() const noexcept { return is_client_; }
  [[nodiscard]] Stage stage() const noexcept { return stage_; }
  void set_stage(Stage stage) noexcept { stage_ = stage; }
  void set_addresses(const std::string& client, const std::string& server);
  [[nodiscard]] const std::string& description() const noexcept { return description_; }
  // Returns only the server's address, which does not change between attempts.
  [[nodiscard]] const std::string& destination() const noexcept { return destination_; }

  // --- set-up ---
  // Queues a request or reply to be sent before everything else. May throw std::bad_alloc.
  void put_first(iwarp::Bytes);
  [[nodiscard]] std::uint64_t first_bytes() const noexcept { return first_bytes_; }
  // Call when the peer's request or reply is valid: from then on messages may be sent. Returns false if there
  // is no memory for the CRC.
  bool begin(const iwarp::Wishes& agreed);
  iwarp::GreetingReader& reply() noexcept { return *reply_; }

  // --- sending ---
  // Returns false if the send depth is exhausted.
  bool post(const WorkRequest&) noexcept;
  // True if make_room() must be called before the next post(), because the number of outstanding requests
  // reaches a new maximum.
  [[nodiscard]] bool needs_room() const noexcept {
    return posted_ - done_ == slots_.size() && slots_.size() < send_depth_;
  }
  [[nodiscard]] std::uint64_t room_bytes() const noexcept { return slots_.size() * sizeof(Slot); }
  // Allocates room_bytes() of additional memory. Returns false if there is none.
  bool make_room() noexcept;
  // Sends as much as possible. Returns false if the connection failed; end_reason() returns the reason.
  bool flush() noexcept;
  [[nodiscard]] bool has_work() const noexcept { return encoded_ != posted_ || box_ != nullptr; }
  // Reports signalled requests that were sent.
  std::size_t retire(std::span<FabricEvent> out) noexcept;
  [[nodiscard]] bool has_done() const noexcept { return done_ != encoded_ && slot(done_).end <= sent_; }
  [[nodiscard]] bool blocked() const noexcept { return blocked_; }
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  // Discards unsent requests.
  void drop_work() noexcept;

  // --- receiving ---
  void post_receives(unsigned count, std::uint32_t bytes_each) noexcept;
  struct Read {
    std::size_t events = 0;
    bool received = false;  // at least one byte was received
    bool more = false;      // call read() again, there may be more data
    bool ended = false;     // the connection ended, see end_reason() and end_text()
  };
  Read read(std::span<FabricEvent> out) noexcept;
  [[nodiscard]] bool has_delivered() const noexcept { return receives_.has_taken(); }
  void reuse_delivered() noexcept { receives_.reuse(mid_message() || again_); }
  [[nodiscard]] bool mid_message() const noexcept { return !stream_.between_messages(); }
  void key_died(std::uint32_t key) noexcept { stream_.key_died(key); }
  [[nodiscard]] bool stalled() const noexcept { return stream_.stalled(); }
  // True if another call of read() may make progress without waiting.
  [[nodiscard]] bool has_more() const noexcept {
    return more_ || has_done() || (!left_.empty() && !stalled());
  }
  [[nodiscard]] bool may_send() const noexcept { return stream_.may_send(); }

  // --- deadlines, in the transport's clock ---
  // Server: deadline of the client's first message. Client: deadline of the server's reply.
  void expect_greeting(Nanos by) noexcept;
  // Ends the connection if a deadline has passed. Returns false if none has.
  bool overdue(Nanos now);
  [[nodiscard]] Nanos next_deadline() const noexcept;

  // --- ending ---
  [[nodiscard]] Reason end_reason() const noexcept { return end_reason_; }
  [[nodiscard]] const std::string& end_text() const noexcept { return end_text_; }
  [[nodiscard]] iwarp::Fault fault() const noexcept { return stream_.fault(); }
  void end(Reason, std::string text);
  // Ends the connection after a failed transport call. `error` is an error number of the transport.
  void end_by(int error);
  void fail(iwarp::Fault fault) noexcept { stream_.fail(fault); }
  // Sends the Terminate message of the fault if the transport accepts all of it at once; otherwise returns
  // false.
  bool send_terminate() noexcept;

  // Members that the fabric maintains.
  bool in_ready = false;
  bool in_dirty = false;
  bool in_mid = false;
  bool in_delivered = false;
  bool failing = false;     // sending failed: the data that has arrived must be reported, then the loss
  unsigned idle_polls = 0;  // consecutive polls without data
  DeliveryWatch delivery;
  std::uint64_t cost_bytes = 0;
  std::uint32_t host = 0;
  bool counted = false;  // included in the totals of accepted connections

 private:
  struct Slot {
    WorkRequest work;
    std::vector<std::byte> bytes;  // copy of the request's inline bytes
    std::uint64_t end = 0;         // stream position after the request's last byte
  };

  // --- iwarp::Memory ---
  iwarp::Fault resolve(std::uint32_t key, std::uint64_t to, std::size_t n,
                       iwarp::MutableBytes& place) noexcept override;
  std::optional<iwarp::MutableBytes> take_receive() noexcept override;
  iwarp::Fault invalidate(std::uint32_t key) noexcept override;

  Slot& slot(std::uint64_t number) noexcept { return slots_[number & (slots_.size() - 1)]; }
  [[nodiscard]] const Slot& slot(std::uint64_t number) const noexcept {
    return slots_[number & (slots_.size() - 1)];
  }
  bool encode_all() noexcept;
  bool encode(const WorkRequest&) noexcept;
  static iwarp::Room room_for(const WorkRequest&) noexcept;

  void set_blocked(bool) noexcept;
  void update_interest() noexcept;
  // Makes one receive call. Returns false if no data is available, or the connection ended.
  bool receive(Read&, iwarp::Events&) noexcept;
  std::size_t translate(std::span<const iwarp::Event>, std::span<FabricEvent> out) noexcept;
  void keep_rest() noexcept;
  void note_stall() noexcept;
  void expect_rest() noexcept;
  // True if the rest of an incomplete message has not arrived for too long.
  bool is_cut_off(Nanos now) noexcept;

  FabricParts fabric_parts_;
  ConKey key_;
  std::uint32_t send_depth_;
  bool is_client_;
  Stage stage_ = Stage::connecting;
  std::string description_ = "? > ?";
  std::string destination_ = "?";

  std::vector<Slot>
      slots_;  // ring, size a power of two; doubles when the number in flight reaches a new maximum
  std::uint64_t posted_ = 0;   // number of posted requests
  std::uint64_t encoded_ = 0;  // requests with a lower number are sent or in the outbox
  std::uint64_t done_ = 0;
  std::uint64_t first_bytes_ = 0;
  std::uint64_t queued_ = 0;  // number of bytes put into the outbox so far
  std::uint64_t sent_ = 0;    // number of bytes that the transport has accepted so far
  std::unique_ptr<Outbox> box_;
  iwarp::Writer writer_{false};
  bool send_with_immediate_ = true;
  bool blocked_ = false;
  std::uint64_t blocked_mark_ = 0;  // sent_ must reach this value by the deadline

  std::unique_ptr<iwarp::GreetingReader> reply_;  // client only, until the reply is complete
  std::unique_ptr<std::byte[]> staging_;
  iwarp::Stream stream_;
  Receives receives_;
  std::uint64_t received_ = 0;         // number of bytes received so far
  std::vector<std::byte> left_store_;  // bytes that were received but not consumed by the stream
  iwarp::Bytes left_{};
  bool more_ = false;
  bool again_ = false;   // the stream may have an event that it has not reported
  bool bulk_ = false;    // large payload is arriving and is received directly into its destination
  bool short_ = false;   // the last receive call emptied the socket
  bool sealed_ = false;  // a guard (TLS) decrypts incoming data

  Nanos greeting_by_ = kNever;
  Nanos output_by_ = kNever;
  Nanos receive_by_ = kNever;
  // Deadline for further bytes of an incomplete message.
  Nanos rest_by_ = kNever;
  std::uint64_t rest_mark_ = 0;  // value of received_ when the deadline was set

  Reason end_reason_ = Reason::none;
  std::string end_text_;
};

}  // namespace rtrs::tcp
