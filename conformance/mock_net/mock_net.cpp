// Nodes, links, time and faults.
#include "conformance/mock_net/mock_net.hpp"

#include <algorithm>
#include <utility>

#include "conformance/mock_net/mock_fabric.hpp"
#include "core/base/assert.hpp"

namespace rtrs::mock_net {
namespace {

using mock_hca::Profile;

constexpr std::array kMakes{mock_hca::mlx5, mock_hca::irdma, mock_hca::bnxt_re, mock_hca::hfi1,
                            mock_hca::rxe};

// A min-heap by time, then by order of scheduling.
struct Later {
  template <class E>
  bool operator()(const E& a, const E& b) const noexcept {
    return a.time != b.time ? a.time > b.time : a.serial > b.serial;
  }
};

std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) noexcept {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
  return hash ^ (hash >> 29);
}

// Of the process on a node that is started for the n-th time.
verbs::VerbsOptions options_of(std::uint64_t number, bool windows) {
  verbs::VerbsOptions options;
  if (number % 4 == 1) options.invalidation = verbs::Invalidation::registration;
  if (number % 4 == 2 && windows) options.invalidation = verbs::Invalidation::windows;
  return options;
}

}  // namespace

MockNet::MockNet(const NetworkConfig& config, std::uint64_t seed) : config_(config), seed_(seed) {
  verbs::expect_removal();
  mock_hca::reset({});
  mock_hca::problems();
  mock_hca::conduct(this);
  ends_.reserve(256);
}

MockNet::~MockNet() {
  mock_hca::conduct(nullptr);
}

NodeId MockNet::add_node() {
  const auto id = static_cast<NodeId>(nodes_.size());
  nodes_.emplace_back().make = static_cast<unsigned>(mixed(seed_, id) % kMakes.size());
  port_of(id, kPorts - 1);
  return id;
}

// A node has as many as somebody has asked for.
MockNet::Port& MockNet::port_of(NodeId id, std::uint32_t port) {
  Node& node = nodes_[id];
  while (node.ports.size() <= port) {
    Profile profile = kMakes[node.make]();
    profile.name += "_" + std::to_string(node.ports.size());
    node.ports.push_back({mock_hca::add_adapter(profile, id), false});
    adapters_.emplace_back(id, static_cast<std::uint32_t>(node.ports.size() - 1));
  }
  return node.ports[port];
}

std::unique_ptr<Fabric> MockNet::open(NodeId id, ChoiceSource& choice, std::size_t batch) {
  Node& node = nodes_[id];
  // A host without any adapter would not start: it has one more for that.
  if (std::all_of(node.ports.begin(), node.ports.end(), [](const Port& port) { return port.unplugged; }))
    port_of(id, static_cast<std::uint32_t>(node.ports.size()));
  const std::uint64_t number = mixed(seed_ ^ node.starts, id) >> 8;
  return std::make_unique<MockFabric>(*this, id, choice, batch,
                                      options_of(number, kMakes[node.make]().windows_type_1));
}

void MockNet::schedule(Nanos time, Event::Kind kind, std::uint32_t which) {
  heap_.push_back(Event{std::max(time, now_), next_serial_++, kind, which});
  std::push_heap(heap_.begin(), heap_.end(), Later{});
}

bool MockNet::step(ChoiceSource& choice) {
  if (heap_.empty()) return false;
  choice_ = &choice;
  std::pop_heap(heap_.begin(), heap_.end(), Later{});
  const Event event = heap_.back();
  heap_.pop_back();
  now_ = std::max(now_, event.time);
  ++stats_.events;
  switch (event.kind) {
    case Event::Kind::wake:
      break;
    case Event::Kind::carry:
      on_carry(event.which, choice);
      break;
    case Event::Kind::word:
      on_word(event.which, choice);
      break;
    case Event::Kind::budget:
      on_budget(event.which, choice);
      break;
    case Event::Kind::unstick:
      go_on(event.which, choice);
      break;
    case Event::Kind::message:
      on_message(event.which);
      break;
    case Event::Kind::ask_again:
      on_ask_again(event.which);
      break;
  }
  return true;
}

void MockNet::run_until(Nanos time, ChoiceSource& choice) {
  while (!heap_.empty() && heap_.front().time <= time) step(choice);
  now_ = std::max(now_, time);
  look_at_problems();
}

void MockNet::happened(unsigned what, std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  hash_ = mixed(mixed(mixed(hash_, now_), a << 8 | what), b << 32 ^ c);
}

void MockNet::look_at_problems() {
  if (!mock_hca::has_problems()) return;
  for (std::string& text : mock_hca::problems()) laws_.violated(kLawOfAdapters, now_, std::move(text));
}

// A process that has done its work sends what it posted before it sleeps.
Nanos MockNet::next_time() const noexcept {
  Nanos next = kNever;
  for (const Node& node : nodes_) {
    if (!node.up || node.fabric == nullptr) continue;
    node.fabric->sleeps();
    if (node.fabric->next_timer() > now_) next = std::min(next, node.fabric->next_timer());
  }
  return heap_.empty() ? next : std::min(next, heap_.front().time);
}

bool MockNet::sleeps(NodeId id) const noexcept {
  const Node& node = nodes_[id];
  return node.fabric->sleeps() && !mock_hca::readable(id) && node.fabric->next_timer() > now_;
}

bool MockNet::has_events(NodeId id) const noexcept {
  const Node& node = nodes_[id];
  return node.up && node.fabric != nullptr && !sleeps(id);
}

LinkId MockNet::link(NodeId client, std::uint32_t client_port, NodeId server, std::uint32_t server_port) {
  for (LinkId id = 0; id < links_.size(); ++id) {
    const LinkInfo& info = links_[id].info;
    if (info.client == client && info.client_port == client_port && info.server == server &&
        info.server_port == server_port)
      return id;
  }
  port_of(client, client_port);
  port_of(server, server_port);
  Link& made = links_.emplace_back();
  made.info.client = client;
  made.info.client_port = client_port;
  made.info.server = server;
  made.info.server_port = server_port;
  made.latency = config_.latency;
  made.jitter = config_.jitter;
  made.unplugged =
      (is_unplugged(client, client_port) ? 1U : 0U) + (is_unplugged(server, server_port) ? 1U : 0U);
  return static_cast<LinkId>(links_.size() - 1);
}

void MockNet::cut(LinkId id, Way way) {
  bool& cut = links_[id].info.cut[static_cast<unsigned>(way)];
  if (std::exchange(cut, true)) return;
  ++stats_.cuts;
  happened(1, id, static_cast<std::uint64_t>(way));
}

void MockNet::heal(LinkId id, Way way, ChoiceSource& choice) {
  LinkInfo& info = links_[id].info;
  if (info.dead[static_cast<unsigned>(way)] || !std::exchange(info.cut[static_cast<unsigned>(way)], false))
    return;
  happened(2, id, static_cast<std::uint64_t>(way));
  link_changed(id, choice);
}

// What waits for the link goes on a while after it can: it is sent again by timers.
void MockNet::link_changed(LinkId id, ChoiceSource& choice) {
  for (QpId end = 0; end < ends_.size(); ++end) {
    if (ends_[end].link != id || ends_[end].stuck_since == kNever) continue;
    schedule(now_ + draw_time(choice, config_.retransmit, Label::retransmit_delay), Event::Kind::unstick,
             end);
  }
}

void MockNet::heal_all(ChoiceSource& choice) {
  for (LinkId id = 0; id < links_.size(); ++id) {
    links_[id].starved[0] = links_[id].starved[1] = 0;
    heal(id, Way::to_server, choice);
    heal(id, Way::to_client, choice);
    link_changed(id, choice);
  }
}

void MockNet::kill(LinkId id, Way way) {
  cut(id, way);
  links_[id].info.dead[static_cast<unsigned>(way)] = true;
}

void MockNet::set_latency(LinkId id, Nanos latency, Nanos jitter) {
  links_[id].latency = latency;
  links_[id].jitter = jitter;
}

void MockNet::starve(LinkId id, Way way, Nanos until) {
  links_[id].starved[static_cast<unsigned>(way)] = until;
}

QpId MockNet::find_qp(NodeId node, ConKey key) const noexcept {
  const auto found = nodes_[node].by_key.find(packed(key));
  return found == nodes_[node].by_key.end() ? kNone : found->second;
}

void MockNet::plan_shortage(NodeId node, std::uint32_t skip, std::uint32_t count) {
  nodes_[node].shortage_after = skip;
  nodes_[node].shortage_count = count;
}

bool MockNet::draws_shortage(NodeId id) {
  Node& node = nodes_[id];
  bool fails = choice_->fires(rates_.resource_short, Label::resource_short);
  if (node.shortage_count != 0) {
    const bool planned = node.shortage_after == 0;
    --(planned ? node.shortage_count : node.shortage_after);
    fails = fails || planned;
  }
  if (fails) ++stats_.shortages;
  return fails;
}

std::size_t MockNet::takes(NodeId id, std::size_t offered, ChoiceSource& choice) {
  constexpr unsigned kInARow = 2;
  Node& node = nodes_[id];
  if (offered == 0 || node.short_posts == kInARow || !choice.fires(rates_.post_short, Label::post_short)) {
    node.short_posts = 0;
    return offered;
  }
  ++node.short_posts;
  ++stats_.short_posts;
  return choice.draw(static_cast<std::uint32_t>(offered), Label::post_short);
}

void MockNet::unplug(NodeId node, std::uint32_t port, ChoiceSource& choice) {
  choice_ = &choice;
  if (is_unplugged(node, port)) return;
  Port& one = port_of(node, port);
  one.unplugged = true;
  ++stats_.unplugged;
  happened(4, node, port);
  for (Link& link : links_) {
    const bool here = (link.info.client == node && link.info.client_port == port) ||
                      (link.info.server == node && link.info.server_port == port);
    if (here) ++link.unplugged;
  }
  // By the device, by the connection manager, or by both in any order.
  const auto told = static_cast<mock_hca::Told>(mixed(seed_, stats_.unplugged) % 4);
  mock_hca::take_out(one.adapter, told);
}

void MockNet::plug(NodeId node, std::uint32_t port, ChoiceSource& choice) {
  choice_ = &choice;
  if (!is_unplugged(node, port)) return;
  Port& one = port_of(node, port);
  one.unplugged = false;
  happened(5, node, port);
  mock_hca::put_back(one.adapter);
  for (LinkId id = 0; id < links_.size(); ++id) {
    Link& link = links_[id];
    const bool here = (link.info.client == node && link.info.client_port == port) ||
                      (link.info.server == node && link.info.server_port == port);
    if (here && --link.unplugged == 0) link_changed(id, choice);
  }
}

void MockNet::crash(NodeId id, bool orderly, ChoiceSource& choice) {
  choice_ = &choice;
  Node& node = nodes_[id];
  if (!node.up) return;
  happened(6, id, orderly ? 1 : 0);
  mock_hca::sever(id, orderly);
  node.up = false;
  node.silent = !orderly;
  for (QpId end = 0; end < ends_.size(); ++end) {
    if (ends_[end].node != id) continue;
    ends_[end].over = true;
    laws_.over(end);
  }
  node.by_key.clear();
  if (node.fabric != nullptr) node.fabric->die();
}

void MockNet::restart(NodeId id) {
  Node& node = nodes_[id];
  if (node.up) return;
  happened(7, id, 0);
  mock_hca::join_again(id);
  node.up = true;
  node.silent = false;
  ++node.starts;
}

}  // namespace rtrs::mock_net
