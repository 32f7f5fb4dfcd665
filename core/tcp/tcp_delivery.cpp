// Finds connections of which the network delivers only small packets.
#include "core/tcp/tcp_delivery.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "core/tcp/tcp_fabric.hpp"

namespace rtrs::tcp {
namespace {

constexpr Nanos kLookEvery = seconds(1);
constexpr Nanos kTellEvery = seconds(60);

}  // namespace

// Called when the first connection of a path was heard, so that an idle fabric has no timer for it.
void FabricImpl::look_at_deliveries() {
  const Nanos now = poller_.now();
  if (now < next_delivery_look_) return;
  next_delivery_look_ = now + kLookEvery;
  passing_.clear();
  for (const auto& [key, one] : connections_) {
    if (key.con != 0 || one->stage() != Connection::Stage::up) continue;
    if (one->delivery.advanced(transport_->delivery(one->socket.get()))) passing_.push_back(key.place());
  }
  std::sort(passing_.begin(), passing_.end());
  for (const auto& [key, one] : connections_) {
    if (key.con == 0 || one->stage() != Connection::Stage::up || !one->delivery.wants_look(one->sent()))
      continue;
    const Transport::Delivery delivery = transport_->delivery(one->socket.get());
    const bool small_pass = std::binary_search(passing_.begin(), passing_.end(), key.place());
    if (one->delivery.is_black_hole(delivery, one->sent(), small_pass)) tell_of_lost_packets(*one, delivery);
  }
}

// The answer to the first message of a session is as large as packets are, and no heartbeat runs before it.
// One that is not acknowledged may be an outage; two in a row, of connections that were made, are none.
void FabricImpl::judge_end(const Connection& one) {
  if (one.key().con != 0 || one.is_client() || one.stage() != Connection::Stage::up) return;
  const Transport::Delivery delivery = transport_->delivery(one.socket.get());
  if (!passed_small_packets_only(delivery)) {
    if (suspect_host_ == one.host) suspect_host_.reset();
  } else if (std::exchange(suspect_host_, one.host) == one.host) {
    tell_of_lost_packets(one, delivery);
  }
}

void FabricImpl::tell_of_lost_packets(const Connection& one, const Transport::Delivery& delivery) {
  ++stats_.large_packets_lost;
  const Nanos now = poller_.now();
  if (now < next_packet_warning_) return;
  next_packet_warning_ = now + kTellEvery;
  const std::string mtu = std::to_string(delivery.packet_bytes);
  say(LogLevel::error, one.description() +
                           ": the network delivers small packets and drops large ones: data were sent " +
                           std::to_string(delivery.attempts) +
                           " times more without an acknowledgement, in packets of up to " + mtu +
                           " bytes; give both hosts and the switches between them the same MTU (\"ip link\" "
                           "shows it, \"ping -M do -s SIZE HOST\" what passes)");
}

}  // namespace rtrs::tcp
