// Interface of a backend. One thread and one driver own a fabric, because poll() takes all events and two
// drivers could choose equal keys. No call waits for a peer, and a fabric makes no callbacks.
//
// A connection is identified by its ConKey, which the caller chooses and never reuses. Every key given to
// connect() or accept() ends with exactly one ConnectionClosed event. That event comes only after
// disconnect(key), when no work request of the connection is outstanding and the fabric uses none of its
// memory. Events of one connection are reported in order; events of different connections are unordered.
// After ConnectionClosed the fabric reports nothing more for that key.
//
// In Linux this is the kernel's verbs interface, which rtrs.c wraps (rtrs_cq_qp_create, rtrs_iu_post_recv,
// rtrs_iu_post_send, rtrs_iu_post_rdma_write_imm, rtrs_post_rdma_write_imm_empty), and rdma_cm
// (rtrs_clt_rdma_cm_handler, rtrs_srv_rdma_cm_handler).
//   protocol section 1.2   depth of the queues (ConnectionParams)
//   protocol section 3.6   events after a connection is established
//   protocol section 10.1  replacements for the facilities of the kernel
//   protocol section 10.4  capabilities of providers (Capabilities)
// docs/fabric.md lists each guarantee of this interface with its test.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "core/fabric/capabilities.hpp"
#include "core/fabric/work.hpp"
#include "core/proto/errc.hpp"
#include "core/proto/ids.hpp"

namespace rtrs {

template <class T>
using Result = tl::expected<T, Errc>;

// Addresses of a path. `source` may be empty (any local address). Forms: "ip:10.0.0.1", "10.0.0.1", "ip:::1",
// a host name if the fabric resolves names; the simulated fabric accepts node and port numbers.
struct PathAddress {
  std::string source;
  std::string destination;
  std::uint16_t port = 1234;
  bool operator==(const PathAddress&) const = default;  // compares the text: "::1" differs from "0::1"
};

struct ConnectionParams {
  std::uint32_t send_depth = 0;     // maximum number of outstanding work requests
  std::uint32_t receive_depth = 0;  // maximum number of posted receives
  std::uint32_t key_depth = 0;  // maximum number of keys that may be created or invalidated at the same time
  // accept(): private data of the reject that is sent if the resources of the connection cannot be allocated.
  // In this case the fabric reports the connection as lost.
  std::span<const std::byte> refusal{};
  // connect(), where the destination is a host name: index of the address to use, modulo their number
  // (event::AddressesFound). Used only for con 0 of a path and epoch; the other connections of that epoch use
  // the same address.
  std::uint16_t address = 0;
};

// Memory that the fabric can send from and receive into, and that peers can be allowed to write to.
struct Region {
  RegionId id = kNoRegion;
  std::span<std::byte> bytes{};
};

// A key under which a peer may write to a part of a region.
using RemoteKeyId = std::uint32_t;
inline constexpr RemoteKeyId kNoRemoteKey = ~RemoteKeyId{0};
struct RemoteKey {
  RemoteKeyId id = kNoRemoteKey;
  std::uint32_t rkey = 0;
  std::uint64_t remote_addr = 0;  // address to which the peer writes the first byte
};

// Device of a connection; in Linux hca_name and hca_port of a path (protocol section 8).
struct DevicePort {
  std::string name;       // "mlx5_0", "rxe0", or the provider ("tcp"); empty: not known
  std::uint8_t port = 0;  // port number, from 1
  std::string posting{};  // function that posts: "wr" (ibv_wr_*()) or "send" (ibv_post_send()); else empty
};

// All functions are pure, so that a new one must be added to every backend and decorator. A decorator derives
// from ForwardingFabric, a backend with few capabilities from PlainFabric.
class Fabric {
 public:
  virtual ~Fabric() = default;
  // Capabilities of the fabric. If the fabric spans several devices, the capabilities of a connection may
  // differ.
  virtual const Capabilities& capabilities() const noexcept = 0;

  // --- memory (set-up calls; may allocate) ---
  // Allocates zeroed memory and registers it. Owned by the fabric until release().
  virtual Result<Region> allocate(std::size_t bytes) = 0;
  // Registers the caller's memory, which must outlive the region.
  virtual Result<Region> register_memory(std::span<std::byte> memory) = 0;
  virtual void release(RegionId) = 0;
  // Memory of a region; valid until release().
  std::span<std::byte> bytes(RegionId id) const noexcept { return regions_[id]; }

  // Lets peers write to [offset, offset + length) of the region.
  virtual Result<RemoteKey> make_key(RegionId, std::size_t offset, std::size_t length) = 0;
  virtual void release_key(RemoteKeyId) = 0;
  // Returns the rkey of a remote key for the peer of this connection. If a fabric spans several devices, each
  // device has its own keys, created on first use; a connection whose device has no room for a key is lost.
  // With a single device, RemoteKey::rkey is valid everywhere.
  virtual std::uint32_t rkey_of(ConKey, const RemoteKey&) noexcept = 0;
  // Like make_key(), but invalidate() can revoke the key. Valid for the peers of all connections of the path
  // of `key`, which must be connected, and for work requests posted on `key` from now on.
  virtual Result<RemoteKey> make_revocable_key(ConKey, RegionId, std::size_t offset, std::size_t length) = 0;
  // Creates a key for one request that is posted on `key` afterwards. The peer may invalidate it by
  // SEND_WITH_INV. Free it with release_key(). Needs capability `per_io_keys`.
  virtual Result<RemoteKey> make_request_key(ConKey, RegionId, std::size_t offset, std::size_t length) = 0;
  // Invalidates a revocable remote key; reported as ChunkInvalidated{key, cookie}. Needs capability
  // `invalidation`. On a connection that is not up, or is lost before the key is dead, the event may be
  // missing: after the end of its connection, the peer cannot use the key.
  virtual void invalidate(ConKey, RemoteKeyId, std::uint64_t cookie) = 0;
  // Gives an invalidated remote key a new rkey that differs from its last 50, valid for work requests posted
  // on `key` from now on. `docs/fabric.md` says after how many calls an rkey can repeat.
  virtual Result<std::uint32_t> rebind(ConKey, RemoteKeyId) = 0;

  // --- connections ---
  virtual Errc listen(const PathAddress& local) = 0;
  // Port of the last successful listen(), for a listen() on port 0; 0 if the fabric has no ports.
  virtual std::uint16_t listening_port() const noexcept = 0;
  // Leads to Connected or ConnectFailed. If the peer does not answer, the network determines how long this
  // takes, up to many minutes. disconnect() ends the attempt earlier, as core/proto does after
  // ClientConfig::connect_timeout.
  virtual void connect(ConKey, const PathAddress&, const ConnectionParams&,
                       std::span<const std::byte> private_data) = 0;
  // Receives may be posted right after accept(), and are in place before the peer receives the accept.
  virtual void accept(std::uint32_t request, ConKey, const ConnectionParams&,
                      std::span<const std::byte> private_data) = 0;
  virtual void reject(std::uint32_t request, std::span<const std::byte> private_data) = 0;
  virtual void disconnect(ConKey) = 0;
  // Describes the connection for logs: "1.2.3.4:5 > 1.2.3.4:1234".
  virtual std::string describe(ConKey) const = 0;
  virtual DevicePort device_of(ConKey) const = 0;
  // Returns describe() of a connect request that was neither accepted nor rejected; empty if the fabric does
  // not know the addresses.
  virtual std::string describe_request(std::uint32_t request) const = 0;
  // Capabilities of a connection made from this request; fewer than capabilities() if its device supports
  // less.
  virtual const Capabilities& capabilities_of_request(std::uint32_t request) const noexcept = 0;
  // Name whose digest is event::ConnectRequested::identity of this request: at most 128 characters of A-Z a-z
  // 0-9 . _ : @ -. Empty if the request has no identity.
  virtual std::string identity_of_request(std::uint32_t request) const = 0;
  // Text that explains event::ConnectRequested::refusal of this request; empty if there is none.
  virtual std::string refusal_of_request(std::uint32_t /*request*/) const { return {}; }

  // --- IO path: no allocation, no blocking ---
  // `bytes_each` may be 0 for receives that only immediates and empty SENDs consume.
  virtual void post_receive(ConKey, unsigned count, std::uint32_t bytes_each) noexcept = 0;
  // Accepts the first requests of the span and returns their number; 0 means try again after the next poll().
  // Accepts and discards work requests of a connection whose ConnectionLost is pending or was reported.
  virtual std::size_t post(std::span<const WorkRequest>) noexcept = 0;
  // Makes progress and returns events.
  virtual std::size_t poll(Nanos now, std::span<FabricEvent>) noexcept = 0;

  // Sleeping: returns a descriptor that becomes readable when poll() has work to do; -1 if there is none.
  virtual int wait_fd() const noexcept = 0;
  // Returns true if it is safe to sleep on wait_fd() because nothing is pending.
  virtual bool try_wait() noexcept = 0;

 protected:
  std::vector<std::span<std::byte>> regions_;  // indexed by RegionId
};

}  // namespace rtrs
