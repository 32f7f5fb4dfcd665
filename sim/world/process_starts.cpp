// Starts the server and client processes, with the layers between them and the network.
#include "core/base/assert.hpp"
#include "core/keyed/toy_mac.hpp"
#include "sim/oracles/digest.hpp"
#include "sim/world/processes.hpp"
#include "sim/world/shared_keys.hpp"

namespace rtrs::sim {

namespace {

constexpr std::uint32_t kUserHeaderBytes = 24;  // user header of each simulated request

// Returns the client's configuration without options that its adapters do not support.
ClientConfig fitted(const Scenario& scenario, const Fabric& fabric) {
  ClientConfig config = scenario.client;
  if (scenario.over_adapters && !fabric.capabilities().per_io_keys) config.offer_invalidation = false;
  return config;
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

}  // namespace

// Converts the heartbeat interval from node time, because HeartbeatWatch uses true time.
std::unique_ptr<HeartbeatWatch> Processes::watch_of(const Node& node, HeartbeatConfig heartbeat) {
  heartbeat.interval = node.clock.true_time(heartbeat.interval);
  return std::make_unique<HeartbeatWatch>(judge_, heartbeat, node.clock.rounding());
}

void Processes::start_server() {
  ServerNode& server = server_;
  server.up = true;
  server.paused_until = 0;
  ++server.starts;
  server.hearts = watch_of(server, scenario_.server.heartbeat);
  server.sim = cluster_.open_fabric(server.id);
  server.lies.reset();
  if (scenario_.liar == server.id)
    server.lies = std::make_unique<CorruptingFabric>(*server.sim, kUserHeaderBytes);
  if (scenario_.keys) ask_for_keys(server.outermost_fabric());
  server.fabric = std::make_unique<WatchedFabric>(server.outermost_fabric(), *server.hearts, server.clock);
  server.fabric->watch_connect_requests(judge_, scenario_.server);
  server.fabric->watch_connections(judge_, "server", {});
  cluster_.record(server, "server", "server");
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

ClientOptions Processes::client_options(ClientNode& client, std::uint32_t index) {
  ClientOptions options;
  options.protocol = fitted(scenario_, *client.sim);
  options.protocol.seed += client.starts * 1000 + index;
  options.session_name = "client" + std::to_string(index);
  const unsigned identity = scenario_.same_identity ? 1 : client.starts;
  options.session_uuid = uuid_of(cluster_.options.seed, index, identity, 99);
  for (std::uint32_t path = 0; path < kMaxPaths; ++path)
    options.path_uuids.push_back(uuid_of(cluster_.options.seed, index, identity, path));
  for (std::uint32_t path = 0; path < scenario_.paths; ++path)
    options.paths.push_back(client.address_of[path] = cluster_.address(index, path));
  if (cluster_.other_server != nullptr) {
    options.paths.push_back(cluster_.other_server->address(client.id, scenario_.paths));
    client.address_of[scenario_.paths] = options.paths.back();
  }
  return options;
}

void Processes::start_client(std::uint32_t index) {
  ClientNode& client = *clients_[index];
  client.up = true;
  client.paused_until = client.failovers_seen = 0;
  ++client.starts;
  client.without_path = {};
  client.leaving = client.split_over_servers = false;
  client.missing.clear();
  client.hearts = watch_of(client, scenario_.client.heartbeat);
  client.promises = std::make_unique<ClientPromises>(judge_, scenario_.client,
                                                     !scenario_.workload.block_device && disks_ == nullptr);
  for (const auto& oracle : client.oracles) oracle->started();
  client.sim = cluster_.open_fabric(client.id);
  client.lies.reset();
  if (scenario_.liar == client.id)
    client.lies = std::make_unique<CorruptingFabric>(*client.sim, kUserHeaderBytes);
  resolve_names(client);
  client.preflushes.reset();
  if (scenario_.workload.preflushes)
    client.preflushes = std::make_unique<PreflushFabric>(client.outermost_fabric());
  if (scenario_.keys) prove_key(client, client.outermost_fabric());
  client.fabric = std::make_unique<WatchedFabric>(client.outermost_fabric(), *client.hearts, client.clock);
  client.fabric->watch_connections(judge_, "client " + std::to_string(client.id),
                                   limits_of(scenario_.client));
  client.fabric->watch_fences(judge_, "client " + std::to_string(client.id), scenario_.client.fence_timeout);
  cluster_.record(client, "client", "client" + std::to_string(client.id));
  client.memory.push_back(std::make_unique<std::vector<std::byte>>(
      client.buffers.size() * cluster_.max_io_bytes(), std::byte{0xa5}));
  for (AppBuffer& buffer : client.buffers) buffer = AppBuffer{};
  client.region = kNoRegion;
  if (scenario_.workload.own_region) {
    const auto region = client.fabric->register_memory(*client.memory.back());
    if (region) client.region = region->id;
  }
  ClientOptions options = client_options(client, index);
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

void Processes::ask_for_keys(Fabric& outermost_fabric) {
  RTRS_ASSERT(server_.keyed == nullptr);
  server_.gate = std::make_unique<GateWatch>(outermost_fabric, judge_, server_.clock);
  server_.keyed = std::make_unique<keyed::KeyedFabric>(*server_.gate);
  std::vector<keyed::SharedKey> keys;
  for (std::uint32_t client = 0; client < clients_.size(); ++client)
    keys.push_back(shared_key(cluster_.options.seed, client));
  const keyed::Secret secret =
      secret_of(cluster_.options.seed ^ 0x67617465 ^ std::uint64_t{server_.starts} << 32);
  server_.keyed->ask(keyed::toy_mac, secret, keys, keyed::Mode::require);
}

void Processes::prove_key(ClientNode& client, Fabric& outermost_fabric) {
  RTRS_ASSERT(client.keyed == nullptr);
  client.keyed = std::make_unique<keyed::KeyedFabric>(outermost_fabric);
  client.keyed->prove(keyed::toy_mac, shared_key(cluster_.options.seed, client.id - 1));
}

void Processes::resolve_names(ClientNode& client) {
  client.names.reset();
  if (!scenario_.names.any()) return;
  Fabric& network = client.lies ? static_cast<Fabric&>(*client.lies) : *client.sim;
  client.names = std::make_unique<NamedFabric>(network);
}

}  // namespace rtrs::sim
