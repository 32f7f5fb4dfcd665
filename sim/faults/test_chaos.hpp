// A small application on a faulty network, as a copyable value: it opens and closes connections, sends tagged
// writes, checks the data at both ends, and crashes nodes. Tests of the whole network use it.
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "core/base/overloaded.hpp"
#include "sim/faults/faults.hpp"
#include "sim/net/queue_pairs/network.hpp"

namespace rtrs::sim {

class Chaos {
 public:
  Chaos(const NetworkConfig& config, const FaultOptions& options)
      : network(config), faults(options, {kClient}, {kServer}) {
    network.add_node();
    network.add_node();
    for (std::uint32_t port = 0; port < 2; ++port) network.link(kClient, port, kServer, port);
    boot(kClient);
    boot(kServer);
  }

  void run(unsigned rounds, ChoiceSource& choice) {
    for (unsigned i = 0; i < rounds; ++i) round(choice);
  }
  void arm(ChoiceSource& choice) { faults.arm(network, choice); }
  void heal(ChoiceSource& choice) {
    std::vector<WorldFault> world;
    faults.stop_and_heal(network, choice, world);
    apply(world);
  }

  Network network;
  FaultDriver faults;
  std::uint64_t arrived = 0, corrupt = 0, out_of_order = 0, after_closed = 0, closed = 0;

 private:
  static constexpr NodeId kClient = 0, kServer = 1;
  static constexpr std::uint32_t kSlots = 64, kSlotBytes = 64, kReceives = 32;
  struct Con {
    bool connected = false, lost = false, disconnected = false;
    std::uint32_t area = 0;
    std::uint32_t next = 0;  // next number to send
    std::uint32_t seen = 0;  // number of arrivals so far
    RemoteKey remote_key;
  };
  struct Host {
    RegionId region = kNoRegion;
    std::map<std::uint32_t, Con> cons;  // keyed by epoch
    std::uint32_t epoch = 0;
    Nanos paused_until = 0;
  };

  static ConKey key_of(std::uint32_t epoch) {
    return ConKey{0, static_cast<std::uint16_t>(epoch % 2), epoch};
  }

  void boot(NodeId node) {
    Host& host = hosts_[node];
    host.cons.clear();
    host.region = network.allocate(node, kAreas * kSlots * kSlotBytes).id;
    if (node == kServer) network.listen(node, kNone, 1);
  }
  void apply(const std::vector<WorldFault>& world) {
    for (const WorldFault& fault : world) {
      if (fault.kind == WorldFault::Kind::restart) boot(fault.node);
      if (fault.kind == WorldFault::Kind::pause) hosts_[fault.node].paused_until = fault.until;
    }
  }

  void round(ChoiceSource& choice) {
    network.run_until(network.now() + milliseconds(1), choice);
    std::vector<WorldFault> world;
    faults.advance(network, choice, world);
    apply(world);
    for (const NodeId node : {kClient, kServer}) {
      if (!network.is_up(node) || hosts_[node].paused_until > network.now()) continue;
      receive(node, choice);
      if (node == kClient) act(choice);
    }
  }

  void receive(NodeId node, ChoiceSource& choice) {
    std::array<FabricEvent, 8> batch;
    while (const std::size_t count = network.poll(node, batch)) {
      for (const FabricEvent& event : std::span(batch).first(count)) on(node, event, choice);
    }
  }

  void on(NodeId node, const FabricEvent& event, ChoiceSource& choice) {
    Host& host = hosts_[node];
    if (const auto* request = std::get_if<event::ConnectRequested>(&event)) {
      accept(request->request, choice);
      return;
    }
    const ConKey key = *event::key_of(event);
    const auto found = host.cons.find(key.epoch);
    if (found == host.cons.end()) {
      ++after_closed;
      return;
    }
    Con& con = found->second;
    const auto lose = [&, this] {
      con.lost = true;
      if (!con.disconnected) network.disconnect(node, key, choice);
      con.disconnected = true;
    };
    std::visit(Overloaded{
                   [&](const event::Connected& one) {
                     con.connected = true;
                     std::memcpy(&con.remote_key, one.private_data.data(), sizeof con.remote_key);
                   },
                   [&](const event::ConnectFailed&) { lose(); },
                   [&](const event::ConnectionLost&) { lose(); },
                   [&, this](const event::ConnectionClosed&) {
                     ++closed;
                     network.release_key(node, con.remote_key.id);
                     host.cons.erase(found);
                   },
                   [&, this](const event::ImmReceived& one) {
                     check(node, con, one.imm);
                     network.post_receive(node, key, 1, 0, choice);
                   },
                   [](const auto&) {},
               },
               event);
  }

  void check(NodeId node, Con& con, std::uint32_t imm) {
    ++arrived;
    if (imm != con.seen++) ++out_of_order;
    std::array<std::byte, kSlotBytes> expected;
    expected.fill(static_cast<std::byte>(imm % 251 + 1));
    const std::byte* slot = memory(node) + (con.area * kSlots + imm % kSlots) * kSlotBytes;
    if (overrun(con, imm)) return;
    if (std::memcmp(slot, expected.data(), kSlotBytes) != 0) ++corrupt;
  }

  // True if the sender may already have overwritten the slot. If immediates consume no receives, the number
  // of receives does not limit the sender.
  bool overrun(const Con& con, std::uint32_t imm) const {
    if (network.capabilities().imm_consumes_receive) return false;
    for (const auto& [epoch, writer] : hosts_[kClient].cons) {
      if (writer.remote_key.rkey == con.remote_key.rkey) return writer.next > imm + kSlots;
    }
    return true;
  }

  std::byte* memory(NodeId node) { return network.memory_of(node, hosts_[node].region).data(); }

  void accept(std::uint32_t request, ChoiceSource& choice) {
    Host& host = hosts_[kServer];
    if (host.cons.size() >= kAreas || choice.draw(8, Label::test) == 7) {
      network.reject(kServer, request, {}, choice);
      return;
    }
    Con con;
    const ConKey key = key_of(++host.epoch);
    std::array<bool, kAreas> used{};
    for (const auto& [epoch, other] : host.cons) used[other.area] = true;
    while (used[con.area]) ++con.area;
    con.remote_key =
        network.make_key(kServer, host.region, con.area * kSlots * kSlotBytes, kSlots * kSlotBytes);
    network.accept(kServer, request, key, {16, kReceives}, std::as_bytes(std::span(&con.remote_key, 1)),
                   choice);
    network.post_receive(kServer, key, kReceives, 0, choice);
    host.cons.emplace(key.epoch, con);
  }

  void act(ChoiceSource& choice) {
    Host& host = hosts_[kClient];
    if (host.cons.size() < 4 && choice.draw(4, Label::test) == 3) {
      Con con;
      const ConKey key = key_of(++host.epoch);
      std::array<bool, kAreas> used{};
      for (const auto& [epoch, other] : host.cons) used[other.area] = true;
      while (used[con.area]) ++con.area;
      host.cons.emplace(key.epoch, con);
      const std::uint32_t port = choice.draw(2, Label::test);
      network.connect(kClient, key, port, kServer, port, 1, {16, kReceives}, {}, choice);
    }
    for (auto& [epoch, con] : host.cons) {
      if (!con.connected || con.disconnected) continue;
      const std::uint32_t count = choice.draw(6, Label::test);
      for (std::uint32_t i = 0; i < count && write(epoch, con, choice); ++i) {
      }
      if (choice.draw(200, Label::test) != 199) continue;
      con.disconnected = true;
      network.disconnect(kClient, key_of(epoch), choice);
    }
  }

  bool write(std::uint32_t epoch, Con& con, ChoiceSource& choice) {
    const std::uint32_t at = (con.next % kSlots) * kSlotBytes;
    const std::uint32_t from = con.area * kSlots * kSlotBytes + at;
    std::memset(memory(kClient) + from, static_cast<int>(con.next % 251 + 1), kSlotBytes);
    WorkRequest wr;
    wr.key = key_of(epoch);
    wr.op = WorkRequest::Op::write_imm;
    wr.signalled = con.next % 4 == 3;
    wr.imm = con.next;
    wr.rkey = con.remote_key.rkey;
    wr.remote_addr = con.remote_key.remote_addr + at;
    wr.part_count = 2;
    wr.parts[0] = LocalPart{hosts_[kClient].region, from, 24};
    wr.parts[1] = LocalPart{hosts_[kClient].region, from + 24, kSlotBytes - 24};
    if (network.post(kClient, std::span(&wr, 1), choice) == 0) return false;
    ++con.next;
    return true;
  }

  static constexpr std::uint32_t kAreas = 8;
  std::array<Host, 2> hosts_;
};

}  // namespace rtrs::sim
