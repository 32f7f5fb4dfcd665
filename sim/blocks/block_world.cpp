#include "sim/blocks/block_world.hpp"

#include <algorithm>
#include <array>

namespace rtrs::sim {

namespace {

constexpr NodeId kServer = 0, kClient = 1;

NetworkConfig network_of() {
  NetworkConfig config{default_capabilities()};
  config.retry_budget = seconds(1);
  config.retry_spread = milliseconds(500);
  config.cm_timeout = milliseconds(500);
  return config;
}

}  // namespace

BlockWorld::BlockWorld(std::uint64_t seed, const BlockOptions& options)
    : options_(options),
      choice_(seed),
      network_(network_of()),
      disks_(choice_, options.storage, options.opening, failing()),
      book_(disks_, options.queue_timeout, failing()) {
  network_.add_node();
  network_.add_node();
  network_.rates().post_short = options.post_short;
  network_.rates().torn_write = network_.rates().late_placement = network_.rates().ghost_delay = 100'000;
}

BlockWorld::~BlockWorld() = default;

BlockDisk& BlockWorld::add_disk(const std::string& name, std::uint64_t sectors) {
  return disks_.add(name, sectors, book_);
}

void BlockWorld::start_server() {
  if (!network_.is_up(kServer)) network_.restart(kServer);
  server_fabric_ = std::make_unique<SimFabric>(network_, kServer, choice_);
  ServerConfig config;
  config.queue_depth = options_.depth;
  config.chunk_size = 16384;
  config.max_hdr_size = 4096;
  config.heartbeat.interval = seconds(1);
  config.handshake_timeout = seconds(6);
  server_ = std::make_unique<BlockServer>(config, generation_, nullptr);
  generation_ += 1000;  // sessions of one server take one each
  const Errc listening = server_->listen(*server_fabric_, now(), PathAddress{});
  expect(listening == Errc::ok, "the server listens");
}

void BlockWorld::start_client() {
  client_fabric_ = std::make_unique<SimFabric>(network_, kClient, choice_);
  BlockClientOptions block_options;
  block_options.max_requests = options_.max_requests;
  ClientOptions& options = block_options.session;
  options.protocol.seed = choice_.draw(1U << 30, Label::swarm);
  options.protocol.queue_timeout = options_.queue_timeout;
  options.protocol.request_timeout = options_.request_timeout;
  options.max_queued = options_.max_queued;
  options.protocol.heartbeat.interval = seconds(1);
  options.protocol.reconnect_min = milliseconds(100);
  options.protocol.reconnect_max = seconds(2);
  options.protocol.reconnect_jitter = milliseconds(300);
  options.session_name = "blocks";
  options.session_uuid.bytes[0] = 1;
  for (std::uint8_t path = 0; path < kMaxPaths; ++path) {
    wire::Uuid uuid{};
    uuid.bytes[0] = 2;
    uuid.bytes[1] = path;
    options.path_uuids.push_back(uuid);
  }
  for (std::uint32_t path = 0; path < kPaths; ++path)
    options.paths.push_back({to_text(PortAddress{kClient, path}), to_text(PortAddress{kServer, path}), 1234});
  client_ = std::make_unique<BlockClient>(block_options, nullptr);
  book_.begins(*client_);
  expect(client_->open(*client_fabric_, now()) == Errc::ok, "the client opens");
}

void BlockWorld::cut(std::uint32_t path) {
  const LinkId link = network_.link(kClient, path, kServer, path);
  network_.cut(link, Way::to_server);
  network_.cut(link, Way::to_client);
}

void BlockWorld::heal(std::uint32_t path) {
  const LinkId link = network_.link(kClient, path, kServer, path);
  network_.heal(link, Way::to_server, choice_);
  network_.heal(link, Way::to_client, choice_);
}

void BlockWorld::break_path(std::uint32_t path) {
  const LinkId link = network_.link(kClient, path, kServer, path);
  const Way side = draw(2) == 0 ? Way::to_server : Way::to_client;
  for (QpId id = 0; id < network_.qp_count(); ++id) {
    const QpInfo qp = network_.qp_info(id);
    if (qp.alive && qp.link == link && qp.way == side) network_.break_qp(id, choice_);
  }
}

void BlockWorld::crash_server(Death death) {
  if (!server_) return;
  server_paused_until_ = 0;
  network_.crash(kServer, draw(2) == 1, choice_);
  server_.reset();
  server_fabric_.reset();
  disks_.crash(death, now());
}

void BlockWorld::replace_server() {
  if (!server_) return;
  server_->close(*server_fabric_, now());
  until("the server ends", [this] { return server_->closed(); });
  expect(disks_.idle(), "a server that has ended keeps nothing");
  crash_server(Death::process);
  start_server();
}

void BlockWorld::fail_sync(const std::string& name) {
  disks_.fail_sync(name, server_.get(), now());
}

void BlockWorld::take_away(const std::string& name) {
  disks_.take_away(host(), name);
}

std::int64_t BlockWorld::map(const std::string& name, AccessMode mode) {
  const rnbd::MapOutcome outcome = client_->map(*client_fabric_, now(), name, mode);
  if (outcome.error == 0) book_.mapped(outcome.device, name, mode);
  take_events();
  return outcome.error != 0 ? -std::int64_t{outcome.error} : std::int64_t{outcome.device};
}

void BlockWorld::unmap(DeviceHandle device) {
  book_.unmapped(device);
  client_->unmap(*client_fabric_, now(), device);
  take_events();
}

void BlockWorld::remap(DeviceHandle device) {
  client_->remap(*client_fabric_, now(), device);
  take_events();
}

std::uint32_t BlockWorld::submit(DeviceHandle device, Opcode opcode, std::uint64_t sector,
                                 std::uint32_t sectors, bool fua, bool nounmap) {
  const std::string disk = book_.at(device).disk;
  until("other IO of these sectors is over", [&] { return !overlaps(disk, sector, sectors); });
  const BlockRequest request = book_.open(device, opcode, sector, sectors, fua, nounmap, now(), now());
  book_.taken(client_->submit(*client_fabric_, now(), device, request));
  return static_cast<std::uint32_t>(request.user_data);
}

Nanos BlockWorld::next_time() {
  Nanos next = disks_.next_time();
  if (server_) next = std::min(next, network_.has_events(kServer) ? now() : server_->next_deadline());
  next = std::min(std::max(next, server_paused_until_), network_.next_time());
  if (client_) next = std::min(next, client_->next_deadline());
  if (network_.has_events(kClient)) next = now();
  return std::max(next, now());
}

// False when nothing ever happens again.
bool BlockWorld::step() {
  const Nanos next = next_time();
  if (next == kNever || failed()) return false;
  constexpr std::uint64_t kLivelock = 100'000;
  steps_at_once_ = next > now() ? 0 : steps_at_once_ + 1;
  if (steps_at_once_ > kLivelock) expect(false, "no end of work at one instant");
  check_idle(next);
  network_.run_until(next, choice_);
  if (server_runs()) {
    disks_.due(host());
    poll_server();
  }
  if (client_) poll_client();
  if (network_.monitor().violation_count() != 0)
    expect(false, "the network keeps its laws: " + network_.monitor().violations().front().text);
  return !failed();
}

// Otherwise next_deadline() leaves out a timer, which runs only when something else has its node polled.
void BlockWorld::check_idle(Nanos until) {
  if (until <= now() + 1) return;
  network_.run_until(until - 1, choice_);
  if (client_ && !network_.has_events(kClient) && client_->next_deadline() > now()) {
    const auto at_work = [this] { return client_->session().inflight() + client_->messages_in_flight(); };
    const unsigned before = at_work();
    std::array<BlockCompletion, 1> done;
    const std::size_t count = client_->poll(*client_fabric_, now(), done);
    expect(count == 0 && at_work() == before, "a client to which nothing happens waits for next_deadline()");
  }
  if (!server_runs() || network_.has_events(kServer) || server_->next_deadline() <= now()) return;
  std::array<block::Action, 1> action;
  expect(server_->poll(*server_fabric_, now(), action) == 0,
         "a server to which nothing happens waits for next_deadline()");
}

void BlockWorld::poll_client() {
  book_.check_waits(now());
  std::array<BlockCompletion, 64> done;
  const std::size_t count = client_->poll(*client_fabric_, now(), done);
  for (const BlockCompletion& one : std::span(done).first(count)) {
    if (one.user_data == 0)
      unjudged_.push_back(one);
    else
      book_.over(one, now());
  }
  take_events();
  if (count < done.size()) book_.check_closing();
  const char* broken = client_->session().broken_invariant();
  expect(broken == nullptr, broken == nullptr ? "" : broken);
}

void BlockWorld::take_events() {
  BlockEvent event;
  while (client_->take_event(event)) book_.event(event, now());
}

void BlockWorld::poll_server() {
  std::array<block::Action, 64> actions;
  const std::size_t room = std::min<std::size_t>(options_.actions, actions.size());
  const std::size_t count = server_->poll(*server_fabric_, now(), std::span(actions).first(room));
  for (const block::Action& action : std::span(actions).first(count)) disks_.perform(host(), action);
  PathEvent news;
  while (server_->take_news(news)) {
  }
  // Otherwise some wait to be handed out.
  if (server_->next_deadline() != 0) disks_.check_measured();
}

bool BlockWorld::until(const std::string& what, const std::function<bool()>& done) {
  const Nanos end = now() + seconds(600);
  while (!failed() && !done()) {
    if (next_time() > end || !step()) expect(false, "in time: " + what);
  }
  return !failed();
}

void BlockWorld::pass(Nanos time) {
  const Nanos end = now() + time;
  while (!failed() && next_time() <= end)
    if (!step()) break;
  network_.run_until(end, choice_);
}

void BlockWorld::expect(bool holds, const std::string& what) {
  if (!holds && failure_.empty()) failure_ = "not so at " + std::to_string(now() / 1000) + " us: " + what;
}

void BlockWorld::unmap_all() {
  std::vector<std::string> open;
  for (const auto& [handle, mapped] : book_.mapped())
    if (state(handle) == rnbd::DeviceState::open) open.push_back(mapped.disk);
  const std::uint64_t losses = book_.losses();
  for (const auto& [handle, mapped] : book_.mapped()) unmap(handle);
  until("every device is unmapped", [this] { return client_->mapped_count() == 0; });
  for (const std::string& name : open) until_closed(name, losses);
}

// What was lost with a path may be the CLOSE; then the end of the session closes the device.
void BlockWorld::until_closed(const std::string& name, std::uint64_t losses) {
  until(name + " is closed", [&, this] { return disk(name).holders == 0 || book_.losses() != losses; });
}

void BlockWorld::close_session() {
  client_->close(*client_fabric_, now());
  take_events();
}

void BlockWorld::finish() {
  if (failed()) return;
  for (std::uint32_t path = 0; path < kPaths; ++path) heal(path);
  if (!server_) start_server();
  until("every IO is over", [this] { return all_over(); });
  if (failed()) return;
  unmap_all();
  if (failed()) return;
  close_session();
  until("the session is closed", [this] {
    return client_->closed() && server_->transport().session_count() + disks_.sessions() == 0;
  });
  for (const auto& [name, disk] : disks_.all())
    expect(disk.holders == 0, "nobody holds " + name + " open any more");
  expect(disks_.idle(), "the server keeps nothing");
}

}  // namespace rtrs::sim
