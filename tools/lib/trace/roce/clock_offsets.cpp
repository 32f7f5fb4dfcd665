#include "tools/lib/trace/roce/clock_offsets.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "tools/lib/trace/roce/cm.hpp"

namespace rtrs::roce {
namespace {

// Number of sequence numbers that are kept per queue pair.
constexpr std::size_t kKept = 4096;
// Time in ns. If more time passes between a supposed cause and its effect, they belong to different uses of a
// sequence number or queue pair.
constexpr std::int64_t kSameMoment = 1'000'000'000;
// Time in ns. Offsets that differ by less than this belong to the same two clocks, because an offset is known
// only to half a round-trip time.
constexpr std::int64_t kSameClock = 100'000;
// Maximum number of lanes and handshakes. If there are more, for example in a flood of connect requests,
// those under way are forgotten; what they showed about the clocks remains.
constexpr std::size_t kMostLanes = std::size_t{1} << 15;
// Maximum number of different offsets. Few hosts, and so few clocks, take part in a capture.
constexpr std::size_t kCandidates = 16;

}  // namespace

std::int64_t ClockOffsets::Bounds::offset() const {
  // If no pair is reversed, there is nothing to correct. A pair also looks reversed if the capture contains
  // only the retransmission of a packet, but then no offset fits (least > most).
  if (reversed == 0 || least == INT64_MIN || most == INT64_MAX || least > most) return 0;
  const std::int64_t middle = least + (most - least) / 2;
  return std::abs(middle) <= kMost ? middle : 0;
}

void ClockOffsets::finish() {
  std::vector<std::int64_t> found;
  for (const auto& [ends, bounds] : bounds_) {
    const std::int64_t offset = bounds.offset();
    if (offset == 0) continue;
    offsets_[ends] = offset;
    if (found.size() < kCandidates) found.push_back(offset);
    if (std::abs(offset) > std::abs(largest_)) largest_ = offset;
  }
  // An address pair with traffic in only one direction uses the offset of another pair, if that offset fits.
  for (const auto* one_way : {&bounds_, &rejects_}) {
    for (const auto& [ends, bounds] : *one_way) {
      if (bounds.reversed == 0 || offsets_.contains(ends)) continue;
      for (const std::int64_t offset : found) {
        const std::int64_t within = std::max(bounds.least, std::min(bounds.most, offset));
        if (std::abs(within - offset) > kSameClock) continue;
        offsets_[ends] = within;
        break;
      }
    }
  }
}

void ClockOffsets::caused(std::map<Ends, Bounds>& of, const Address& by, std::uint64_t cause,
                          const Address& at, std::uint64_t effect) {
  const auto ahead = static_cast<std::int64_t>(cause - effect);
  if (by == at || ahead > kSameMoment || ahead < -kSameMoment) return;
  Bounds& bounds = of[std::minmax(by, at)];
  if (ahead > 0) ++bounds.reversed;
  if (by < at) {
    bounds.least = std::max(bounds.least, ahead);
  } else {
    bounds.most = std::min(bounds.most, -ahead);
  }
}

void ClockOffsets::rejected(std::uint64_t time, const Packet& packet, std::uint32_t client_id) {
  Handshake& known = handshakes_[QueuePair{packet.destination, client_id}];
  if (known.reject) return;
  known.reject = time;
  if (known.request) caused(rejects_, packet.destination, *known.request, packet.source, time);
}

// Handles a CM message. Request, reply and ready-to-use contain the client's CM id. If the clocks differ, any
// of the three can come first in the capture.
void ClockOffsets::manage(std::uint64_t time, const Packet& packet) {
  const std::optional<CmMessage> message = decode_cm(packet);
  if (!message) return;
  if (message->attribute == CmAttribute::reject) return rejected(time, packet, message->remote_id);
  const bool reply = message->attribute == CmAttribute::reply;
  if (!reply && message->attribute != CmAttribute::request && message->attribute != CmAttribute::ready)
    return;
  const Address client = reply ? packet.destination : packet.source;
  const Address server = reply ? packet.source : packet.destination;
  Handshake& known = handshakes_[QueuePair{client, reply ? message->remote_id : message->local_id}];
  std::optional<std::uint64_t>& stamp = reply                                        ? known.reply
                                        : message->attribute == CmAttribute::request ? known.request
                                                                                     : known.ready;
  if (stamp) return;
  stamp = time;
  if (message->attribute != CmAttribute::ready) (reply ? known.server_qpn : known.client_qpn) = message->qpn;
  if (known.reject && &stamp == &known.request) caused(rejects_, client, time, server, *known.reject);
  if (!known.reply) return;
  if (known.request && &stamp != &known.ready) {
    caused(bounds_, client, *known.request, server, *known.reply);
    peers_[{client, known.client_qpn}] = {server, known.server_qpn};
    peers_[{server, known.server_qpn}] = {client, known.client_qpn};
  }
  if (known.ready && &stamp != &known.request) caused(bounds_, server, *known.reply, client, *known.ready);
}

void ClockOffsets::remember(std::unordered_map<std::uint32_t, std::uint64_t>& times, Lane& lane,
                            std::uint32_t psn, std::uint64_t time) {
  if (!times.try_emplace(psn, time).second) return;
  lane.order.push_back(psn);
  if (lane.order.size() <= 2 * kKept) return;
  lane.sent.erase(lane.order.front());
  lane.acknowledged.erase(lane.order.front());
  lane.order.pop_front();
}

// Processes the first packet `number` of a lane, and its first acknowledgement.
void ClockOffsets::sent(std::uint64_t time, Lane& lane, std::uint32_t number, const Address& by,
                        const Address& to) {
  if (lane.sent.contains(number)) return;
  remember(lane.sent, lane, number, time);
  const auto effect = lane.acknowledged.find(number);
  if (effect != lane.acknowledged.end()) caused(bounds_, by, time, to, effect->second);
}

void ClockOffsets::acknowledged(std::uint64_t time, Lane& lane, std::uint32_t number, const Address& by,
                                const Address& to) {
  if (lane.acknowledged.contains(number)) return;
  remember(lane.acknowledged, lane, number, time);
  const auto cause = lane.sent.find(number);
  if (cause != lane.sent.end()) caused(bounds_, to, cause->second, by, time);
}

void ClockOffsets::look(std::uint64_t time, const Packet& packet) {
  if (lanes_.size() > kMostLanes) lanes_.clear();
  if (handshakes_.size() > kMostLanes) handshakes_.clear();
  if (packet.dest_qp == kCmQueuePair) return manage(time, packet);
  const QueuePair to{packet.destination, packet.dest_qp};
  if (!headers_of(packet.opcode).aeth)
    return sent(time, lanes_[to], packet.psn, packet.source, packet.destination);
  const auto peer = peers_.find(to);
  if (peer == peers_.end() || packet.acknowledgement() != Acknowledgement::ack) return;
  acknowledged(time, lanes_[peer->second], packet.psn, packet.source, packet.destination);
}

void ClockOffsets::look(std::uint64_t time, const Flow& flow, std::optional<std::uint32_t> end,
                        std::optional<std::uint32_t> before) {
  if (flow.source == flow.destination) return;
  if (flows_.size() > kMostLanes) flows_.clear();
  if (end) sent(time, flows_[flow], *end, flow.source, flow.destination);
  const Flow back{flow.destination, flow.source, {flow.ports.second, flow.ports.first}};
  if (before) acknowledged(time, flows_[back], *before, flow.source, flow.destination);
}

std::int64_t ClockOffsets::correction(const Address& source, const Address& destination) const {
  if (offsets_.empty() || source < destination) return 0;
  const auto found = offsets_.find(Ends{destination, source});
  return found == offsets_.end() ? 0 : found->second;
}

}  // namespace rtrs::roce
