// Detects connections for which the network delivers only small packets.
#include "core/tcp/tcp_delivery.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "core/tcp/tcp_fabric.hpp"

namespace rtrs::tcp {
namespace {

constexpr Nanos kCheckInterval = seconds(1);
constexpr Nanos kWarningInterval = seconds(60);

}  // namespace

// Called when data has arrived on the first connection of a path. So an idle fabric needs no timer.
void FabricImpl::check_deliveries() {
  const Nanos now = poller_.now();
  if (now < next_delivery_check_) return;
  next_delivery_check_ = now + kCheckInterval;
  passing_.clear();
  for (const auto& [key, one] : connections_) {
    if (key.con != 0 || one->stage() != Connection::Stage::up) continue;
    if (one->delivery.advanced(transport_->delivery(one->socket.get()))) passing_.push_back(key.place());
  }
  std::sort(passing_.begin(), passing_.end());
  for (const auto& [key, one] : connections_) {
    if (key.con == 0 || one->stage() != Connection::Stage::up || !one->delivery.needs_check(one->sent()))
      continue;
    const Transport::Delivery delivery = transport_->delivery(one->socket.get());
    const bool small_pass = std::binary_search(passing_.begin(), passing_.end(), key.place());
    if (one->delivery.is_black_hole(delivery, one->sent(), small_pass)) log_lost_packets(*one, delivery);
  }
}

// Detects a network that drops large packets from the start: two successive sessions of an address pair ended
// after only the greeting was acknowledged. The next message of the server fills whole packets, and
// heartbeats start after that message. A plain outage rarely starts just before this message, and hardly ever
// does so twice in a row.
void FabricImpl::judge_end(const Connection& one) {
  // A socket that is kept for a Terminate message no longer belongs to the connection.
  if (one.key().con != 0 || one.is_client() || one.stage() != Connection::Stage::up || !one.socket) return;
  const Transport::Delivery delivery = transport_->delivery(one.socket.get());
  const bool suspicious = passed_greeting_only(delivery, one.first_bytes());
  if (!suspicious && !suspect_) return;
  const std::uint32_t pair = transport_->ends(one.socket.get()).address_pair;
  if (suspicious && std::exchange(suspect_, pair) == pair) log_lost_packets(one, delivery);
  if (!suspicious && suspect_ == pair) suspect_.reset();
}

void FabricImpl::log_lost_packets(const Connection& one, const Transport::Delivery& delivery) {
  ++stats_.large_packets_lost;
  const Nanos now = poller_.now();
  if (now < next_packet_warning_) return;
  next_packet_warning_ = now + kWarningInterval;
  say(LogLevel::error, one.description() +
                           ": the network delivers small packets and drops large ones: data are "
                           "retransmitted without an acknowledgement, in packets of up to " +
                           std::to_string(delivery.packet_bytes) +
                           " bytes; set the same MTU on both hosts and the switches between them (\"ip "
                           "link\" shows it, \"ping -M do -s SIZE HOST\" tests it)");
}

}  // namespace rtrs::tcp
