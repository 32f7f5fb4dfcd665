#include "sim/world/cluster.hpp"

#include <algorithm>

#include "sim/world/world_run.hpp"

namespace rtrs::sim {

namespace {

constexpr std::size_t kRingRecords = 256;

std::vector<NodeId> client_nodes(const Scenario& scenario) {
  std::vector<NodeId> nodes;
  for (std::uint32_t client = 0; client < scenario.clients; ++client) nodes.push_back(client + 1);
  return nodes;
}

}  // namespace

Cluster::Cluster(const WorldOptions& wanted, ChoiceSource& source)
    : options(wanted),
      choice(source),
      owned_network(make_network(scenario, options, choice)),
      network(*owned_network),
      faults(scenario.faults, client_nodes(scenario), {0}),
      storage(scenario.storage) {
  journal.print_all(options.verbose);
  for (std::uint32_t node = 0; node <= scenario.clients; ++node) network.add_node();
  for (std::uint32_t index = 0; index < scenario.clients; ++index) {
    clients.push_back(std::make_unique<ClientNode>());
    ClientNode& client = *clients.back();
    client.id = index + 1;
    client.oracles = make_client_oracles(judge);
    client.clock = scenario.client_clock;
    client.left = scenario.workload.requests;
    client.buffers.resize(scenario.workload.window);
  }
  if (scenario.other_server) other_server = std::make_unique<OtherServer>(network, choice, scenario.server);
  server.clock = scenario.server_clock;
  // Without a fence, the client reuses the chunk of a write that it gave up, and storage may still read that
  // chunk. Reopening a device sends READs at once, so that the header of a READ may be written to storage as
  // data.
  if (scenario.workload.block_device && !scenario.fenced) {
    judge.excuse(Oracle::data_integrity);
    judge.excuse(Oracle::history);
  }
  for (const Oracle oracle : options.excused) judge.excuse(oracle);
  if (options.history != nullptr) begin_history();
  if (scenario.workload.disks != 0 || scenario.workload.own_disks) make_disks();
}

void Cluster::begin_history() {
  const bool has_disks = scenario.workload.disks != 0 || scenario.workload.own_disks;
  const char* world = scenario.workload.block_device ? "block_device" : "session";
  history = std::make_unique<HistoryLog>(*options.history, options.seed, has_disks ? "disks" : world,
                                         [this] { return now(); });
}

Cluster::~Cluster() = default;

std::string Cluster::describe() const {
  const std::string drawn = network.describe();
  return scenario.describe() + (drawn.empty() ? "" : "; " + drawn);
}

std::unique_ptr<Fabric> Cluster::open_fabric(NodeId node) {
  return scenario.poll_batch == 0 ? network.open(node, choice)
                                  : network.open(node, choice, scenario.poll_batch);
}

void Cluster::record(Node& node, const char* role, const std::string& file) {
  if (node.recorder) return;
  node.recorder = std::make_unique<Recorder>(kRingRecords);
  node.recorder->check_invariants();
  if (!options.trace.empty()) {
    trace::Origin origin{"urtrs-sim", role, network.capabilities().name, options.seed, {}};
    if (node.clock != ClockRate{})
      origin.options.push_back("clock=" + std::to_string(node.clock.num) + "/" +
                               std::to_string(node.clock.den));
    const std::string path = trace_path(file);
    note_trace(node.recorder->open_file(path.c_str(), origin, {trace::Detail::wire, 1}), path);
  } else if (options.listeners != nullptr) {
    node.recorder->open_listener(options.listeners->of(node.id), trace::Detail::wire);
  }
}

void Cluster::note_trace(int error, const std::string& file) {
  if (error == 0 || trace_errno != 0) return;
  trace_errno = error;
  trace_file = file;
}

void Cluster::save_traces() noexcept {
  if (server.recorder) server.recorder->close_file();
  for (const auto& client : clients)
    if (client->recorder) client->recorder->close_file();
}

void Cluster::complete_traces() {
  if (options.trace.empty()) return;
  if (server.recorder) note_trace(server.recorder->close_file(), trace_path("server"));
  for (const auto& client : clients)
    if (client->recorder)
      note_trace(client->recorder->close_file(), trace_path("client" + std::to_string(client->id)));
}

void Cluster::check_laws() {
  if (network.violations().empty()) return;
  const Violation& violation = network.violations().front();
  if (violation.law == kAdapterMisuse) return judge.fail(Oracle::adapters, violation.time, violation.text);
  judge.fail(Oracle::laws, violation.time, "A" + std::to_string(violation.law) + ": " + violation.text);
}

std::size_t Cluster::in_storage() const noexcept {
  return storage.under_way() + (disks != nullptr ? disks->under_way() : 0);
}

void Cluster::make_disks() {
  const auto fail = [this](const std::string& what) {
    judge.fail(Oracle::devices, now(), "not so: " + what);
  };
  const auto hits = [this](std::uint32_t one_of) { return choice.draw(one_of, Label::disk) == one_of - 1; };
  const WorkloadOptions& load = scenario.workload;
  disks = std::make_unique<Disks>(choice, load.disk_time, load.opening, fail);
  if (options.verbose) disks->set_note([this](const std::string& what) { journal.add_step(now(), what); });
  for (const auto& client : clients) {
    client->disks = std::make_unique<DiskBook>(*disks, scenario.client, fail);
    client->disks->keep_history(history.get(), client->id);
    for (const std::string& name : disk_names(client->id - 1, load.disks)) {
      BlockDisk& disk = disks->add(name, kSectorsOfADisk, *client->disks);
      if (load.one_export) disks->join(name, disks->all().begin()->first);
      disk.replaceable = load.replaces;
      disk.memory = hits(6);
      disk.volatile_cache = !hits(5);
      disk.fua = !hits(3);
    }
  }
}

void Cluster::check_closed_disks() {
  const auto expect = [this](bool holds, const std::string& what) {
    if (!holds) judge.fail(Oracle::devices, now(), "not so: " + what);
  };
  expect(disks->idle(), "a server without sessions keeps no session state");
  for (const auto& [name, disk] : disks->all())
    expect(disk.holders == 0, "no client holds " + name + " open any more");
}

std::uint32_t Cluster::client_named(std::string_view name) const {
  for (std::uint32_t index = 0; index < clients.size(); ++index)
    if (name == "client" + std::to_string(index)) return index;
  return kNone;
}

void Cluster::stalled(const std::string& what) {
  if (judge.failed()) return;
  has_stalled = true;
  judge.fail(Oracle::liveness, now(), what + "\n  " + unfinished());
}

std::string Cluster::unfinished() {
  std::string text = "bounds: " + liveness_bound(scenario).describe() + "\n";
  for (const auto& client : clients) {
    text += "  client " + std::to_string(client->id) + ": ";
    if (!client->up) {
      text += "down\n";
      continue;
    }
    text += std::to_string(client->under_way) + " requests in flight, paths";
    for (const PathStatus& path : client->driver->session().paths())
      text += std::string(" ") + to_string(path.state) + "(" + to_string(path.reason) + ", attempt " +
              std::to_string(path.attempt) + ", " + std::to_string(path.inflight) + " in flight)";
    if (disks != nullptr) text += client->driver->disks()->describe();
    text += "\n";
  }
  text +=
      std::string("  server: ") +
      (server.up ? std::to_string(server.driver->transport().session_count()) + " sessions, " : "down, ") +
      std::to_string(in_storage()) + " requests in storage";
  return text;
}

bool Cluster::out_of_permits(const ClientNode& client) const {
  const std::uint32_t depth = client.driver->session().depth();
  return depth != 0 && client.driver->session().stats().permits_given_up == depth;
}

LinkId Cluster::link_of(const Step& step) {
  return network.link(step.client, step.path, server.id, step.path);
}

ClientNode* Cluster::client_of(const Step& step) {
  const bool exists = step.client != 0 && step.client <= clients.size();
  return exists && clients[step.client - 1]->up ? clients[step.client - 1].get() : nullptr;
}

std::span<const PathState> Cluster::server_states() {
  server_states_.assign(network.link_count(), PathState::absent);
  if (!server.up) return server_states_;
  for (const ConKey& key : server.fabric->live()) {
    const QpId qp = network.find_qp(server.id, key);
    const LinkId link = qp == kNone ? kNone : network.qp_info(qp).link;
    if (link >= server_states_.size() || server_states_[link] != PathState::absent) continue;
    const PathState state = server.path_state[key.place()];
    server_states_[link] = state == PathState::absent ? PathState::connecting : state;
  }
  return server_states_;
}

LinkId Cluster::server_link(std::size_t path) const {
  for (const ConKey& key : server.fabric->live()) {
    const QpId qp = key.place() == path ? network.find_qp(server.id, key) : kNone;
    if (qp != kNone) return network.qp_info(qp).link;
  }
  return kNone;
}

bool Cluster::has_events(const Node& node) const noexcept {
  return network.has_events(node.id) || (node.names != nullptr && node.names->has_events());
}

bool Cluster::due(const Node& node, Nanos deadline) const {
  deadline = node.clock.true_time(deadline);
  if (!node.up || node.paused_until > now()) return false;
  return has_events(node) || deadline <= now();
}

}  // namespace rtrs::sim
