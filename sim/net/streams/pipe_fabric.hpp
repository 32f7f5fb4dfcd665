// The TCP fabric of one process on a node of a PipeNetwork: the production engine (core/tcp) over simulated
// sockets, with checks of the laws (sim/net/streams/pipe_laws.hpp). After a crash of its node an object is
// inert: calls have no effect, poll() reports nothing.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/fabric/forwarding_fabric.hpp"
#include "core/tcp/tcp_fabric.hpp"
#include "sim/net/streams/pipe_network.hpp"
#include "sim/net/streams/pipe_transport.hpp"

namespace rtrs::sim {

// A base class, so that the engine is constructed before the ForwardingFabric that refers to it.
struct PipeEngine {
  PipeEngine(PipeNetwork&, NodeId, ChoiceSource&, const tcp::TcpOptions&, std::uint64_t seed);
  PipeTransport* transport = nullptr;  // owned by the engine
  tcp::FabricImpl engine;

 private:
  PipeEngine(std::unique_ptr<PipeTransport>, const tcp::TcpOptions&, std::uint64_t seed);
};

class PipeFabric final : private PipeEngine, public ForwardingFabric {
 public:
  PipeFabric(PipeNetwork&, NodeId, ChoiceSource&, std::size_t batch);
  ~PipeFabric() override;

  // Calls try_wait() of the engine. Returns true if the process sleeps until one of its sockets is ready.
  bool sleeps();

  Result<Region> allocate(std::size_t bytes) override;
  Result<Region> register_memory(std::span<std::byte> memory) override;
  void release(RegionId) override;
  Result<RemoteKey> make_key(RegionId, std::size_t offset, std::size_t length) override;
  void release_key(RemoteKeyId) override;
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
  struct Key {
    std::uint32_t rkey = 0;  // 0: revoked
    RegionId region = kNoRegion;
    std::span<std::byte> bytes;
  };
  struct Dead {
    RegionId region = kNoRegion;
    std::span<std::byte> bytes;
    std::uint64_t digest = 0;
    bool watched = false;  // checked in this poll, because no live key covers the memory
  };

  bool live() const noexcept;
  Result<RemoteKey> noted(Result<RemoteKey>, RegionId, std::size_t offset, std::size_t length);
  void key_died(RemoteKeyId);
  bool is_open(const Dead&) const noexcept;
  bool is_alive_at_peer(QpId, std::uint32_t rkey) const noexcept;
  void before_poll();
  void check_dead_keys();
  void check_writes(const std::vector<PipeLaws::Posted>& written);
  void check_arrival(const FabricEvent&, std::vector<PipeLaws::Posted>& written);
  void check_books();
  const char* overdue(PipeNetwork::End&, Nanos& next) noexcept;
  void check_waits();
  void check_faults();

  PipeNetwork& network_;
  NodeId node_;
  std::uint32_t start_;
  ChoiceSource& choice_;
  std::size_t batch_;
  bool asleep_ = false;
  std::map<RemoteKeyId, Key> keys_;
  std::vector<Dead> dead_;
  bool keys_changed_ = true;  // keys have changed since Dead::watched was set
  std::size_t accepted_ = 0;
  decltype(tcp::TcpStats::faults) faults_{};
  // Results of check_books() and check_waits(), with the number of changes of the network when they were
  // found.
  std::size_t half_open_ = 0;  // sockets that are open and belong to no connection of the process
  std::uint64_t half_open_at_ = 0;
  Nanos waits_until_ = 0;  // until this time no end is overdue
  std::uint64_t waits_at_ = 0;
};

}  // namespace rtrs::sim
