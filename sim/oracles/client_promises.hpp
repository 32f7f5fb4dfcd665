// O20, of one client: what its options and its documentation promise. Times are those of the client's clock.
//   - a request fails for want of a path after queue_timeout without one, not before
//   - a path that was lost for request_timeout fails at least one request with it
//   - a request that was sent once is answered, or its path is lost, within request_timeout
//   - an answer that the fabric holds comes before the deadline that would miss it
//   - a path that nobody asked to end is tried again, after the longest delay of the options at most
//   - a recover tries at once each path that was to be tried later, or not any more
//   - the status says when the next attempt begins: of each path that waits for one, and never a time that is
//     over when a poll ends
//   - a connection is silent only while something that was posted on it is not delivered
#pragma once
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/driver/path_event.hpp"
#include "core/proto/config.hpp"
#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

class ClientPromises {
 public:
  // What the world knows of a client just before it is polled.
  struct Before {
    std::size_t held_events = 0;           // that the fabric has for it
    Nanos without_permits_since = kNever;  // all permits are given up
    std::bitset<kMaxPaths> delivered;      // paths on which everything posted was delivered
  };

  // `whole_requests`: a request is one message, so that what fails is what the user gave.
  ClientPromises(Judge&, const ClientConfig&, bool whole_requests);

  // An operator ends this path. It may be closed until it tries again.
  void asked_to_end(unsigned path, Nanos now) {
    asked_[path] = now;
    at_once_[path] = false;
  }
  // An operator recovered the session: its paths before and after the call, and what the call answered.
  void recovered(std::span<const PathStatus> before, std::span<const PathStatus> after, unsigned tried,
                 Nanos now);
  // When a poll has ended.
  void check_attempts(std::span<const PathStatus> paths, Nanos now);

  // When a poll has ended. `since`: time at which the oldest unanswered request was first sent.
  void check_oldest(Nanos since, Nanos now);

  // Its session is closed.
  void leaves() { leaving_ = true; }

  void poll_begins(const Before& before);
  // All news of the client, in order. `news.at` by its clock.
  void note(const PathEvent& news);
  void completed(std::uint32_t io, Errc result, Nanos submitted, Nanos now);
  // `taken`: events that the fabric reported during this poll; `all_results`: no result is left in the
  // client.
  void poll_ends(std::size_t taken, bool all_results, Nanos now);

 private:
  void note_path(const PathChanged& path, Nanos at);
  bool early(Nanos submitted, Nanos since, Nanos now) const noexcept;

  Judge& judge_;
  ClientConfig config_;
  bool whole_requests_;
  bool leaving_ = false;
  Before before_;
  std::array<bool, kMaxPaths> at_once_{};  // is tried again at once when it is drained
  std::array<Nanos, kMaxPaths> asked_;     // to end; kNever: the path has tried again since
  // The last time without a path, and the one that counted when the poll began. From the start of the client.
  Nanos down_since_ = 0;
  // The last time without a path that was as long as queue_timeout. A message that failed then may belong to
  // a request whose other messages end later.
  struct Outage {
    Nanos since = kNever, until = 0;
  } outage_;
  Nanos down_before_ = 0;
  Nanos lost_at_ = 0;             // the last path: what was sent before may have been sent again
  Reason missed_ = Reason::none;  // of a path that a deadline ended in this poll
  std::uint64_t timeouts_ = 0;    // requests that failed with request_timeout
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};
  std::array<std::uint64_t, kMaxPaths> timeouts_before_;  // the loss of this path; kNothing: none is owed
  bool owed_ = false;                                     // one of them is due now
};

}  // namespace rtrs::sim
