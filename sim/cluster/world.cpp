#include "sim/cluster/world.hpp"

#include <algorithm>

#include "sim/oracles/digest.hpp"

namespace rtrs::sim {

namespace {

constexpr std::size_t kRingRecords = 256;
// Of every simulated request (world_client.cpp).
constexpr std::uint32_t kUserHeaderBytes = 24;

// What the process can ask of its adapters.
ClientConfig fitted(const Scenario& scenario, const Fabric& fabric) {
  ClientConfig config = scenario.client;
  if (scenario.over_adapters && !fabric.capabilities().per_io_keys) config.offer_invalidation = false;
  return config;
}
std::vector<NodeId> client_nodes(const Scenario& scenario) {
  std::vector<NodeId> nodes;
  for (std::uint32_t client = 0; client < scenario.clients; ++client) nodes.push_back(client + 1);
  return nodes;
}
wire::Uuid uuid_of(std::uint64_t seed, std::uint64_t client, std::uint64_t start, std::uint64_t path) {
  wire::Uuid uuid{};
  std::uint64_t word = mix(seed ^ client << 56 ^ start << 40 ^ path << 32);
  for (std::size_t at = 0; at < uuid.bytes.size(); ++at) {
    if (at == 8) word = mix(word);
    uuid.bytes[at] = static_cast<std::uint8_t>(word >> (at % 8 * 8));
  }
  return uuid;
}

ConnectionWatch::Limits limits_of(const ClientConfig& config) {
  return {config.connect_timeout, config.info_timeout, config.con_num};
}

// What a node's books are kept in front of.
template <class Node>
Fabric& outlet(Node& node) {
  if (node.keyed) return *node.keyed;
  if (node.preflushes) return *node.preflushes;
  if (node.names) return *node.names;
  return node.lies ? static_cast<Fabric&>(*node.lies) : *node.sim;
}

}  // namespace

World::World(const WorldOptions& options, ChoiceSource& choice)
    : options_(options),
      choice_(choice),
      owned_network_(make_network(scenario_, options, choice)),
      network_(*owned_network_),
      faults_(scenario_.faults, client_nodes(scenario_), {0}),
      once_(judge_),
      slots_(judge_),
      integrity_(judge_, options.seed),
      keys_(judge_),
      storage_(scenario_.storage) {
  journal_.print_all(options.verbose);
  for (std::uint32_t node = 0; node <= scenario_.clients; ++node) network_.add_node();
  for (std::uint32_t index = 0; index < scenario_.clients; ++index) {
    clients_.push_back(std::make_unique<ClientNode>());
    ClientNode& client = *clients_.back();
    client.id = index + 1;
    client.links = std::make_unique<LinkWatch>(judge_);
    client.clock = scenario_.client_clock;
    client.left = scenario_.workload.requests;
    client.buffers.resize(scenario_.workload.window);
  }
  if (scenario_.other_server)
    other_server_ = std::make_unique<OtherServer>(network_, choice_, scenario_.server);
  server_.clock = scenario_.server_clock;
  usual_server_ = scenario_.server;
  spoiled_.assign(scenario_.storage.sectors, false);
  // The header of a READ is where a write that is given up without proof has its data: a session that opens
  // its device again sends READs at once, and storage may take one for that data.
  if (scenario_.workload.block_device && !scenario_.fenced) {
    judge_.excuse(Oracle::data_integrity);
    judge_.excuse(Oracle::history);
  }
  if (scenario_.workload.disks != 0 || scenario_.workload.own_disks) make_disks();
  shape_marks();
}

World::~World() = default;

std::string World::describe() const {
  const std::string drawn = network_.describe();
  return scenario_.describe() + (drawn.empty() ? "" : "; " + drawn);
}

// Its bounds are in true time.
std::unique_ptr<HeartbeatWatch> World::watch_of(const Node& node, HeartbeatConfig heartbeat) {
  heartbeat.interval = node.clock.true_time(heartbeat.interval);
  return std::make_unique<HeartbeatWatch>(judge_, heartbeat, node.clock.rounding());
}

std::unique_ptr<Fabric> World::open_fabric(NodeId node) {
  return scenario_.poll_batch == 0 ? network_.open(node, choice_)
                                   : network_.open(node, choice_, scenario_.poll_batch);
}

// The recorder of a node stays when the node restarts.
void World::record(Node& node, const char* role, const std::string& file) {
  if (node.recorder) return;
  node.recorder = std::make_unique<Recorder>(kRingRecords);
  node.recorder->check_invariants();
  if (!options_.trace.empty()) {
    trace::Origin origin{"urtrs-sim", role, network_.capabilities().name, options_.seed, {}};
    if (node.clock != ClockRate{})
      origin.options.push_back("clock=" + std::to_string(node.clock.num) + "/" +
                               std::to_string(node.clock.den));
    const std::string path = trace_path(file);
    note_trace(node.recorder->open_file(path.c_str(), origin, {trace::Detail::wire, 1}), path);
  } else if (options_.listeners != nullptr) {
    node.recorder->open_listener(options_.listeners->of(node.id), trace::Detail::wire);
  }
}

void World::note_trace(int error, const std::string& file) {
  if (error == 0 || trace_errno_ != 0) return;
  trace_errno_ = error;
  trace_file_ = file;
}

void World::start_server() {
  ServerNode& server = server_;
  server.up = true;
  server.paused_until = 0;
  ++server.starts;
  server.hearts = watch_of(server, scenario_.server.heartbeat);
  server.sim = open_fabric(server.id);
  server.lies.reset();
  if (scenario_.liar == server.id) server.lies = std::make_unique<LyingFabric>(*server.sim, kUserHeaderBytes);
  if (scenario_.keys) ask_for_keys(outlet(server));
  server.fabric = std::make_unique<WatchedFabric>(outlet(server), *server.hearts, server.clock);
  server.fabric->watch_crowds(judge_, scenario_.server);
  server.fabric->watch_connections(judge_, "server", {});
  record(server, "server", "server");
  const unsigned life = server.starts;
  const ServerConfig own = fitted(scenario_.server, *server.sim);
  server.driver = disks_ != nullptr
                      ? make_disks_server(own, server.recorder.get(), life,
                                          {*disks_, network_, scenario_.workload.server_actions})
                  : scenario_.workload.block_device
                      ? make_block_server(own, server.recorder.get(), life, scenario_.storage.sectors)
                      : make_raw_server(own, server.recorder.get());
  server.session_of.assign(scenario_.server.max_sessions, kNone);
  server.session_up.assign(scenario_.server.max_sessions, false);
  server.came_up.assign(scenario_.server.max_sessions, 0);
  server.path_state.assign(std::size_t{scenario_.server.max_sessions} * kMaxPaths, PathState::absent);
  server.retired = false;
  const Errc listening = server.driver->listen(*server.fabric, now(server));
  if (listening != Errc::ok)
    judge_.fail(Oracle::legality, now(), std::string("the server cannot listen: ") + to_string(listening));
}

void World::start_client(std::uint32_t index) {
  ClientNode& client = *clients_[index];
  client.up = true;
  client.paused_until = client.failovers_seen = 0;
  ++client.starts;
  client.without_path = {};
  client.leaving = client.at_two_servers = false;
  client.missing.clear();
  client.hearts = watch_of(client, scenario_.client.heartbeat);
  client.promises = std::make_unique<ClientPromises>(judge_, scenario_.client,
                                                     !scenario_.workload.block_device && disks_ == nullptr);
  client.links->clear();
  client.sim = open_fabric(client.id);
  client.lies.reset();
  if (scenario_.liar == client.id) client.lies = std::make_unique<LyingFabric>(*client.sim, kUserHeaderBytes);
  resolve_names(client);
  client.preflushes.reset();
  if (scenario_.workload.preflushes) client.preflushes = std::make_unique<PreflushFabric>(outlet(client));
  if (scenario_.keys) prove_key(client, outlet(client));
  client.fabric = std::make_unique<WatchedFabric>(outlet(client), *client.hearts, client.clock);
  client.fabric->watch_connections(judge_, "client " + std::to_string(client.id),
                                   limits_of(scenario_.client));
  client.fabric->watch_fences(judge_, "client " + std::to_string(client.id), scenario_.client.fence_timeout);
  record(client, "client", "client" + std::to_string(client.id));
  client.memory.push_back(
      std::make_unique<std::vector<std::byte>>(client.buffers.size() * max_io_bytes(), std::byte{0xa5}));
  for (Buffer& buffer : client.buffers) buffer = Buffer{};
  client.region = kNoRegion;
  if (scenario_.workload.own_region) {
    const auto region = client.fabric->register_memory(*client.memory.back());
    if (region) client.region = region->id;
  }
  ClientOptions options;
  options.protocol = fitted(scenario_, *client.sim);
  options.protocol.seed += client.starts * 1000 + index;
  options.session_name = "client" + std::to_string(index);
  const unsigned identity = scenario_.same_identity ? 1 : client.starts;
  options.session_uuid = uuid_of(options_.seed, index, identity, 99);
  for (std::uint32_t path = 0; path < kMaxPaths; ++path)
    options.path_uuids.push_back(uuid_of(options_.seed, index, identity, path));
  for (std::uint32_t path = 0; path < scenario_.paths; ++path)
    options.paths.push_back(client.address_of[path] = address(index, path));
  if (other_server_ != nullptr) {
    options.paths.push_back(other_server_->address(client.id, scenario_.paths));
    client.address_of[scenario_.paths] = options.paths.back();
  }
  if (disks_ != nullptr) {
    const DiskUser user{*client.disks, *disks_,
                        choice_,       disk_names(index, scenario_.workload.disks),
                        network_,      scenario_.workload.max_requests};
    options.max_queued = scenario_.workload.max_queued;
    client.driver = make_disks_client(options, client.recorder.get(), user);
  } else {
    client.driver = scenario_.workload.block_device ? make_block_client(options, client.recorder.get())
                                                    : make_raw_client(options, client.recorder.get());
  }
  const Errc opened = client.driver->open(*client.fabric, now(client));
  if (opened != Errc::ok)
    judge_.fail(Oracle::legality, now(), std::string("the client cannot open: ") + to_string(opened));
}

bool World::due(const Node& node, Nanos deadline) const {
  deadline = node.clock.true_time(deadline);
  if (!node.up || node.paused_until > now()) return false;
  return has_events(node) || deadline <= now();
}

// When the node wants to run next.
Nanos World::wake(const Node& node, Nanos deadline, Nanos timer) const {
  constexpr unsigned kFruitless = 4;
  deadline = node.clock.true_time(deadline);
  if (!node.up) return kNever;
  if (node.paused_until > now()) return node.paused_until;
  if (has_events(node)) return std::max(now(), node.paused_until);
  // A driver that asks to be polled at once and cannot go on waits for the network, or for its next timer.
  const bool stuck = deadline <= now() && node.fruitless >= kFruitless;
  if (stuck) deadline = node.clock.true_time(timer);
  if (stuck && deadline <= now()) return kNever;
  return deadline == kNever ? kNever : std::max({deadline, now(), node.paused_until});
}

Nanos World::next_time() {
  Nanos next = std::min({network_.next_time(), storage_.next_time(), faults_.next_time(), next_operation_,
                         next_closing_, next_recovery_});
  if (server_.up) {
    next = std::min(next,
                    wake(server_, server_.driver->next_deadline(), server_.driver->transport().next_timer()));
    if (!server_.answers.empty()) next = std::min(next, std::max(now(), server_.paused_until));
  }
  next = std::min({next, script_time(), crowd_time(), disks_time()});
  if (other_server_ != nullptr) next = std::min(next, other_server_->next_time());
  for (const auto& client : clients_) {
    if (!client->up) continue;
    next = std::min(next, wake(*client, client->driver->next_deadline(), client->driver->next_timer()));
    if (client->leaving) continue;
    if (!client->wanted.empty() && client->under_way < client->buffers.size() && takes_requests(*client))
      next = std::min(next, std::max(now(), client->paused_until));
    if (client->next_submit != kNever && (client->left > 0) && takes_requests(*client))
      next = std::min(next, std::max({now(), client->next_submit, client->paused_until}));
  }
  return next;
}

// Goes to the next thing that happens and does all that is due then. False when nothing ever will.
bool World::step() {
  const Nanos next = next_time();
  if (next == kNever) return false;
  constexpr std::uint64_t kLivelock = 200'000;
  if (next > now()) {
    steps_at_once_ = 0;
  } else if (++steps_at_once_ > kLivelock) {
    stalled("no end of work at one instant");
    return false;
  }
  check_idle(next);
  network_.run_until(next, choice_);
  judge_.count_event();
  if (faults_.next_time() <= now()) faults_due();
  crowd_due();
  if (next_operation_ <= now()) operator_due();
  if (next_recovery_ <= now()) recover_due();
  if (storage_.next_time() <= now() || !server_.answers.empty()) storage_due();
  if (disks_time() <= now()) disks_due();
  poll_nodes();
  if (other_server_ != nullptr) other_server_->poll();
  closings_due();
  script_due();
  for (std::uint32_t index = 0; index < clients_.size(); ++index) submit_due(index);
  if (scenario_.liar == kNone) keys_.refused(network_.stats().refused, now());
  check_laws();
  if (judge_.events() > options_.max_events) {
    exhausted_ = !judge_.failed();
    stalled("more events than a run of this size can need");
    return false;
  }
  return !judge_.failed();
}

void World::poll_nodes() {
  bool ready[1 + kMaxClients] = {};
  unsigned count = 0;
  const auto nodes = static_cast<std::uint32_t>(1 + clients_.size());
  for (std::uint32_t node = 0; node < nodes; ++node) {
    ready[node] = node == 0 ? server_.up && due(server_, server_.driver->next_deadline())
                            : clients_[node - 1]->up &&
                                  due(*clients_[node - 1], clients_[node - 1]->driver->next_deadline());
    count += ready[node] ? 1 : 0;
  }
  const std::uint32_t first = count > 1 ? choice_.draw(nodes, Label::poll_order) : 0;
  for (std::uint32_t step = 0; step < nodes; ++step) {
    const std::uint32_t node = (first + step) % nodes;
    if (!ready[node]) continue;
    Node& state = node == 0 ? static_cast<Node&>(server_) : *clients_[node - 1];
    const bool worked = node == 0 ? poll_server() : poll_client(node - 1);
    state.fruitless = worked ? 0 : state.fruitless + 1;
    watch_timer(state, node == 0 ? server_.driver->transport().next_timer()
                                 : clients_[node - 1]->driver->next_timer());
    state.hearts->check(now());
  }
  if (!network_.hung().empty()) watch_hung();
}

void World::faults_due() {
  world_faults_.clear();
  faults_.advance(network_, choice_, world_faults_);
  for (const Strike& strike : faults_.strikes())
    note(Journal::Kind::struck, kNone, static_cast<std::uint64_t>(strike.which), strike.until,
         place_of(strike));
  for (const WorldFault& fault : world_faults_) carry_out(fault);
}

void World::carry_out(const WorldFault& fault) {
  if (fault.kind == WorldFault::Kind::crowd) return crowd_begins(fault.until);
  Node& node = fault.node == 0 ? static_cast<Node&>(server_) : *clients_[fault.node - 1];
  if (fault.kind == WorldFault::Kind::pause) {
    node.paused_until = std::max(node.paused_until, fault.until);
    node.hearts->resumed(node.paused_until);
    if (node.closing) node.closing->paused(node.clock.local_time(node.paused_until));
    const auto& heart = fault.node == 0 ? scenario_.server.heartbeat : scenario_.client.heartbeat;
    const bool dead = fault.until - now() > (heart.missed_max + 2) * heart.interval;
    judge_.mark(dead ? Mark::paused_dead_time : Mark::short_pause);
    return note(Journal::Kind::paused, fault.node, fault.until);
  }
  if (fault.kind == WorldFault::Kind::restart) {
    note(Journal::Kind::restarted, fault.node);
    judge_.mark(fault.node == 0 ? Mark::server_restart : Mark::client_restart);
    if (fault.node != 0 && scenario_.same_identity) {
      judge_.mark(Mark::same_identity);
      // The server takes both lives for one session: what the former has under way shares the chunks, and
      // storage may read them while the latter writes.
      scenario_.fenced = false;
      judge_.excuse(Oracle::data_integrity);
      judge_.excuse(Oracle::history);
    }
    if (fault.node != 0) return start_client(fault.node - 1);
    if (scenario_.server_changes) draw_limits();
    if (disks_ != nullptr) change_disks();
    if (disks_ != nullptr) delay_disks();
    return start_server();
  }
  note(Journal::Kind::crashed, fault.node);
  node.up = node.comes_back = false;
  node.closing.reset();
  if (disks_ != nullptr) disks_die(fault.node);
  if (fault.node == 0) {
    if (in_storage() != 0) judge_.mark(Mark::work_lost);
    server_.driver.reset();
    server_.answers.clear();
    storage_.crash();
    slots_.clear();
    for (std::uint32_t client = 0; client < clients_.size(); ++client) book_.close_windows(client);
  } else {
    ClientNode& client = *clients_[fault.node - 1];
    if (client.under_way != 0) judge_.mark(Mark::client_died_busy);
    client.driver.reset();
    const Tick tick = book_.tick();
    for (std::size_t io = 1; io <= book_.count(); ++io) {
      if (book_[io].client != fault.node - 1 || book_[io].answered != kOpenEnd) continue;
      book_[io].answered = tick;
      once_.abandoned(static_cast<std::uint32_t>(io));
    }
    std::erase_if(open_ios_, [&](std::uint32_t io) { return book_[io].client == fault.node - 1; });
    client.under_way = client.reads_under_way = 0;
  }
  node.fabric.reset();
  node.keyed.reset();
  node.gate.reset();
  node.preflushes.reset();
  node.lies.reset();
  node.sim.reset();
}

}  // namespace rtrs::sim
