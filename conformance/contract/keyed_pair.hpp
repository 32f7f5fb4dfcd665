// A pair of fabrics with shared-key authentication (core/keyed), for the contract. Connect requests are real
// RTRS messages, because proofs are part of these messages; the private data of a case is passed in memory
// instead. Challenges are answered here, so that a case does not see them.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "conformance/contract/contract.hpp"
#include "core/fabric/forwarding_fabric.hpp"
#include "core/keyed/keyed_fabric.hpp"

namespace rtrs::conformance {

// Private data of any length that the two ends exchange in memory instead of on the wire. Each connect
// request has a number, which its CON_REQ carries.
struct CarriedData {
  using Bytes = std::vector<std::byte>;
  std::map<std::uint64_t, Bytes> requests;
  std::map<std::uint64_t, Bytes> answers;
  std::uint64_t count = 0;
  unsigned challenges = 0;  // number of answered challenges
};

class CarrierFabric final : public ForwardingFabric {
 public:
  CarrierFabric(std::unique_ptr<keyed::KeyedFabric> inner, CarriedData& carried)
      : ForwardingFabric(static_cast<Fabric&>(*inner)), owned_(std::move(inner)), carried_(carried) {}

  void connect(ConKey, const PathAddress&, const ConnectionParams&, std::span<const std::byte>) override;
  void accept(std::uint32_t, ConKey, const ConnectionParams&, std::span<const std::byte>) override;
  void reject(std::uint32_t, std::span<const std::byte>) override;
  std::size_t poll(Nanos now, std::span<FabricEvent>) noexcept override;
  void post_receive(ConKey, unsigned count, std::uint32_t bytes_each) noexcept override;
  std::size_t post(std::span<const WorkRequest>) noexcept override;
  void disconnect(ConKey key) override { inner_.disconnect(inside(key)); }
  std::string describe(ConKey key) const override { return inner_.describe(inside(key)); }
  DevicePort device_of(ConKey key) const override { return inner_.device_of(inside(key)); }
  std::uint32_t rkey_of(ConKey key, const RemoteKey& remote) noexcept override {
    return inner_.rkey_of(inside(key), remote);
  }
  Result<RemoteKey> make_revocable_key(ConKey key, RegionId region, std::size_t offset,
                                       std::size_t length) override {
    return inner_.make_revocable_key(inside(key), region, offset, length);
  }
  Result<RemoteKey> make_request_key(ConKey key, RegionId region, std::size_t offset,
                                     std::size_t length) override {
    return inner_.make_request_key(inside(key), region, offset, length);
  }
  void invalidate(ConKey key, RemoteKeyId id, std::uint64_t cookie) override {
    inner_.invalidate(inside(key), id, cookie);
  }
  Result<std::uint32_t> rebind(ConKey key, RemoteKeyId id) override { return inner_.rebind(inside(key), id); }

 private:
  struct Asked {
    std::uint64_t number = 0;
    PathAddress to;
    ConnectionParams params;
    CarriedData::Bytes request;
    std::vector<std::pair<unsigned, std::uint32_t>> receives;
  };
  // To answer a challenge, another connection of the inner fabric is opened. This bit is set in its epoch.
  static constexpr std::uint32_t kSecond = 0x4000'0000;
  ConKey inside(ConKey key) const {
    if (second_.count(key.epoch) != 0) key.epoch |= kSecond;
    return key;
  }
  // Returns false if the event must not reach the case.
  bool passes(FabricEvent&);
  bool judged(event::ConnectRequested&);
  bool answered(event::ConnectFailed&);

  std::unique_ptr<keyed::KeyedFabric> owned_;
  CarriedData& carried_;
  std::map<std::uint32_t, Asked> asked_;             // keyed by epoch
  std::set<std::uint32_t> second_;                   // challenged epochs, which have a second attempt
  std::map<std::uint32_t, std::uint64_t> requests_;  // pending requests of peers: request id to number
};

class KeyedPair final : public FabricPair {
 public:
  explicit KeyedPair(std::unique_ptr<FabricPair> inner);
  ~KeyedPair() override;
  Fabric& client() override { return *client_; }
  Fabric& server() override { return *server_; }
  PathAddress listen_address() override { return inner_->listen_address(); }
  PathAddress server_address() override { return inner_->server_address(); }
  PathAddress unused_address() override { return inner_->unused_address(); }
  Nanos now() override { return inner_->now(); }
  bool idle() override { return inner_->idle(); }
  unsigned patience() const override { return inner_->patience(); }
  bool kill_server() override { return inner_->kill_server(); }

 private:
  std::unique_ptr<FabricPair> inner_;
  CarriedData carried_;
  std::unique_ptr<CarrierFabric> client_;
  std::unique_ptr<CarrierFabric> server_;
};

}  // namespace rtrs::conformance
