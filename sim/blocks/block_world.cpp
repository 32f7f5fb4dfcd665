#include "sim/blocks/block_world.hpp"

#include <algorithm>
#include <array>
#include <utility>

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
    : options_(options), choice_(seed), network_(network_of()) {
  network_.add_node();
  network_.add_node();
  network_.rates().post_short = options.post_short;
  network_.rates().torn_write = network_.rates().late_placement = network_.rates().ghost_delay = 100'000;
}

BlockWorld::~BlockWorld() = default;

BlockDisk& BlockWorld::add_disk(const std::string& name, std::uint64_t sectors) {
  BlockDisk& made = disks_[name];
  made.number = static_cast<std::uint32_t>(disks_.size());
  made.now.assign(sectors, 0);
  made.durable = made.now;
  made.forgotten.assign(sectors, false);
  made.lost_unknown_at.assign(sectors, 0);
  expected_[name].assign(sectors, Expected{{0}, true});
  return made;
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

void BlockWorld::disrupt(Mapped& mapped) {
  ++mapped.disruptions;
  mapped.disrupted = now();
}

void BlockWorld::crash_server(Death death) {
  if (!server_) return;
  ++deaths_;
  note_loss();
  for (auto& [handle, mapped] : mapped_) disrupt(mapped);
  server_paused_until_ = 0;
  openings_.clear();
  if (death == Death::host) ++hosts_;
  network_.crash(kServer, draw(2) == 1, choice_);
  server_.reset();
  server_fabric_.reset();
  sessions_ = 0;
  // A failure whose answer was under way is known to nobody.
  for (const StorageOp& op : storage_)
    if (op.acted && op.error != 0) ++disks_[exports_.at(op.what.handle).disk].sync_failures;
  exports_.clear();
  storage_.clear();
  for (auto& [name, disk] : disks_) {
    disk.holders = 0;
    if (death == Death::host || disk.memory) revert(name, disk);
    // Only the process knew that a sync had failed: the next one knows nothing, and gives the instance of
    // before.
    if (std::exchange(disk.sync_failures, 0) == 0) continue;
    allow_alarm(disk);
    for (Loss& loss : losses_[name]) loss.told = 0;
    for (std::size_t sector = 0; sector < disk.forgotten.size(); ++sector)
      if (disk.forgotten[sector]) disk.lost_unknown_at[sector] = moment_;
  }
}

void BlockWorld::revert(const std::string& name, BlockDisk& disk) {
  allow_alarm(disk);
  for (std::size_t sector = 0; sector < disk.now.size(); ++sector) {
    std::uint64_t& content = disk.now[sector];
    const std::uint64_t before = content;
    if (disk.memory) content = disk.durable[sector] = 0;
    if (content != disk.durable[sector] && (disk.forgotten[sector] || draw(2) == 0))
      content = disk.durable[sector];
    disk.durable[sector] = content;
    disk.forgotten[sector] = false;
    if (content != before) lose(name, sector);
    Expected& known = expected_[name][sector];
    const auto& any = known.any_of;
    const bool expected = std::find(any.begin(), any.end(), content) != any.end();
    expect(expected || !known.durable || disk.memory,
           "sector " + std::to_string(sector) + " of " + name + " is durable, and lost");
    if (expected) continue;
    known.any_of.push_back(content);
    ++known.changes;
  }
}

void BlockWorld::lose(const std::string& disk, std::size_t sector) {
  Expected& known = expected_[disk][sector];
  if (known.acked != 0) losses_[disk].push_back({known.by, known.acked, deaths_});
  known.acked = 0;
}

void BlockWorld::resize(const std::string& name, std::uint64_t sectors) {
  BlockDisk& grown = disk(name);
  grown.now.resize(sectors, 0);
  grown.durable.resize(sectors, 0);
  grown.forgotten.resize(sectors, false);
  grown.lost_unknown_at.resize(sectors, 0);
  std::vector<Expected>& expected = expected_[name];
  if (sectors < expected.size()) ++cuts_;
  // IO of what is cut off may still be under way; should the disk grow again, zeroes are there.
  for (std::size_t gone = sectors; gone < expected.size(); ++gone) {
    expected[gone].any_of.push_back(0);
    expected[gone].durable = false;
    expected[gone].acked = 0;  // nobody is told of what an operator cuts off
    ++expected[gone].changes;
  }
  if (sectors > expected.size()) expected.resize(sectors, Expected{{0}, true, 0});
}

Nanos BlockWorld::next_time() {
  Nanos next = kNever;
  for (const StorageOp& op : storage_) next = std::min(next, op.due);
  for (const Opening& one : openings_) next = std::min(next, one.due);
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
    storage_due();
    openings_due();
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

// Of a path, a server or a cache: what it had may be asked for again, and its messages may be under way for
// some time.
void BlockWorld::note_loss() {
  ++losses_noted_;
  last_loss_ = now();
  done_.clear();
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
  for (const auto& [handle, mapped] : mapped_)
    if (state(handle) == rnbd::DeviceState::open) open.push_back(mapped.disk);
  const std::uint64_t losses = losses_noted_;
  for (const auto& [handle, mapped] : mapped_) unmap(handle);
  until("every device is unmapped", [this] { return client_->mapped_count() == 0; });
  for (const std::string& name : open) until_closed(name, losses);
}

// What was lost with a path may be the CLOSE; then the end of the session closes the device.
void BlockWorld::until_closed(const std::string& name, std::uint64_t losses) {
  until(name + " is closed", [&, this] { return disk(name).holders == 0 || losses_noted_ != losses; });
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
  until("the session is closed",
        [this] { return client_->closed() && server_->transport().session_count() + sessions_ == 0; });
  for (const auto& [name, disk] : disks_)
    expect(disk.holders == 0, "nobody holds " + name + " open any more");
  expect(sessions_ == 0 && exports_.empty() && storage_.empty() && openings_.empty(),
         "the server keeps nothing");
}

}  // namespace rtrs::sim
