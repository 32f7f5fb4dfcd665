// What the transport names when it is ready: everything with a socket; and the one timer of a fabric.
#pragma once
#include <cstdint>
#include <span>

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
  std::uint32_t interest = 0;  // what it is watched for; 0 with `watched`: that it is broken alone
  bool watched = false;
};

class Poller {
 public:
  explicit Poller(Transport& transport) noexcept : transport_(transport) {}
  [[nodiscard]] int fd() const noexcept { return transport_.wait_fd(); }
  [[nodiscard]] Nanos now() const noexcept { return transport_.now(); }
  Transport& transport() noexcept { return transport_; }

  // False: there is no memory for it.
  bool watch(Watched&, std::uint32_t interest) noexcept;
  void forget(Watched&) noexcept;
  // Without waiting.
  std::span<const Transport::Ready> look() noexcept { return transport_.look(); }

  // The timer makes fd() readable at `when`, or earlier if that was asked for before.
  void wake_at(Nanos when) noexcept;
  // It has fired: the next wake_at() counts.
  void fired() noexcept { armed_ = kNever; }
  // Makes fd() readable until the next look().
  void signal() noexcept { transport_.signal(); }

 private:
  Transport& transport_;
  Nanos armed_ = kNever;
};

}  // namespace rtrs::tcp
