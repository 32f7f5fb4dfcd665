// O26: a server that requires keys refuses every client without a key, with EACCES. GateWatch is between the
// network and the server's KeyedFabric, so that it sees the bytes on the wire. GateWatch also records a
// client's connect request, which the attacker replays from the address of that client.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/fabric/forwarding_fabric.hpp"
#include "core/wire/key_proof.hpp"
#include "core/wire/linux_errno.hpp"
#include "sim/oracles/judge.hpp"
#include "sim/world/clock_rate.hpp"

namespace rtrs::sim {

class GateWatch final : public ForwardingFabric {
 public:
  // `clock`: clock of the calling process.
  GateWatch(Fabric& inner, Judge& judge, const ClockRate& clock)
      : ForwardingFabric(inner), judge_(judge), clock_(clock) {}

  // Returns the last connect request that carried a proof and came from an address other than the attacker's,
  // whose digest is `stranger`. Empty if there is none.
  const std::vector<std::byte>& heard_by(std::uint32_t stranger) noexcept {
    stranger_ = stranger;
    return heard_;
  }

  void accept(std::uint32_t request, ConKey key, const ConnectionParams& params,
              std::span<const std::byte> data) override {
    if (take(request)) judge_.fail(Oracle::gate, now_, "a client without a key is accepted");
    inner_.accept(request, key, params, data);
  }
  void reject(std::uint32_t request, std::span<const std::byte> data) override {
    const int error = wire::reject_errno(data);
    if (take(request) && error != wire::linux_errno::kEacces)
      judge_.fail(
          Oracle::gate, now_,
          "an unknown client without a key is refused for its request: errno " + std::to_string(error));
    inner_.reject(request, data);
  }
  std::size_t poll(Nanos now, std::span<FabricEvent> events) noexcept override {
    now_ = clock_.true_time(now);
    const std::size_t count = inner_.poll(now, events);
    for (FabricEvent& event : events.first(count))
      if (auto* const requested = std::get_if<event::ConnectRequested>(&event)) hear(*requested);
    return count;
  }

 private:
  void hear(event::ConnectRequested& event) {
    const auto data = event.private_data;
    if (stranger_ != 0 && event.host == stranger_) {
      strangers_.push_back(event.request);
      if (!std::equal(heard_.begin(), heard_.end(), data.begin(), data.end())) return;
      event.host = host_;
      event.identity = identity_;
      return;
    }
    const auto offer = wire::key_offer(data);
    if (!offer || !offer->has_proof()) return;
    heard_.assign(data.begin(), data.end());
    host_ = event.host;
    identity_ = event.identity;
  }
  bool take(std::uint32_t request) { return std::erase(strangers_, request) != 0; }

  Judge& judge_;
  ClockRate clock_;
  Nanos now_ = 0;
  std::uint32_t stranger_ = 0;
  std::vector<std::uint32_t> strangers_;  // ids of the attacker's unanswered connect requests
  std::vector<std::byte> heard_;
  std::uint32_t host_ = 0;  // client address digest of the sender of `heard_`
  PeerIdentity identity_{};
};

}  // namespace rtrs::sim
