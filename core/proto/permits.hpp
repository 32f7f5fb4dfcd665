// The permits of a client session: permit i owns chunk i on every path (protocol section 5.1). A fixed pool;
// the lowest free permit is the next one, as in the kernel.
#pragma once
#include <array>
#include <bit>
#include <cstdint>

#include "core/base/assert.hpp"
#include "core/base/fixed_vector.hpp"
#include "core/base/reflect.hpp"
#include "core/proto/ids.hpp"
#include "core/proto/inputs.hpp"
#include "core/proto/limits.hpp"

namespace rtrs {

// Time at which a request was first sent. Part of the hashed state only if this time limits the request
// (`bounds`); otherwise for information only.
struct FirstSent {
  Nanos at = kNever;
  bool bounds = false;
  friend constexpr bool operator==(const FirstSent& a, const FirstSent& b) noexcept {
    return a.bounds == b.bounds && (!a.bounds || a.at == b.at);
  }
  template <class Self, class Visitor>
  static constexpr void visit_fields(Self& self, Visitor&& visit) {
    if (self.bounds) visit("at", self.at);
  }
};

struct Permit {
  enum class State : std::uint8_t {
    free,
    queued,     // the request waits for a path with room
    in_flight,  // the request was sent over (path, con, epoch)
    fenced,  // the path of the request is lost; the request waits for proof that the server will not execute
             // it later
    abandoned,  // the request failed while fenced: it is completed to the caller, but the server may still
                // use the chunk
  };
  static constexpr std::uint8_t kNowhere = 0xff;

  Nanos since = 0;  // time at which state queued, in_flight or fenced began
  std::uint32_t data_len = 0;
  std::uint32_t usr_len = 0;
  std::uint32_t epoch = 0;
  std::uint16_t con = 0;
  std::uint16_t affinity = 0;
  std::uint16_t next = kNoPermit;  // successor in the queue of waiting requests
  std::uint8_t path = 0;
  std::uint8_t failed_from = kNowhere;  // lost path over which the request was sent
  std::uint8_t generation = 0;          // tag that changes with every use of the permit on the wire
  State state = State::free;
  Direction direction = Direction::read;
  bool service = false;
  bool offers_invalidation = false;
  bool invalidated = false;  // the server invalidated the key of this request
  bool proven = true;    // false: the request failed over without proof that the old incarnation had ended
  bool overdue = false;  // abandoned only: request_timeout must still be reported
  FirstSent first_sent;
  bool operator==(const Permit&) const = default;
  RTRS_FIELDS(since, data_len, usr_len, epoch, con, affinity, next, path, failed_from, generation, state,
              direction, service, offers_invalidation, invalidated, proven, overdue, first_sent)
};

class PermitPool {
 public:
  void open(unsigned depth) noexcept {
    permits_.resize(depth);
    for (unsigned id = 0; id < depth; ++id) free_[id / 64] |= std::uint64_t{1} << (id % 64);
  }
  unsigned depth() const noexcept { return static_cast<unsigned>(permits_.size()); }
  std::uint16_t next() const noexcept {
    for (unsigned word = 0; word * 64 < permits_.size(); ++word)
      if (free_[word] != 0)
        return static_cast<std::uint16_t>(word * 64 + static_cast<unsigned>(std::countr_zero(free_[word])));
    return kNoPermit;
  }
  void take(std::uint16_t id) noexcept {
    RTRS_ASSERT(permits_[id].state == Permit::State::free);
    free_[id / 64] &= ~(std::uint64_t{1} << (id % 64));
    ++used_;
  }
  void put(std::uint16_t id) noexcept {
    RTRS_ASSERT(permits_[id].state != Permit::State::free && used_ > 0);
    if (permits_[id].state == Permit::State::abandoned) --given_up_;
    permits_[id].state = Permit::State::free;
    free_[id / 64] |= std::uint64_t{1} << (id % 64);
    --used_;
  }
  // Keeps the permit in use although its request is completed or is about to complete.
  void give_up(std::uint16_t id) noexcept {
    RTRS_ASSERT(permits_[id].state != Permit::State::free && permits_[id].state != Permit::State::abandoned);
    permits_[id].state = Permit::State::abandoned;
    ++given_up_;
  }
  unsigned used() const noexcept { return used_; }
  unsigned given_up() const noexcept { return given_up_; }
  Permit& operator[](std::size_t id) noexcept { return permits_[id]; }
  const Permit& operator[](std::size_t id) const noexcept { return permits_[id]; }
  auto begin() noexcept { return permits_.begin(); }
  auto end() noexcept { return permits_.end(); }
  auto begin() const noexcept { return permits_.begin(); }
  auto end() const noexcept { return permits_.end(); }

  bool operator==(const PermitPool&) const = default;
  RTRS_FIELDS(free_, used_, given_up_, permits_)

 private:
  std::array<std::uint64_t, (kMaxPermits + 63) / 64> free_{};
  std::uint32_t used_ = 0;
  std::uint32_t given_up_ = 0;
  FixedVector<Permit, kMaxPermits> permits_;
};

}  // namespace rtrs
