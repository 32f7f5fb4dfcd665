#include "sim/net/streams/pipe_fabric.hpp"

#include <algorithm>
#include <utility>

#include "sim/net/queue_pairs/sim_fabric.hpp"

namespace rtrs::sim {
namespace {

// Number of most recently revoked keys whose memory is checked.
constexpr std::size_t kWatchedKeys = 24;
KeySequence::Secret secret_of(std::uint64_t seed) {
  KeySequence::Secret secret;
  for (std::uint64_t& word : secret) word = seed = (seed ^ (seed >> 29)) * 0xbf58476d1ce4e5b9ULL + 1;
  return secret;
}

}  // namespace

PipeEngine::PipeEngine(PipeNetwork& network, NodeId node, ChoiceSource& choice,
                       const tcp::TcpOptions& options, std::uint64_t seed)
    : PipeEngine(std::make_unique<PipeTransport>(network, node, choice), options, seed) {}

PipeEngine::PipeEngine(std::unique_ptr<PipeTransport> made, const tcp::TcpOptions& options,
                       std::uint64_t seed)
    : transport(made.get()), engine(options, secret_of(seed), std::move(made)) {}

PipeFabric::PipeFabric(PipeNetwork& network, NodeId node, ChoiceSource& choice, std::size_t batch)
    : PipeEngine(network, node, choice, network.tcp_,
                 network.seed_ ^ (std::uint64_t{node} << 40) ^ (std::uint64_t{network.starts(node)} << 20)),
      ForwardingFabric(engine),
      network_(network),
      node_(node),
      start_(network.starts(node)),
      choice_(choice),
      batch_(batch) {
  network.nodes_[node].fabric = this;
}

PipeFabric::~PipeFabric() {
  if (network_.nodes_[node_].fabric == this) network_.nodes_[node_].fabric = nullptr;
}

bool PipeFabric::live() const noexcept {
  return network_.is_up(node_) && network_.starts(node_) == start_;
}

bool PipeFabric::sleeps() {
  if (!asleep_) asleep_ = engine.try_wait();
  return asleep_;
}

// --- memory ---

Result<Region> PipeFabric::allocate(std::size_t bytes) {
  if (!live()) return tl::make_unexpected(Errc::fabric_error);
  if (network_.allocation_fails(node_, choice_)) return tl::make_unexpected(Errc::no_memory);
  return known(engine.allocate(bytes));
}

Result<Region> PipeFabric::register_memory(std::span<std::byte> memory) {
  if (!live()) return tl::make_unexpected(Errc::fabric_error);
  if (network_.allocation_fails(node_, choice_)) return tl::make_unexpected(Errc::no_memory);
  return known(engine.register_memory(memory));
}

void PipeFabric::release(RegionId id) {
  if (id < regions_.size()) regions_[id] = {};
  std::erase_if(dead_, [id](const Dead& one) { return one.region == id; });
  std::erase_if(keys_, [id](const auto& one) { return one.second.region == id; });
  keys_changed_ = true;
  if (live()) engine.release(id);
}

Result<RemoteKey> PipeFabric::noted(Result<RemoteKey> key, RegionId region, std::size_t offset,
                                    std::size_t length) {
  if (key) keys_[key->id] = {key->rkey, region, regions_[region].subspan(offset, length)};
  keys_changed_ = true;
  return key;
}

Result<RemoteKey> PipeFabric::make_key(RegionId region, std::size_t offset, std::size_t length) {
  if (!live()) return tl::make_unexpected(Errc::fabric_error);
  if (network_.allocation_fails(node_, choice_)) return tl::make_unexpected(Errc::no_memory);
  return noted(engine.make_key(region, offset, length), region, offset, length);
}

Result<RemoteKey> PipeFabric::make_revocable_key(ConKey key, RegionId region, std::size_t offset,
                                                 std::size_t length) {
  if (!live()) return tl::make_unexpected(Errc::fabric_error);
  if (network_.allocation_fails(node_, choice_)) return tl::make_unexpected(Errc::no_memory);
  return noted(engine.make_revocable_key(key, region, offset, length), region, offset, length);
}

Result<RemoteKey> PipeFabric::make_request_key(ConKey key, RegionId region, std::size_t offset,
                                               std::size_t length) {
  if (!live()) return tl::make_unexpected(Errc::fabric_error);
  if (network_.allocation_fails(node_, choice_)) return tl::make_unexpected(Errc::no_memory);
  return noted(engine.make_request_key(key, region, offset, length), region, offset, length);
}

void PipeFabric::key_died(RemoteKeyId id) {
  const auto found = keys_.find(id);
  if (found == keys_.end() || std::exchange(found->second.rkey, 0) == 0) return;
  if (dead_.size() == kWatchedKeys) dead_.erase(dead_.begin());
  dead_.push_back({found->second.region, found->second.bytes});
  keys_changed_ = true;
}

void PipeFabric::release_key(RemoteKeyId id) {
  key_died(id);
  keys_.erase(id);
  keys_changed_ = true;
  if (live()) engine.release_key(id);
}

void PipeFabric::invalidate(ConKey key, RemoteKeyId id, std::uint64_t cookie) {
  if (!live()) return;
  key_died(id);
  engine.invalidate(key, id, cookie);
}

Result<std::uint32_t> PipeFabric::rebind(ConKey key, RemoteKeyId id) {
  if (!live()) return tl::make_unexpected(Errc::fabric_error);
  if (network_.allocation_fails(node_, choice_)) return tl::make_unexpected(Errc::no_memory);
  const Result<std::uint32_t> made = engine.rebind(key, id);
  if (made) keys_[id].rkey = *made;
  keys_changed_ = true;
  return made;
}

// --- connections ---

Errc PipeFabric::listen(const PathAddress& local) {
  return live() ? engine.listen(local) : Errc::fabric_error;
}

void PipeFabric::connect(ConKey key, const PathAddress& address, const ConnectionParams& params,
                         std::span<const std::byte> private_data) {
  if (!live()) return;
  transport->connecting(key);
  engine.connect(key, address, params, private_data);
}

void PipeFabric::accept(std::uint32_t request, ConKey key, const ConnectionParams& params,
                        std::span<const std::byte> private_data) {
  if (!live()) return;
  const bool refuses = choice_.fires(network_.rates_.accept_failed, Label::accept_failed) ||
                       network_.allocation_fails(node_, choice_);
  network_.stats_.failed_accepts += refuses ? 1 : 0;
  transport->refuse_watch(refuses);
  engine.accept(request, key, params, private_data);
  transport->refuse_watch(false);
  const tcp::SocketId socket = engine.socket_of(key);
  if (socket != tcp::kNoSocket) {
    ++accepted_;
    network_.bind(node_, static_cast<QpId>(socket), key);
    return;
  }
  // The accept failed: adds a dead end, so that the key still refers to an end.
  const auto id = static_cast<QpId>(network_.ends_.size());
  PipeNetwork::End& end = network_.ends_.emplace_back();
  end.node = node_;
  end.state = PipeNetwork::End::State::dead;
  end.closed = true;
  network_.bind(node_, id, key);
}

void PipeFabric::reject(std::uint32_t request, std::span<const std::byte> private_data) {
  if (live()) engine.reject(request, private_data);
}

void PipeFabric::disconnect(ConKey key) {
  if (!live()) return;
  const QpId id = network_.find_qp(node_, key);
  if (id != kNone && network_.ends_[id].accepted) --accepted_;
  if (id != kNone) network_.laws_.left(id);
  engine.disconnect(key);
}

std::string PipeFabric::describe(ConKey key) const {
  return live() ? engine.describe(key) : "gone";
}

// --- the IO path ---

void PipeFabric::post_receive(ConKey key, unsigned count, std::uint32_t bytes_each) noexcept {
  if (!live()) return;
  const QpId id = network_.find_qp(node_, key);
  network_.changes();
  if (id != kNone) network_.laws_.receives_posted(id, count);
  engine.post_receive(key, count, bytes_each);
}

bool PipeFabric::is_alive_at_peer(QpId id, std::uint32_t rkey) const noexcept {
  const QpId peer = network_.ends_[id].peer;
  const PipeFabric* const other = peer == kNone ? nullptr : network_.nodes_[network_.ends_[peer].node].fabric;
  return other == nullptr || std::any_of(other->keys_.begin(), other->keys_.end(),
                                         [rkey](const auto& one) { return one.second.rkey == rkey; });
}

std::size_t PipeFabric::post(std::span<const WorkRequest> work) noexcept {
  if (!live()) return work.size();
  const std::size_t taken = engine.post(work.first(network_.takes(node_, work.size(), choice_)));
  for (const WorkRequest& one : work.first(taken)) {
    const QpId id = network_.find_qp(node_, one.key);
    if (id == kNone || !network_.qp_info(id).alive) continue;
    PipeLaws::Posted posted{one.op, one.imm, one.rkey, one.remote_addr, {}, false};
    posted.bytes.assign(one.inline_bytes.begin(), one.inline_bytes.end());
    for (unsigned i = 0; i < one.part_count; ++i) {
      const auto part = regions_[one.parts[i].region].subspan(one.parts[i].offset, one.parts[i].length);
      posted.bytes.insert(posted.bytes.end(), part.begin(), part.end());
    }
    posted.dead = !posted.bytes.empty() && one.part_count != 0 && !is_alive_at_peer(id, one.rkey);
    network_.laws_.posted(id, std::move(posted));
  }
  return taken;
}

std::size_t PipeFabric::poll(Nanos now, std::span<FabricEvent> out) noexcept {
  if (!live()) return 0;
  const bool idle = network_.sleeps(node_);
  asleep_ = false;
  if (!idle) before_poll();
  const std::size_t count = engine.poll(now, out.first(std::min(out.size(), batch_)));
  if (count != 0) network_.changes();
  std::vector<PipeLaws::Posted> written;
  for (const FabricEvent& event : out.first(count)) check_arrival(event, written);
  check_writes(written);
  if (!idle) check_dead_keys();
  check_books();
  check_waits();
  check_faults();
  return count;
}

}  // namespace rtrs::sim
