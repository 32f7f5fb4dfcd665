// The verbs fabric of one process on a node of a MockNet, with checks of the laws
// (sim/net/streams/pipe_laws.hpp). After a crash of its node an object is inert: calls have no effect, poll()
// reports nothing. Memory that it allocated stays until the object is destroyed.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "backends/verbs/verbs_fabric.hpp"
#include "core/fabric/plain_fabric.hpp"
#include "sim/net/verbs/mock_net.hpp"

namespace rtrs::mock_net {

class MockFabric final : public PlainFabric {
 public:
  MockFabric(MockNet&, NodeId, ChoiceSource&, std::size_t batch, const verbs::VerbsOptions&);
  ~MockFabric() override;

  // Calls try_wait() of the backend. Returns true if the process sleeps until a file descriptor of its
  // adapters is readable.
  bool sleeps();
  Nanos next_timer() const noexcept { return engine_ == nullptr ? kNever : engine_->next_timer(); }
  // Kills the process: destroys its objects without messages to peers.
  void die();

  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Result<Region> allocate(std::size_t bytes) override;
  Result<Region> register_memory(std::span<std::byte> memory) override;
  void release(RegionId) override;
  Result<RemoteKey> make_key(RegionId, std::size_t offset, std::size_t length) override;
  void release_key(RemoteKeyId) override;
  std::uint32_t rkey_of(ConKey, const RemoteKey&) noexcept override;
  Result<RemoteKey> make_revocable_key(ConKey, RegionId, std::size_t offset, std::size_t length) override;
  Result<RemoteKey> make_request_key(ConKey, RegionId, std::size_t offset, std::size_t length) override;
  void invalidate(ConKey, RemoteKeyId, std::uint64_t cookie) override;
  Result<std::uint32_t> rebind(ConKey, RemoteKeyId) override;
  Errc listen(const PathAddress&) override;
  void connect(ConKey, const PathAddress&, const ConnectionParams&,
               std::span<const std::byte> private_data) override;
  void accept(std::uint32_t request, ConKey, const ConnectionParams&,
              std::span<const std::byte> private_data) override;
  void reject(std::uint32_t request, std::span<const std::byte> private_data) override;
  void disconnect(ConKey) override;
  std::string describe(ConKey key) const override;
  void post_receive(ConKey, unsigned count, std::uint32_t bytes_each) noexcept override;
  std::size_t post(std::span<const WorkRequest>) noexcept override;
  std::size_t poll(Nanos now, std::span<FabricEvent>) noexcept override;
  bool try_wait() noexcept override { return sleeps(); }

 private:
  // Scope of a call into the backend: sets the host of the call, and the node whose resource requests may
  // fail.
  class Inside;

  bool live() const noexcept { return engine_ != nullptr; }
  void annotate_event(FabricEvent&);
  void end_engine();
  NodeId client_of(std::uint32_t request) const;
  // True if a peer can still write with this rkey to the connection's adapter.
  bool is_open(QpId, std::uint32_t key) const;
  Result<RemoteKey> with_name(Result<RemoteKey>, RegionId, std::size_t offset) const;

  MockNet& network_;
  NodeId node_;
  ChoiceSource& choice_;
  std::size_t batch_;
  std::unique_ptr<verbs::VerbsFabric> opened_;
  verbs::FabricImpl* engine_ = nullptr;  // the opened fabric; nullptr: the process is dead
  Capabilities capabilities_;
  std::map<RegionId, std::unique_ptr<std::byte[]>> memory_;
  std::vector<std::uint64_t> named_;  // indexed by region: its address as peers know it
  std::vector<WorkRequest> posted_;
  std::map<RemoteKeyId, std::pair<QpId, std::uint32_t>> offers_;  // keys made for single requests
  // Rkeys that are being invalidated, by connection and cookie.
  std::map<std::pair<QpId, std::uint64_t>, std::uint32_t> invalidating_keys_;
  mutable bool asleep_ = false;  // reset by the next call into the backend
};

}  // namespace rtrs::mock_net
