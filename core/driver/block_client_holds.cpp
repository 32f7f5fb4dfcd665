// Holds requests that wait for their device to be open, for a path or for a permit, and ends them at their
// time limit.
#include <algorithm>
#include <utility>

#include "core/driver/block_client_impl.hpp"
#include "core/rnbd/device_reasons.hpp"

namespace rtrs {

void BlockClient::Impl::note_held(const Request& request) noexcept {
  oldest_held = queued == 0 ? request.since : std::min(oldest_held, request.since);
  refusals_end = std::min(refusals_end, refusal_ends(request));
  ++queued;
}

// Starts the time limit for requests of a device whose OPEN was refused. All held requests were submitted at
// `now` or earlier, so the limit counts from `now`.
void BlockClient::Impl::note_change(Nanos now, const rnbd::DeviceChanged& change) noexcept {
  Device& device = device_of(change.device);
  if (change.state == rnbd::DeviceState::open || change.state == rnbd::DeviceState::unmapped)
    device.refused_since = kNever;
  if (!devices.refused(change.device) || device.refused_since != kNever) return;
  device.refused_since = now;
  refusals_end = std::min(refusals_end, later(now, queue_timeout));
}

Nanos BlockClient::Impl::held_until() const noexcept {
  return queued == 0 ? kNever : std::min(hold_ends(oldest_held), refusals_end);
}

// Limits the wait of held requests if a server does not answer OPEN or the link flaps. The session has no
// limit for these cases. The time counts only while no piece is in flight: a device is reopened only after
// all pieces have completed, and storage has no time limit.
void BlockClient::Impl::update_idle_since(Nanos now) noexcept {
  idle_since = queued != 0 && in_flight == 0 ? std::min(idle_since, now) : kNever;
}

Nanos BlockClient::Impl::hold_ends(Nanos since) const noexcept {
  const Nanos idle = idle_since == kNever ? kNever : std::max(since, idle_since);
  const Nanos own = idle >= kNever - queue_timeout ? kNever : idle + queue_timeout;
  return std::min(session.queue_ends(since), own);
}

// Returns the time at which a request of a refused device fails. Refused devices have a separate limit: IO of
// other devices may be in flight all the time, so idle_since may never be set.
Nanos BlockClient::Impl::refusal_ends(const Request& request) const noexcept {
  const Nanos since = device_of(request.device).refused_since;
  return since == kNever ? kNever : later(std::max(request.since, since), queue_timeout);
}

BlockClient::Impl::Result BlockClient::Impl::expired(const Request& request, Nanos now) const noexcept {
  const std::uint16_t refusal = devices.last_refusal(request.device);
  const bool lacks_path = session.queue_ends(request.since) <= now;
  if (!lacks_path && rnbd::may_pass(refusal)) return {Errc::peer_error, refusal};
  const Errc why = !lacks_path ? Errc::request_timeout : session.link_up() ? Errc::no_permit : Errc::no_path;
  return {why, to_linux_errno(why)};
}

void BlockClient::Impl::end_held(Nanos now) {
  oldest_held = refusals_end = kNever;
  const auto over = [&](const Request& request) {
    const Nanos refused = refusal_ends(request);
    if (std::min(hold_ends(request.since), refused) <= now) return true;
    oldest_held = std::min(oldest_held, request.since);
    refusals_end = std::min(refusals_end, refused);
    return false;
  };
  for (Device& device : std::span(devices_by_slot).first(slots)) {
    for (IndexQueue held = std::exchange(device.again, {}); !held.empty();) {
      const std::uint32_t piece = held.pop_front(pieces);
      const Request& request = requests[pieces[piece].request];
      if (!over(request)) {
        device.again.push_back(pieces, piece);
        continue;
      }
      --queued;
      end_piece(piece, expired(request, now));
    }
    for (IndexQueue held = std::exchange(device.backlog, {}); !held.empty();) {
      const std::uint32_t index = held.pop_front(requests);
      Request& request = requests[index];
      if (!over(request)) {
        device.backlog.push_back(requests, index);
        continue;
      }
      --queued;
      if (!request.result) request.result = expired(request, now);
      request.all_sent = true;
      finish_if_done(index);
    }
  }
}

}  // namespace rtrs
