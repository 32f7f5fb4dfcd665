// What epoll names: everything with a socket, and one instance that all of them are in.
#pragma once
#include <sys/epoll.h>
#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <span>

#include "backends/address/unique_fd.hpp"
#include "backends/tcp/tcp_line.hpp"
#include "core/proto/ids.hpp"

namespace rtrs::tcp {

// By the clock of the system (CLOCK_MONOTONIC).
Nanos clock_now() noexcept;

struct Watched {
  enum class Kind : std::uint8_t { listener, half_open, last_word, connection, timer, signal };
  explicit Watched(Kind what) noexcept : kind(what) {}
  virtual ~Watched() = default;
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

  const Kind kind;
  Line socket;
  std::uint32_t interest = 0;  // what epoll watches for; 0 with `watched`: errors alone
  bool watched = false;
};

// Level-triggered: what is not read is named again. One thread.
class Poller {
 public:
  // 0 or an errno.
  int open() noexcept;
  [[nodiscard]] int fd() const noexcept { return epoll_.get(); }
  // False: the kernel has no memory for it.
  bool watch(Watched&, std::uint32_t interest) noexcept;
  void forget(Watched&) noexcept;
  // Without waiting.
  std::span<const epoll_event> look() noexcept;

  // The timer makes fd() readable at `when`, or earlier if that was asked for before.
  void wake_at(Nanos when) noexcept;
  // It has fired: the next wake_at() counts.
  void fired() noexcept;
  // Makes fd() readable until signal_seen().
  void signal() noexcept;
  void signal_seen() noexcept;

 private:
  struct Timer final : Watched {
    Timer() noexcept : Watched(Kind::timer) {}
  };
  struct Signal final : Watched {
    Signal() noexcept : Watched(Kind::signal) {}
  };
  net::UniqueFd epoll_;
  Timer timer_;
  Signal signal_;
  Nanos armed_ = kNever;
  std::array<epoll_event, 64> named_{};
};

}  // namespace rtrs::tcp
