// Fabric of one node of a simulated network.
//
// Addresses have the form "n<node>.p<port>" with decimal numbers, for example PathAddress{"n0.p1", "n1.p1"}.
// An empty source of connect() means port 0. listen() uses `source`, or `destination` if `source` is empty;
// both empty: any port. A port is the endpoint of links; PathAddress::port is the service number.
//
// poll() reports the events due at the network's current time and does not advance it; its argument
// `now` is ignored. The owner of the world calls Network::run_until(). Network and ChoiceSource must outlive
// the fabric. After a crash of its node an object is inert: calls have no effect, poll() reports nothing.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "core/fabric/plain_fabric.hpp"
#include "sim/choices/choice.hpp"
#include "sim/net/queue_pairs/network.hpp"

namespace rtrs::sim {

struct PortAddress {
  NodeId node = 0;
  std::uint32_t port = 0;
};
// Returns false if the text is not "n<node>.p<port>".
bool parse_port_address(std::string_view text, PortAddress&) noexcept;
std::string to_text(const PortAddress&);

class SimFabric final : public PlainFabric {
 public:
  SimFabric(Network&, NodeId, ChoiceSource&);
  ~SimFabric() override = default;

  NodeId node() const noexcept { return node_; }
  // Limits the events per poll() to `count`, at least 1, like a backend that reads one queue at a time.
  void report_at_most(std::size_t count) noexcept { batch_ = count; }

  const Capabilities& capabilities() const noexcept override { return network_.capabilities(); }
  Result<Region> allocate(std::size_t bytes) override;
  Result<Region> register_memory(std::span<std::byte> memory) override;
  void release(RegionId) override;
  Result<RemoteKey> make_key(RegionId, std::size_t offset, std::size_t length) override;
  void release_key(RemoteKeyId) override;
  void invalidate(ConKey, RemoteKeyId, std::uint64_t cookie) override;
  Result<std::uint32_t> rebind(ConKey, RemoteKeyId) override;
  Errc listen(const PathAddress& local) override;
  void connect(ConKey, const PathAddress&, const ConnectionParams&,
               std::span<const std::byte> private_data) override;
  void accept(std::uint32_t request, ConKey, const ConnectionParams&,
              std::span<const std::byte> private_data) override;
  void reject(std::uint32_t request, std::span<const std::byte> private_data) override;
  void disconnect(ConKey) override;
  std::string describe(ConKey) const override;
  void post_receive(ConKey, unsigned count, std::uint32_t bytes_each) noexcept override;
  std::size_t post(std::span<const WorkRequest>) noexcept override;
  std::size_t poll(Nanos now, std::span<FabricEvent>) noexcept override;
  bool try_wait() noexcept override;

 private:
  bool live() const noexcept;

  Network& network_;
  ChoiceSource& choice_;
  NodeId node_;
  std::uint32_t start_;
  std::size_t batch_ = ~std::size_t{0};
};

}  // namespace rtrs::sim
