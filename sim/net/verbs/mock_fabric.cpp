#include "sim/net/verbs/mock_fabric.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/base/assert.hpp"
#include "sim/net/queue_pairs/sim_fabric.hpp"

namespace rtrs::mock_net {

class MockFabric::Inside {
 public:
  // `node`: node whose resource requests may fail; kNone: no request fails.
  Inside(const MockFabric& fabric, NodeId node) : network_(fabric.network_) {
    network_.enter(fabric.node_);
    network_.choice_ = &fabric.choice_;
    fabric.asleep_ = false;
    before_ = std::exchange(network_.asks_, node);
  }
  explicit Inside(const MockFabric& fabric) : Inside(fabric, fabric.node_) {}
  ~Inside() {
    network_.asks_ = before_;
    network_.collect_problems();
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  MockNet& network_;
  NodeId before_ = kNone;
};

MockFabric::MockFabric(MockNet& network, NodeId node, ChoiceSource& choice, std::size_t batch,
                       const verbs::VerbsOptions& options)
    : network_(network), node_(node), choice_(choice), batch_(batch) {
  const Inside inside(*this, kNone);
  Result<std::unique_ptr<verbs::VerbsFabric>> opened = verbs::open_verbs_fabric(options);
  RTRS_ASSERT(opened);
  opened_ = std::move(*opened);
  engine_ = &dynamic_cast<verbs::FabricImpl&>(*opened_);
  capabilities_ = engine_->capabilities();
  network.nodes_[node].fabric = this;
}

MockFabric::~MockFabric() {
  end_engine();
  for (const std::uint64_t name : named_) network_.named_memory_.erase(name);
  if (network_.nodes_[node_].fabric == this) network_.nodes_[node_].fabric = nullptr;
}

void MockFabric::end_engine() {
  if (!live()) return;
  {
    const Inside inside(*this, kNone);
    engine_ = nullptr;
    opened_.reset();
  }
  if (const std::size_t left = mock_hca::objects(node_); left != 0)
    network_.laws_.violated(kAdapterMisuse, network_.now(),
                            std::to_string(left) + " objects of adapters are left behind by a fabric");
}

void MockFabric::die() {
  end_engine();
  network_.nodes_[node_].fabric = nullptr;
}

bool MockFabric::sleeps() {
  if (!live()) return true;
  if (asleep_) return true;
  const Inside inside(*this, kNone);
  return asleep_ = engine_->try_wait();
}

// --- memory ---

Result<Region> MockFabric::allocate(std::size_t bytes) {
  if (!live()) return tl::make_unexpected(Errc::fabric_error);
  auto memory = std::make_unique<std::byte[]>(bytes);
  const Result<Region> region = register_memory({memory.get(), bytes});
  if (region) memory_[region->id] = std::move(memory);
  return region;
}

Result<Region> MockFabric::register_memory(std::span<std::byte> memory) {
  if (!live()) return tl::make_unexpected(Errc::fabric_error);
  const Inside inside(*this);
  if (network_.allocation_fails(node_, choice_)) return tl::make_unexpected(Errc::no_memory);
  const Result<Region> region = engine_->register_memory(memory);
  if (!region) return region;
  if (regions_.size() <= region->id) {
    regions_.resize(region->id + 1);
    named_.resize(region->id + 1);
  }
  regions_[region->id] = region->bytes;
  named_[region->id] = network_.name_memory(region->bytes);
  return region;
}

void MockFabric::release(RegionId id) {
  if (live()) {
    const Inside inside(*this);
    engine_->release(id);
  }
  if (id < regions_.size()) {
    regions_[id] = {};
    network_.named_memory_.erase(named_[id]);
  }
  memory_.erase(id);
}

Result<RemoteKey> MockFabric::make_key(RegionId id, std::size_t offset, std::size_t length) {
  if (!live()) return tl::make_unexpected(Errc::fabric_error);
  const Inside inside(*this);
  if (network_.allocation_fails(node_, choice_)) return tl::make_unexpected(Errc::no_memory);
  return with_name(engine_->make_key(id, offset, length), id, offset);
}

Result<RemoteKey> MockFabric::with_name(Result<RemoteKey> key, RegionId id, std::size_t offset) const {
  if (key) key->remote_addr = named_[id] + offset;
  return key;
}

Result<RemoteKey> MockFabric::make_revocable_key(ConKey key, RegionId id, std::size_t offset,
                                                 std::size_t length) {
  if (!live()) return tl::make_unexpected(Errc::fabric_error);
  const Inside inside(*this);
  return with_name(engine_->make_revocable_key(key, id, offset, length), id, offset);
}

Result<RemoteKey> MockFabric::make_request_key(ConKey key, RegionId id, std::size_t offset,
                                               std::size_t length) {
  if (!live()) return tl::make_unexpected(Errc::fabric_error);
  const Inside inside(*this);
  const Result<RemoteKey> made = with_name(engine_->make_request_key(key, id, offset, length), id, offset);
  if (made) offers_[made->id] = {network_.find_qp(node_, key), made->rkey};
  return made;
}

void MockFabric::release_key(RemoteKeyId id) {
  if (!live()) return;
  const Inside inside(*this);
  engine_->release_key(id);
  const auto offer = offers_.extract(id);
  if (!offer.empty() && is_open(offer.mapped().first, offer.mapped().second))
    network_.laws_.violated(14, network_.now(), "a key is open that was given back");
}

std::uint32_t MockFabric::rkey_of(ConKey key, const RemoteKey& remote_key) noexcept {
  if (!live()) return remote_key.rkey;
  const Inside inside(*this);
  return engine_->rkey_of(key, remote_key);
}

void MockFabric::invalidate(ConKey key, RemoteKeyId id, std::uint64_t cookie) {
  if (!live()) return;
  const Inside inside(*this);
  const QpId end = network_.find_qp(node_, key);
  if (end != kNone) invalidating_keys_[{end, cookie}] = engine_->rkey_of(key, RemoteKey{id, 0, 0});
  engine_->invalidate(key, id, cookie);
}

Result<std::uint32_t> MockFabric::rebind(ConKey key, RemoteKeyId id) {
  if (!live()) return tl::make_unexpected(Errc::fabric_error);
  const Inside inside(*this);
  return engine_->rebind(key, id);
}

bool MockFabric::is_open(QpId id, std::uint32_t key) const {
  if (id == kNone || network_.ends_[id].link == kNone) return false;
  const MockNet::End& end = network_.ends_[id];
  const LinkInfo& link = network_.links_[end.link].info;
  const std::uint32_t port = end.way == Way::to_server ? link.client_port : link.server_port;
  return mock_hca::is_open(network_.adapter_of(node_, port), key);
}

// --- connections ---

Errc MockFabric::listen(const PathAddress& local) {
  if (!live()) return Errc::fabric_error;
  const Inside inside(*this, kNone);
  PathAddress own;
  own.port = local.port;
  const std::string& text = local.source.empty() ? local.destination : local.source;
  PortAddress port;
  if (text.empty()) return engine_->listen(own);
  if (!parse_port_address(text, port) || port.node != node_) return Errc::bad_address;
  own.source = mock_hca::address_of(network_.adapter_of(node_, port.port));
  return engine_->listen(own);
}

void MockFabric::connect(ConKey key, const PathAddress& address, const ConnectionParams& params,
                         std::span<const std::byte> private_data) {
  if (!live()) return;
  PortAddress from{node_, 0}, to;
  const bool known = parse_port_address(address.destination, to) && to.node < network_.nodes_.size();
  RTRS_ASSERT(known && (address.source.empty() || parse_port_address(address.source, from)));
  const Inside inside(*this);
  PathAddress way;
  way.port = address.port;
  way.source = mock_hca::address_of(network_.adapter_of(from.node, from.port));
  way.destination = mock_hca::address_of(network_.adapter_of(to.node, to.port));
  const LinkId link = network_.link(from.node, from.port, to.node, to.port);
  network_.connecting_ = network_.make_end(node_, key, link, Way::to_server);
  engine_->connect(key, way, params, private_data);
  network_.connecting_ = kNone;
}

void MockFabric::accept(std::uint32_t request, ConKey key, const ConnectionParams& params,
                        std::span<const std::byte> private_data) {
  if (!live()) return;
  const std::uint32_t identifier = mock_hca::identifier_of_request(node_, request);
  const auto asked = network_.by_identifier_.find(mock_hca::peer_of(identifier));
  // If the client gave up in the meantime, the connection has no other end.
  const bool there = identifier != 0 && asked != network_.by_identifier_.end();
  const QpId client = there ? asked->second : kNone;
  const QpId id = network_.make_end(node_, key, there ? network_.ends_[client].link : kNone, Way::to_client);
  if (there) {
    network_.ends_[id].peer = client;
    // If the client no longer waits, another accept() of the server has already answered its request.
    if (mock_hca::waits_for_answer(asked->first, mock_hca::Message::Kind::request))
      network_.ends_[client].peer = id;
    network_.ends_[id].identifier = identifier;
    network_.by_identifier_[identifier] = id;
  }
  const Inside inside(*this);
  network_.refuses_ = choice_.fires(network_.rates_.accept_failed, Label::accept_failed);
  if (network_.refuses_) ++network_.stats_.failed_accepts;
  engine_->accept(request, key, params, private_data);
  network_.refuses_ = false;
}

void MockFabric::reject(std::uint32_t request, std::span<const std::byte> private_data) {
  if (!live()) return;
  const Inside inside(*this);
  engine_->reject(request, private_data);
}

void MockFabric::disconnect(ConKey key) {
  if (!live()) return;
  const Inside inside(*this);
  const QpId id = network_.find_qp(node_, key);
  if (id != kNone) {
    network_.ends_[id].over = true;
    network_.laws_.left(id);
  }
  engine_->disconnect(key);
}

std::string MockFabric::describe(ConKey key) const {
  return live() ? engine_->describe(key) : "gone";
}

NodeId MockFabric::client_of(std::uint32_t request) const {
  const std::uint32_t identifier = mock_hca::identifier_of_request(node_, request);
  const auto asked = network_.by_identifier_.find(mock_hca::peer_of(identifier));
  return asked == network_.by_identifier_.end() ? kNone : network_.ends_[asked->second].node;
}

// --- the IO path ---

void MockFabric::post_receive(ConKey key, unsigned count, std::uint32_t bytes_each) noexcept {
  if (!live()) return;
  const Inside inside(*this);
  const QpId id = network_.find_qp(node_, key);
  if (id != kNone) network_.laws_.receives_posted(id, count);
  engine_->post_receive(key, count, bytes_each);
}

std::size_t MockFabric::post(std::span<const WorkRequest> work) noexcept {
  if (!live()) return work.size();
  const Inside inside(*this);
  const auto offered = work.first(network_.takes(node_, work.size(), choice_));
  posted_.assign(offered.begin(), offered.end());
  for (WorkRequest& one : posted_) one.remote_addr = network_.address_of_name(one.remote_addr);
  const std::size_t taken = engine_->post(posted_);
  for (const WorkRequest& one : work.first(taken)) {
    const QpId id = network_.find_qp(node_, one.key);
    if (id == kNone || !network_.is_open(network_.ends_[id])) continue;
    PipeLaws::Posted posted{one.op, one.imm, one.rkey, one.remote_addr, {}, false};
    posted.bytes.assign(one.inline_bytes.begin(), one.inline_bytes.end());
    network_.laws_.posted(id, std::move(posted));
  }
  return taken;
}

// Ignores `now`, which is read from the caller's clock and may run fast or slow.
std::size_t MockFabric::poll(Nanos /*now*/, std::span<FabricEvent> out) noexcept {
  if (!live()) return 0;
  const Inside inside(*this);
  const std::size_t count = engine_->poll(network_.now(), out.first(std::min(out.size(), batch_)));
  for (FabricEvent& event : out.first(count)) annotate_event(event);
  return count;
}

void MockFabric::annotate_event(FabricEvent& event) {
  if (auto* const asked = std::get_if<event::ConnectRequested>(&event)) {
    // Each node has its own identity, as on the other simulated fabrics.
    const NodeId client = client_of(asked->request);
    asked->host = client + 1;
    asked->identity = {.low = client + 1U, .high = ~std::uint64_t{client}};
    return;
  }
  const ConKey* const key = event::key_of(event);
  const QpId id = key == nullptr ? kNone : network_.find_qp(node_, *key);
  if (id == kNone) return;
  network_.laws_.told(id, event, network_.now());
  if (std::holds_alternative<event::ConnectionClosed>(event)) {
    network_.nodes_[node_].by_key.erase(MockNet::packed(*key));
    return;
  }
  MockNet::End& end = network_.ends_[id];
  if (std::holds_alternative<event::Connected>(event)) end.connected = true;
  if (std::holds_alternative<event::ConnectFailed>(event) ||
      std::holds_alternative<event::ConnectionLost>(event)) {
    end.failed = true;
    network_.laws_.over(id);
  }
  if (const auto* const dead = std::get_if<event::ChunkInvalidated>(&event)) {
    const auto asked = invalidating_keys_.extract({id, dead->cookie});
    if (dead->ok && !asked.empty() && is_open(id, asked.mapped()))
      network_.laws_.violated(14, network_.now(), "a key is open that was reported dead");
  }
  if (end.peer == kNone) return;
  std::vector<PipeLaws::Posted> written;
  network_.laws_.arrived(id, end.peer, event, network_.now(), written);
}

}  // namespace rtrs::mock_net
