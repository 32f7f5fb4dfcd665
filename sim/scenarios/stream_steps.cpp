// The steps of a StreamPlay, and the checks at its end.
#include <algorithm>
#include <array>
#include <cstring>

#include "sim/net/queue_pairs/sim_fabric.hpp"
#include "sim/scenarios/stream_play.hpp"

namespace rtrs::sim {

void StreamPlay::step() {
  const std::uint32_t what = draw(20);
  Link* const link = any_link();
  if (link == nullptr || what == 0) {
    connect();
  } else if (what < 8) {
    write(*link);
  } else if (what < 12) {
    message(*link, draw(2));
  } else if (what < 15) {
    receives(*link, draw(2), 1 + draw(4));
  } else if (what < 17) {
    toggle_key(*link);
  } else if (what == 17) {
    if (draw(3) == 2) leave(*link, draw(2));
  } else {
    network_fault();
  }
  // Often no time passes between two steps, so that the effects of several steps are in flight together.
  static constexpr std::array<Nanos, 5> kTimes{0, 0, microseconds(20), milliseconds(1), milliseconds(60)};
  pass(kTimes[draw(kTimes.size())]);
}

void StreamPlay::connect() {
  const auto living =
      std::count_if(links_.begin(), links_.end(), [](const Link& one) { return !one.ends[kClient].closed; });
  if (living >= 4) return;
  Link& made = links_.emplace_back();
  made.key = ConKey{0, static_cast<std::uint16_t>(links_.size()), 1};
  made.target = *server_.fabric->allocate(kTargetBytes);
  std::array<std::byte, sizeof made.key> data;
  std::memcpy(data.data(), &made.key, data.size());
  ConnectionParams params;
  params.send_depth = 1 + draw(16);
  params.receive_depth = 64;
  made.ends[kClient].asked = true;
  const PathAddress address{to_text(PortAddress{kClient, draw(3)}), to_text(PortAddress{kServer, 0}), 1234};
  client_.fabric->connect(made.key, address, params, data);
  receives(made, kClient, draw(6));
}

void StreamPlay::receives(Link& link, std::uint32_t node, unsigned count) {
  End& end = link.ends[node];
  if (!end.asked || end.left || end.receives + count > 64) return;
  end.receives += count;
  side(node).fabric->post_receive(link.key, count, kMessageBytes);
}

// Writes with the key that the client knows. The server may have revoked it.
void StreamPlay::write(Link& link) {
  if (!link.ends[kClient].up || link.rkey == 0) return;
  static constexpr std::array<std::uint32_t, 6> kMost{40, 200, 1000, 9000, 16'384, kTargetBytes};
  WorkRequest work;
  work.key = link.key;
  work.op = draw(3) == 0 ? WorkRequest::Op::write : WorkRequest::Op::write_imm;
  work.imm = draw(1U << 20U);
  work.rkey = link.rkey;
  const std::uint32_t length = 1 + draw(kMost[draw(kMost.size())]);
  work.remote_addr = draw(kTargetBytes - length + 1);
  work.parts[0] = {client_.source.id, draw(kSourceBytes - length + 1), length};
  work.part_count = 1;
  work.signalled = draw(2) == 1;
  client_.fabric->post({&work, 1});
}

void StreamPlay::message(Link& link, std::uint32_t node) {
  if (!link.ends[node].up) return;
  const std::uint32_t length = draw(kMessageBytes + 1);
  const std::uint32_t at = draw(kSourceBytes - length + 1);
  WorkRequest work;
  work.key = link.key;
  work.op = draw(2) == 0 ? WorkRequest::Op::send : WorkRequest::Op::send_imm;
  work.imm = draw(1U << 20U);
  work.inline_bytes = side(node).source.bytes.subspan(at, length);
  work.signalled = draw(2) == 1;
  side(node).fabric->post({&work, 1});
}

// The server grants or revokes a key, and does not always notify the client.
void StreamPlay::toggle_key(Link& link) {
  if (!link.ends[kServer].up) return;
  Fabric& fabric = *server_.fabric;
  if (!link.has_key) {
    const auto made = fabric.make_revocable_key(link.key, link.target.id, 0, kTargetBytes);
    if (!made) return;
    link.remote = *made;
    link.rkey = made->rkey;
    link.has_key = true;
    return;
  }
  switch (draw(3)) {
    case 0:
      fabric.invalidate(link.key, link.remote.id, 1);
      return;
    case 1: {
      const auto fresh = fabric.rebind(link.key, link.remote.id);
      if (fresh && draw(4) != 3) link.rkey = *fresh;
      return;
    }
    default:
      fabric.release_key(link.remote.id);
      link.has_key = false;
  }
}

void StreamPlay::leave(Link& link, std::uint32_t node) {
  End& end = link.ends[node];
  if (!end.asked || end.left) return;
  end.left = true;
  end.up = false;
  side(node).fabric->disconnect(link.key);
}

void StreamPlay::network_fault() {
  if (network_.qp_count() == 0) return;
  const QpId qp = draw(static_cast<std::uint32_t>(network_.qp_count()));
  const LinkId link = network_.qp_info(qp).link;
  if (link == kNone) return;
  const Way way = draw(2) == 0 ? Way::to_server : Way::to_client;
  switch (draw(8)) {
    case 0:
    case 1:
      return network_.cut(link, way);
    case 2:
    case 3:
      return network_.heal(link, way, choice_);
    case 4:
      return network_.swallow(qp, true, choice_);
    case 5:
      return network_.swallow(qp, false, choice_);
    case 6:
      network_.rates().qp_error = draw(3) * 1000;
      return;
    default:
      if (draw(4) == 3) network_.break_qp(qp, choice_);
  }
}

// Called when all faults have ended: everything on live connections must arrive.
void StreamPlay::check_arrived() {
  const Nanos longest = 4 * network_.config().retry_budget + network_.config().rnr_budget;
  for (unsigned round = 0; round < 6 && !failed(); ++round) {
    for (Link& link : links_)
      for (const std::uint32_t node : {kServer, kClient}) receives(link, node, 20);
    pass(longest / 4);
  }
  for (Link& link : links_) {
    for (const std::uint32_t node : {kServer, kClient}) {
      // Plain writes are not reported on arrival; a message sent after them shows that they have arrived.
      if (link.ends[node].up) message(link, node);
    }
  }
  pass(longest);
  for (const Link& link : links_) {
    if (!link.ends[kServer].up || !link.ends[kClient].up) continue;
    for (const NodeId node : {kServer, kClient}) {
      const QpId qp = network_.find_qp(node, link.key);
      if (qp != kNone && !network_.all_delivered(qp) && !network_.was_changed(qp))
        w_.cluster().judge.fail(Oracle::liveness, w_.now(),
                                "messages posted on a live connection do not arrive");
    }
  }
}

void StreamPlay::finish() {
  network_.rates() = Rates{};
  slow_readers_ = false;
  for (QpId qp = 0; qp < network_.qp_count(); ++qp) {
    network_.swallow(qp, false, choice_);
    network_.trickle(qp, 0);
  }
  network_.heal_all(choice_);
  check_arrived();
  for (Link& link : links_) {
    for (const std::uint32_t node : {kServer, kClient}) leave(link, node);
  }
  pass(2 * w_.cluster().scenario.server.handshake_timeout + seconds(1));
  if (failed()) return;
  for (const Link& link : links_) {
    for (const End& end : link.ends)
      if (end.asked && !end.closed)
        return w_.cluster().judge.fail(Oracle::liveness, w_.now(),
                                       "an abandoned connection is not reported closed");
  }
  if (network_.open_sockets() != 0)
    w_.cluster().judge.fail(Oracle::ledger, w_.now(), "sockets are left open");
}

}  // namespace rtrs::sim
