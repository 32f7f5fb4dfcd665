// O20 for one client: the promises of its options and its documentation. Times are those of the client's
// clock.
//   - a request fails with no_path after queue_timeout without a path, not before
//   - a path that ends with request_timeout fails at least one request with that reason
//   - within request_timeout after it was sent, a request is answered or its path is lost
//   - a deadline does not end a path while the fabric holds the response
//   - a path that no operator ended reconnects after at most the longest delay of the options
//   - recover() reconnects at once each path that waits or has stopped trying
//   - the status shows when the next attempt of a waiting path begins, never a time in the past after a poll
//   - a path ends with connection_silent only if something posted on the connection is undelivered
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
  // State of a client just before a poll.
  struct Before {
    std::size_t held_events = 0;           // events pending in the fabric
    Nanos without_permits_since = kNever;  // start of the time without usable permits; kNever: there are some
    std::bitset<kMaxPaths> delivered;      // paths whose posted work was all delivered
  };

  // `whole_requests`: each request is one message, so that each failed message is a failed request.
  ClientPromises(Judge&, const ClientConfig&, bool whole_requests);

  // Called when an operator ends this path. The path may stay closed until its next attempt.
  void asked_to_end(unsigned path, Nanos now) {
    asked_[path] = now;
    must_reconnect_at_once_[path] = false;
  }
  // Called when an operator has recovered the session. `tried`: result of Client::recover(), the number of
  // paths to reconnect.
  void recovered(std::span<const PathStatus> before, std::span<const PathStatus> after, unsigned tried,
                 Nanos now);
  // Called after a poll.
  void check_attempts(std::span<const PathStatus> paths, Nanos now);

  // Called after a poll. `since`: time at which the oldest unanswered request was first sent.
  void check_oldest(Nanos since, Nanos now);

  // Called when the client closes its session.
  void leaves() { leaving_ = true; }

  void poll_begins(const Before& before);
  // Must be called for all events of the client, in order. `news.at` is a time on the client's clock.
  void note(const PathEvent& news);
  void completed(std::uint32_t io, Errc result, Nanos submitted, Nanos now);
  // `taken`: number of events that the fabric reported during this poll. `all_results`: the client has no
  // result left to return.
  void poll_ends(std::size_t taken, bool all_results, Nanos now);

 private:
  void note_path(const PathChanged& path, Nanos at);
  bool early(Nanos submitted, Nanos since, Nanos now) const noexcept;

  Judge& judge_;
  ClientConfig config_;
  bool whole_requests_;
  bool leaving_ = false;
  Before before_;
  std::array<bool, kMaxPaths> must_reconnect_at_once_{};  // path must reconnect at once after draining
  std::array<Nanos, kMaxPaths> asked_;  // when an operator ended the path; kNever: not since its last attempt
  // Start of the time without a path, now and at the start of the poll. Initially the client's start.
  Nanos down_since_ = 0;
  // The last period without a path that was as long as queue_timeout. A message that failed then may belong
  // to a request whose other messages end later.
  struct Outage {
    Nanos since = kNever, until = 0;
  } outage_;
  Nanos down_before_ = 0;
  Nanos lost_at_ = 0;             // time when the last path was lost; older requests may have been resent
  Reason missed_ = Reason::none;  // reason with which a deadline ended a path in this poll
  std::uint64_t timeouts_ = 0;    // number of requests that failed with request_timeout
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};
  std::array<std::uint64_t, kMaxPaths>
      timeouts_before_;            // `timeouts_` when this path was lost; kNothing: no failure is expected
  bool timeout_expected_ = false;  // a request must fail with request_timeout in this poll
};

}  // namespace rtrs::sim
