#include "sim/scenarios/stream_play.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "sim/net/queue_pairs/sim_fabric.hpp"

namespace rtrs::sim {

Scenario make_stream_world(ChoiceSource& choice) {
  ZeroChoice calm;
  Scenario s = draw_scenario(calm, true);
  s.directed = true;
  s.interval = milliseconds(50);
  s.client.seed = choice.draw(1U << 20U, Label::test);  // decides whether CRC is on
  s.network.retry_budget = milliseconds(200);
  s.network.retry_spread = milliseconds(100);
  s.network.rnr_budget = milliseconds(300);
  s.network.cm_timeout = milliseconds(50);
  s.network.retransmit = milliseconds(5);
  s.server.handshake_timeout = milliseconds(250);
  s.workload.requests = 0;
  drive_streams(s);
  return s;
}

void drive_streams(Scenario& scenario) {
  scenario.over_tcp = true;
  scenario.play = {std::string(kRandomStreams), [](World& world) { StreamPlay(world).run(); }};
}

StreamPlay::StreamPlay(World& world)
    : w_(world),
      slow_readers_(world.cluster().scenario.client.seed / 64 % 4 == 3),
      choice_(world.cluster().choice),
      network_(dynamic_cast<PipeNetwork&>(world.cluster().network)) {
  network_.allow_violations();
  for (Side* const one : {&server_, &client_}) {
    one->id = one == &server_ ? kServer : kClient;
    one->fabric = network_.open(one->id, choice_);
    one->source = *one->fabric->allocate(kSourceBytes);
    std::uint32_t word = 0x9e3779b9U * (one->id + 1);
    for (std::size_t at = 0; at + 4 <= kSourceBytes; at += 4) {
      word = word * 1664525U + 1013904223U;
      std::memcpy(one->source.bytes.data() + at, &word, sizeof word);
    }
  }
  const Errc listening = server_.fabric->listen({to_text(PortAddress{kServer, 0}), "", 1234});
  if (listening != Errc::ok) w_.cluster().judge.fail(Oracle::laws, w_.now(), "the server cannot listen");
}

bool StreamPlay::failed() const noexcept {
  return w_.cluster().judge.failed();
}

StreamPlay::Link* StreamPlay::link_of(ConKey key) {
  const auto found =
      std::find_if(links_.begin(), links_.end(), [key](const Link& one) { return one.key == key; });
  return found == links_.end() ? nullptr : &*found;
}

StreamPlay::Link* StreamPlay::any_link() {
  return links_.empty() ? nullptr : &links_[draw(static_cast<std::uint32_t>(links_.size()))];
}

// Advances virtual time by `time`. Both processes run whenever they have something to do.
void StreamPlay::pass(Nanos time) {
  const Nanos until = network_.now() + time;
  constexpr unsigned kLivelock = 100'000;
  for (unsigned steps = 0; !failed(); ++steps) {
    const Nanos next = std::min(network_.next_time(), until);
    const bool work = network_.has_events(kServer) || network_.has_events(kClient);
    if (!work) network_.run_until(next, choice_);
    for (Side* const one : {&server_, &client_})
      if (network_.has_events(one->id)) poll(*one);
    if (!network_.violations().empty()) {
      const Violation& broken = network_.violations().front();
      w_.cluster().judge.fail(Oracle::laws, broken.time,
                              "A" + std::to_string(broken.law) + ": " + broken.text);
    }
    w_.cluster().judge.count_event();
    if (!work && next == until) return;
    if (steps == kLivelock) w_.cluster().judge.fail(Oracle::liveness, w_.now(), "no end of work");
  }
}

void StreamPlay::poll(Side& one) {
  std::array<FabricEvent, 8> events;
  const std::size_t count = one.fabric->poll(network_.now(), std::span(events).first(1 + draw(8)));
  for (const FabricEvent& event : std::span(events).first(count)) take(one, event);
}

void StreamPlay::take(Side& one, const FabricEvent& event) {
  if (const auto* request = std::get_if<event::ConnectRequested>(&event)) return requested(*request);
  const ConKey* const key = event::key_of(event);
  Link* const link = key == nullptr ? nullptr : link_of(*key);
  if (link == nullptr) return;
  End& end = link->ends[one.id];
  if (std::holds_alternative<event::Connected>(event)) {
    end.up = true;
    if (one.id == kClient) slow_down(*link);
  } else if (std::holds_alternative<event::ConnectFailed>(event) ||
             std::holds_alternative<event::ConnectionLost>(event)) {
    end.up = false;
    if (!end.left) leave(*link, one.id);
  } else if (std::holds_alternative<event::ConnectionClosed>(event)) {
    end.closed = true;
  } else if (!std::holds_alternative<event::SendDone>(event) &&
             !std::holds_alternative<event::ChunkInvalidated>(event)) {
    --end.receives;
  }
}

void StreamPlay::slow_down(const Link& link) {
  const QpId qp = network_.find_qp(kClient, link.key);
  if (slow_readers_ && link.key.con % 2 == 1 && qp != kNone)
    network_.trickle(qp, network_.config().retry_budget / 20);
}

void StreamPlay::requested(const event::ConnectRequested& request) {
  ConKey key{};
  if (request.private_data.size() == sizeof key) std::memcpy(&key, request.private_data.data(), sizeof key);
  Link* const link = link_of(key);
  if (link == nullptr || draw(10) == 9) return server_.fabric->reject(request.request, {});
  ConnectionParams params;
  params.send_depth = 1 + draw(16);
  params.receive_depth = 64;
  End& end = link->ends[kServer];
  end.asked = end.up = true;
  server_.fabric->accept(request.request, key, params, {});
  receives(*link, kServer, draw(6));
}

void StreamPlay::run() {
  for (std::uint32_t left = 40 + draw(120); left != 0 && !failed(); --left) {
    if (choice_.skips(Label::request)) continue;
    const ScopedGroup group(choice_, Label::request);
    step();
  }
  if (!failed()) finish();
}

}  // namespace rtrs::sim
