// Nodes, links, time and faults of a MockNet.
#include "sim/net/verbs/mock_net.hpp"

#include <algorithm>
#include <utility>

#include "core/base/assert.hpp"
#include "sim/net/verbs/mock_fabric.hpp"

namespace rtrs::mock_net {
namespace {

using mock_hca::Profile;

constexpr std::array kMakes{mock_hca::mlx5, mock_hca::irdma, mock_hca::bnxt_re, mock_hca::hfi1,
                            mock_hca::rxe};

// Returns the options of the n-th process on a node.
verbs::VerbsOptions options_of(std::uint64_t number, bool windows) {
  verbs::VerbsOptions options;
  if (number % 4 == 1) options.invalidation = verbs::Invalidation::registration;
  if (number % 4 == 2 && windows) options.invalidation = verbs::Invalidation::windows;
  if (number / 4 % 2 == 1) options.posting = verbs::Posting::automatic;
  return options;
}

// Formats the options with the words of `--rdma-invalidation` and `--rdma-post`.
std::string words_of(const verbs::VerbsOptions& options) {
  const char* const keys = options.invalidation == verbs::Invalidation::registration ? "registration"
                           : options.invalidation == verbs::Invalidation::windows    ? "windows"
                                                                                     : "auto";
  return std::string(keys) + ' ' + (options.posting == verbs::Posting::send ? "send" : "auto");
}

}  // namespace

MockNet::MockNet(const NetworkConfig& config, std::uint64_t seed)
    : EngineNet(config, 0x6d6f636bULL), seed_(seed) {
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
  adapter_of(id, kPorts - 1);
  return id;
}

// Returns the adapter of the port. If necessary, creates it and the lower ports' adapters.
std::size_t MockNet::adapter_of(NodeId id, std::uint32_t port) {
  Node& node = nodes_[id];
  while (node.adapters.size() <= port) {
    Profile profile = kMakes[node.make]();
    profile.name += "_" + std::to_string(node.adapters.size());
    adapters_.emplace_back(id, static_cast<std::uint32_t>(node.adapters.size()));
    node.adapters.push_back(mock_hca::add_adapter(profile, id));
  }
  return node.adapters[port];
}

std::unique_ptr<Fabric> MockNet::open(NodeId id, ChoiceSource& choice, std::size_t batch) {
  Node& node = nodes_[id];
  // Adds a spare adapter if all are removed, because a process does not start without an adapter.
  if (node.unplugged.size() == node.adapters.size())
    adapter_of(id, static_cast<std::uint32_t>(node.adapters.size()));
  return std::make_unique<MockFabric>(*this, id, choice, batch, options_of_start(id, node.starts));
}

verbs::VerbsOptions MockNet::options_of_start(NodeId id, std::uint32_t start) const {
  return options_of(mixed(seed_ ^ start, id) >> 8, kMakes[nodes_[id].make]().windows_type_1);
}

std::uint64_t MockNet::name_memory(std::span<std::byte> memory) {
  const std::uint64_t name = next_name_;
  next_name_ += (memory.size() / kNameStep + 2) * kNameStep;
  named_memory_.emplace(name, memory);
  return name;
}

std::uint64_t MockNet::address_of_name(std::uint64_t name) const noexcept {
  auto after = named_memory_.upper_bound(name);
  if (after == named_memory_.begin()) return name;
  const auto& [start, memory] = *--after;
  return name - start > memory.size() ? name
                                      : reinterpret_cast<std::uintptr_t>(memory.data()) + (name - start);
}

std::string MockNet::describe() const {
  std::string text;
  for (NodeId id = 0; id < nodes_.size(); ++id) {
    const Node& node = nodes_[id];
    text += (id == 0 ? "adapters: n" : ", n") + std::to_string(id) + ' ' + kMakes[node.make]().name;
    for (std::uint32_t start = 1; start <= node.starts; ++start)
      text += (start == 1 ? " (" : ", ") + words_of(options_of_start(id, start));
    text += ')';
  }
  return text;
}

void MockNet::act(const Event& event, ChoiceSource& choice) {
  choice_ = &choice;
  switch (event.kind) {
    case Event::Kind::wake:
      break;
    case Event::Kind::carry:
      on_carry(event.which, choice);
      break;
    case Event::Kind::word:
      on_peer_status(event.which, choice);
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
}

void MockNet::run_until(Nanos time, ChoiceSource& choice) {
  EngineNet::run_until(time, choice);
  collect_problems();
}

void MockNet::collect_problems() {
  if (!mock_hca::has_problems()) return;
  for (std::string& text : mock_hca::problems()) laws_.violated(kAdapterMisuse, now_, std::move(text));
}

// Lets each process send what it has posted, as it would before it sleeps.
Nanos MockNet::next_time() const noexcept {
  Nanos next = kNever;
  for (const Node& node : nodes_) {
    if (!node.up || node.fabric == nullptr) continue;
    node.fabric->sleeps();
    if (node.fabric->next_timer() > now_) next = std::min(next, node.fabric->next_timer());
  }
  return std::min(next, EngineNet::next_time());
}

bool MockNet::sleeps(NodeId id) const noexcept {
  const Node& node = nodes_[id];
  return node.fabric->sleeps() && !mock_hca::readable(id) && node.fabric->next_timer() > now_;
}

void MockNet::link_made(LinkId id) {
  const LinkInfo& info = links_[id].info;
  adapter_of(info.client, info.client_port);
  adapter_of(info.server, info.server_port);
}

void MockNet::unplug(NodeId node, std::uint32_t port, ChoiceSource& choice) {
  choice_ = &choice;
  EngineNet::unplug(node, port, choice);
}

void MockNet::plug(NodeId node, std::uint32_t port, ChoiceSource& choice) {
  choice_ = &choice;
  EngineNet::plug(node, port, choice);
}

void MockNet::taken_out(NodeId node, std::uint32_t port, ChoiceSource&) {
  // Notifies the program by the device, by the connection manager, or by both in either order.
  const auto told = static_cast<mock_hca::Told>(mixed(seed_, stats_.unplugged) % 4);
  mock_hca::take_out(adapter_of(node, port), told);
}

void MockNet::put_back(NodeId node, std::uint32_t port) {
  mock_hca::put_back(adapter_of(node, port));
}

void MockNet::crash(NodeId id, bool orderly, ChoiceSource& choice) {
  choice_ = &choice;
  if (!mark_down(id, orderly)) return;
  mock_hca::kill_host(id, orderly);
  for (QpId end = 0; end < ends_.size(); ++end) {
    if (ends_[end].node != id) continue;
    ends_[end].over = true;
    laws_.over(end);
  }
  if (nodes_[id].fabric != nullptr) nodes_[id].fabric->die();
}

void MockNet::restart(NodeId id) {
  if (!nodes_[id].up) mock_hca::revive_host(id);
  EngineNet::restart(id);
}

}  // namespace rtrs::mock_net
