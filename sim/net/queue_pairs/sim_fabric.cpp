#include "sim/net/queue_pairs/sim_fabric.hpp"

#include <algorithm>
#include <charconv>

#include "core/base/assert.hpp"

namespace rtrs::sim {
namespace {

// Removes a prefix and a decimal number from the front of `text`. Returns false if they are missing.
bool take_number(std::string_view& text, char prefix, std::uint32_t& value) noexcept {
  if (text.empty() || text.front() != prefix) return false;
  text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

bool parse_port_address(std::string_view text, PortAddress& address) noexcept {
  PortAddress parsed;
  if (!take_number(text, 'n', parsed.node)) return false;
  if (text.empty() || text.front() != '.') return false;
  text.remove_prefix(1);
  if (!take_number(text, 'p', parsed.port) || !text.empty()) return false;
  address = parsed;
  return true;
}

std::string to_text(const PortAddress& address) {
  return "n" + std::to_string(address.node) + ".p" + std::to_string(address.port);
}

SimFabric::SimFabric(Network& network, NodeId node, ChoiceSource& choice)
    : network_(network), choice_(choice), node_(node), start_(network.starts(node)) {
  RTRS_ASSERT(network.is_up(node));
}

std::unique_ptr<Fabric> Network::open(NodeId node, ChoiceSource& choice, std::size_t batch) {
  auto fabric = std::make_unique<SimFabric>(*this, node, choice);
  fabric->report_at_most(batch);
  return fabric;
}

bool SimFabric::live() const noexcept {
  return network_.is_up(node_) && network_.starts(node_) == start_;
}

Result<Region> SimFabric::allocate(std::size_t bytes) {
  if (!live()) return tl::make_unexpected(Errc::fabric_error);
  if (network_.allocation_fails(node_, choice_)) return tl::make_unexpected(Errc::no_memory);
  const Region region = network_.allocate(node_, bytes);
  if (region.id >= regions_.size()) regions_.resize(std::size_t{region.id} + 1);
  regions_[region.id] = region.bytes;
  return region;
}

Result<Region> SimFabric::register_memory(std::span<std::byte> memory) {
  if (!live()) return tl::make_unexpected(Errc::fabric_error);
  if (network_.allocation_fails(node_, choice_)) return tl::make_unexpected(Errc::no_memory);
  const Region region = network_.register_memory(node_, memory);
  if (region.id >= regions_.size()) regions_.resize(std::size_t{region.id} + 1);
  regions_[region.id] = region.bytes;
  return region;
}

void SimFabric::release(RegionId id) {
  if (id < regions_.size()) regions_[id] = {};
  if (live()) network_.release(node_, id);
}

Result<RemoteKey> SimFabric::make_key(RegionId region, std::size_t offset, std::size_t length) {
  if (!live()) return tl::make_unexpected(Errc::fabric_error);
  if (region >= regions_.size()) return tl::make_unexpected(Errc::invalid);
  const std::size_t size = regions_[region].size();
  if (offset > size || length > size - offset) return tl::make_unexpected(Errc::invalid);
  if (network_.allocation_fails(node_, choice_)) return tl::make_unexpected(Errc::no_memory);
  return network_.make_key(node_, region, offset, length);
}

void SimFabric::release_key(RemoteKeyId id) {
  if (live()) network_.release_key(node_, id);
}

void SimFabric::invalidate(ConKey key, RemoteKeyId id, std::uint64_t cookie) {
  RTRS_ASSERT(capabilities().invalidation);
  if (live()) network_.invalidate(node_, key, id, cookie, choice_);
}

Result<std::uint32_t> SimFabric::rebind(ConKey, RemoteKeyId id) {
  if (!live()) return tl::make_unexpected(Errc::fabric_error);
  if (network_.allocation_fails(node_, choice_)) return tl::make_unexpected(Errc::no_memory);
  return network_.rebind(node_, id);
}

Errc SimFabric::listen(const PathAddress& local) {
  if (!live()) return Errc::fabric_error;
  const std::string& text = local.source.empty() ? local.destination : local.source;
  if (text.empty()) return network_.listen(node_, kNone, local.port);
  PortAddress address;
  if (!parse_port_address(text, address) || address.node != node_) return Errc::bad_address;
  return network_.listen(node_, address.port, local.port);
}

void SimFabric::connect(ConKey key, const PathAddress& path, const ConnectionParams& params,
                        std::span<const std::byte> private_data) {
  if (!live()) return;
  PortAddress source{node_, 0};
  PortAddress destination;
  bool good = path.source.empty() || parse_port_address(path.source, source);
  good = good && source.node == node_ && parse_port_address(path.destination, destination);
  if (!good || destination.node >= network_.node_count() || destination.node == node_) {
    network_.fail_connect(node_, key, Reason::address_unresolved, choice_);
    return;
  }
  if (private_data.size() > capabilities().connect_data) {
    network_.fail_connect(node_, key, Reason::post_failed, choice_);
    return;
  }
  if (network_.is_unplugged(node_, source.port) || network_.unresolved(choice_)) {
    network_.fail_connect(node_, key, Reason::address_unresolved, choice_);
    return;
  }
  if (network_.allocation_fails(node_, choice_)) {
    network_.fail_connect(node_, key, Reason::no_resources, choice_);
    return;
  }
  network_.connect(node_, key, source.port, destination.node, destination.port, path.port, params,
                   private_data, choice_);
}

void SimFabric::accept(std::uint32_t request, ConKey key, const ConnectionParams& params,
                       std::span<const std::byte> private_data) {
  if (!live()) return;
  if (private_data.size() > capabilities().accept_data || !network_.is_open_request(node_, request)) {
    network_.fail_accept(node_, request, key, Reason::post_failed, choice_);
    return;
  }
  if (network_.refuses_accept(node_, request, choice_) || network_.allocation_fails(node_, choice_)) {
    network_.fail_accept(node_, request, key, Reason::no_resources, choice_);
    return;
  }
  network_.accept(node_, request, key, params, private_data, choice_);
}

void SimFabric::reject(std::uint32_t request, std::span<const std::byte> private_data) {
  if (!live() || !network_.is_open_request(node_, request)) return;
  if (private_data.size() > capabilities().reject_data) private_data = {};
  network_.reject(node_, request, private_data, choice_);
}

void SimFabric::disconnect(ConKey key) {
  if (live()) network_.disconnect(node_, key, choice_);
}

std::string SimFabric::describe(ConKey key) const {
  const QpId id = live() ? network_.find_qp(node_, key) : kNone;
  if (id == kNone) return "gone";
  const QpInfo qp = network_.qp_info(id);
  if (qp.link == kNone) return "unresolved";
  const LinkInfo link = network_.link_info(qp.link);
  return to_text(PortAddress{link.client, link.client_port}) + " > " +
         to_text(PortAddress{link.server, link.server_port});
}

void SimFabric::post_receive(ConKey key, unsigned count, std::uint32_t bytes_each) noexcept {
  if (live()) network_.post_receive(node_, key, count, bytes_each, choice_);
}

std::size_t SimFabric::post(std::span<const WorkRequest> requests) noexcept {
  if (!live()) return requests.size();
  return network_.post(node_, requests.first(network_.takes(node_, requests.size(), choice_)), choice_);
}

std::size_t SimFabric::poll(Nanos, std::span<FabricEvent> out) noexcept {
  return live() ? network_.poll(node_, out.first(std::min(out.size(), batch_))) : 0;
}

bool SimFabric::try_wait() noexcept {
  return !live() || !network_.has_events(node_);
}

}  // namespace rtrs::sim
