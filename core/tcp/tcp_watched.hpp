// Base class of objects whose sockets the transport reports as ready, and the timer of a fabric.
#pragma once
#include <cstdint>
#include <span>

#include "core/iwarp/greeting.hpp"
#include "core/proto/ids.hpp"
#include "core/tcp/tcp_transport.hpp"

namespace rtrs::tcp {

struct Watched {
  enum class Kind : std::uint8_t { listener, half_open, last_word, connection };
  explicit Watched(Kind what) noexcept : kind(what) {}
  virtual ~Watched() = default;
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  const Kind kind;
  Socket socket;
  std::uint32_t interest = 0;  // events watched for; 0 with `watched`: only kBroken
  bool watched = false;
};

// Buffer for a greeting. Without a guard it has one byte more than the longest greeting, so that excess data
// is detected.
inline iwarp::MutableBytes greeting_room(iwarp::MutableBytes inbox, const Transport::Guard& guard) noexcept {
  return guard.sealed ? inbox : inbox.first(iwarp::kMaxGreetingBytes + 1);
}

class Poller {
 public:
  explicit Poller(Transport& transport) noexcept : transport_(transport) {}
  [[nodiscard]] int fd() const noexcept { return transport_.wait_fd(); }
  [[nodiscard]] Nanos now() const noexcept { return transport_.now(); }
  Transport& transport() noexcept { return transport_; }

  // Returns false if there is no memory.
  bool watch(Watched&, std::uint32_t interest) noexcept;
  void forget(Watched&) noexcept;
  // Does not block.
  std::span<const Transport::Ready> look() noexcept { return transport_.look(); }

  // Makes fd() readable at `when`, or earlier if an earlier time was set before.
  void wake_at(Nanos when) noexcept;
  // Call after the timer fired: the next wake_at() sets a new time.
  void fired() noexcept { armed_ = kNever; }
  // Makes fd() readable until the next look().
  void signal() noexcept { transport_.signal(); }

 private:
  Transport& transport_;
  Nanos armed_ = kNever;
};

}  // namespace rtrs::tcp
