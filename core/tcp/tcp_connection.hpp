// One connection once its socket is connected, or on the way there: requests that wait to be sent, the
// stream that judges what arrives, and the receives.
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

// What a connection uses of its fabric.
struct Surroundings {
  const TcpOptions& options;
  Poller& poller;
  Memory& memory;
  Outboxes& outboxes;
  TcpStats& stats;
  iwarp::MutableBytes inbox;     // what one call may receive
  std::span<iwarp::Event> list;  // what one call of the stream may report
};

class Connection final : public Watched, private iwarp::Memory {
 public:
  // connecting: TCP's handshake; securing: that of the guard, of a client; asking: our request is out, the
  // reply is awaited.
  enum class Stage : std::uint8_t { connecting, securing, asking, up, lost };
  static constexpr std::uint32_t kMaxMessage = 16U << 20U;

  // Memory that a connection with these parameters takes before it has sent anything, and what a peer can
  // make it take at any time; receives not counted. With `crc` the checksums of the frames are sent.
  static std::uint64_t cost(const ConnectionParams&, bool crc, const Transport::Guard&) noexcept;

  // Allocates what its parameters ask for; may throw std::bad_alloc.
  Connection(const Surroundings&, ConKey, const ConnectionParams&, bool is_client);
  ~Connection() override;

  [[nodiscard]] ConKey key() const noexcept { return key_; }
  [[nodiscard]] bool is_client() const noexcept { return is_client_; }
  [[nodiscard]] Stage stage() const noexcept { return stage_; }
  void set_stage(Stage stage) noexcept { stage_ = stage; }
  void set_addresses(const std::string& client, const std::string& server);
  [[nodiscard]] const std::string& description() const noexcept { return description_; }
  // The server's address alone: the same in each attempt.
  [[nodiscard]] const std::string& destination() const noexcept { return destination_; }

  // --- set-up ---
  // Octets of a request or reply, sent before all else. May throw std::bad_alloc.
  void put_first(iwarp::Bytes);
  [[nodiscard]] std::uint64_t first_bytes() const noexcept { return first_bytes_; }
  // The peer's request or reply was good: messages may come. False: no memory for the CRC.
  bool begin(const iwarp::Wishes& agreed);
  iwarp::GreetingReader& reply() noexcept { return *reply_; }

  // --- sending ---
  // False: the send depth is used up.
  bool post(const WorkRequest&) noexcept;
  // The next post() needs make_room() before it: there are more requests outstanding than ever before.
  [[nodiscard]] bool needs_room() const noexcept {
    return posted_ - done_ == slots_.size() && slots_.size() < send_depth_;
  }
  [[nodiscard]] std::uint64_t room_bytes() const noexcept { return slots_.size() * sizeof(Slot); }
  // Takes room_bytes() of memory more. False: there is none.
  bool make_room() noexcept;
  // Sends what may be sent now. False: the connection is broken, error() says why.
  bool flush() noexcept;
  [[nodiscard]] bool has_work() const noexcept { return encoded_ != posted_ || box_ != nullptr; }
  // Reports signalled requests that were sent.
  std::size_t retire(std::span<FabricEvent> out) noexcept;
  [[nodiscard]] bool has_done() const noexcept { return done_ != encoded_ && slot(done_).end <= sent_; }
  [[nodiscard]] bool blocked() const noexcept { return blocked_; }
  [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
  // Gives up what was not sent.
  void drop_work() noexcept;

  // --- receiving ---
  void post_receives(unsigned count, std::uint32_t bytes_each) noexcept;
  struct Read {
    std::size_t events = 0;
    bool received = false;  // anything at all
    bool more = false;      // there may be more to do at once
    bool ended = false;     // end_reason(), end_text() say how
  };
  Read read(std::span<FabricEvent> out) noexcept;
  [[nodiscard]] bool has_delivered() const noexcept { return receives_.has_taken(); }
  void reuse_delivered() noexcept { receives_.reuse(mid_message() || again_); }
  [[nodiscard]] bool mid_message() const noexcept { return !stream_.between_messages(); }
  void key_died(std::uint32_t key) noexcept { stream_.key_died(key); }
  [[nodiscard]] bool stalled() const noexcept { return stream_.stalled(); }
  // Nothing is left to feed that a receive or the next call could move on.
  [[nodiscard]] bool has_more() const noexcept {
    return more_ || has_done() || (!left_.empty() && !stalled());
  }
  [[nodiscard]] bool may_send() const noexcept { return stream_.may_send(); }

  // --- deadlines, by the clock of the transport ---
  // Of a server: the client's first message comes by then. Of a client: the server's reply does.
  void expect_greeting(Nanos by) noexcept;
  // Ends the connection if one has passed. False: it lives on.
  bool overdue(Nanos now);
  [[nodiscard]] Nanos next_deadline() const noexcept;

  // --- ending ---
  [[nodiscard]] Reason end_reason() const noexcept { return end_reason_; }
  [[nodiscard]] const std::string& end_text() const noexcept { return end_text_; }
  [[nodiscard]] iwarp::Fault fault() const noexcept { return stream_.fault(); }
  void end(Reason, std::string text);
  // Why the socket gives or takes nothing any more; `error` is one of the transport.
  void end_by(int error);
  void fail(iwarp::Fault fault) noexcept { stream_.fail(fault); }
  // Sends the Terminate message of the fault if the transport takes it whole at once. False: it did not.
  bool send_terminate() noexcept;

  // Kept by the fabric.
  bool in_ready = false;
  bool in_dirty = false;
  bool in_mid = false;
  bool in_delivered = false;
  bool failing = false;    // sending failed: what has arrived is reported, then the loss
  unsigned dry_polls = 0;  // in a row that found nothing
  DeliveryWatch delivery;
  std::uint64_t cost_bytes = 0;
  std::uint32_t host = 0;
  bool counted = false;  // in the books of accepted connections

 private:
  struct Slot {
    WorkRequest work;
    std::vector<std::byte> bytes;  // of its inline bytes
    std::uint64_t end = 0;         // of its last octet, in octets sent
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
  // One call. False: the connection gives nothing now, or ended.
  bool receive(Read&, iwarp::Events&) noexcept;
  std::size_t translate(std::span<const iwarp::Event>, std::span<FabricEvent> out) noexcept;
  void keep_rest() noexcept;
  void note_stall() noexcept;
  void expect_rest() noexcept;
  // A message stopped in its middle.
  bool is_cut_off(Nanos now) noexcept;

  Surroundings around_;
  ConKey key_;
  std::uint32_t send_depth_;
  bool is_client_;
  Stage stage_ = Stage::connecting;
  std::string description_ = "? > ?";
  std::string destination_ = "?";

  std::vector<Slot> slots_;    // ring of a power of two; doubles when more requests than ever are in flight
  std::uint64_t posted_ = 0;   // numbers of requests
  std::uint64_t encoded_ = 0;  // those before it are sent, or in the outbox
  std::uint64_t done_ = 0;
  std::uint64_t first_bytes_ = 0;
  std::uint64_t queued_ = 0;  // octets that were put into outboxes
  std::uint64_t sent_ = 0;    // octets that the transport took
  std::unique_ptr<Outbox> box_;
  iwarp::Writer writer_{false};
  bool send_with_immediate_ = true;
  bool blocked_ = false;
  std::uint64_t blocked_mark_ = 0;  // sent_ has to come there by the deadline

  std::unique_ptr<iwarp::GreetingReader> reply_;  // of a client, until it is there
  std::unique_ptr<std::byte[]> staging_;
  iwarp::Stream stream_;
  Receives receives_;
  std::uint64_t received_ = 0;         // octets
  std::vector<std::byte> left_store_;  // received and not taken by the stream
  iwarp::Bytes left_{};
  bool more_ = false;
  bool again_ = false;   // the stream may hold an event back
  bool bulk_ = false;    // large payload comes: it is received straight to its place
  bool short_ = false;   // the last call took all that was there
  bool sealed_ = false;  // a guard has to open what comes

  Nanos greeting_by_ = kNever;
  Nanos output_by_ = kNever;
  Nanos receive_by_ = kNever;
  // Something more of the message that is not whole comes by then.
  Nanos rest_by_ = kNever;
  std::uint64_t rest_mark_ = 0;  // received_ at that time

  Reason end_reason_ = Reason::none;
  std::string end_text_;
};

}  // namespace rtrs::tcp
