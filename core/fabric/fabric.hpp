// The interface of a backend. One thread and one driver own a fabric: poll() takes all events, and two
// drivers could choose equal keys. No call waits for a peer, and a fabric makes no callbacks.
//
// A connection is named by its ConKey, which the caller chooses and never reuses. Whatever happens, a key
// given to connect() or accept() ends with exactly one ConnectionClosed event, which comes only after
// disconnect(key) and only when no work request of the connection is outstanding and none of its memory is in
// use by the fabric. Events of one connection are reported in order; there is no order between connections.
// After ConnectionClosed nothing is ever reported for that key again.
//
// In Linux this is the kernel's verbs interface, which rtrs.c wraps (rtrs_cq_qp_create, rtrs_iu_post_recv,
// rtrs_iu_post_send, rtrs_iu_post_rdma_write_imm, rtrs_post_rdma_write_imm_empty), and rdma_cm
// (rtrs_clt_rdma_cm_handler, rtrs_srv_rdma_cm_handler).
//   protocol section 1.2   depth of the queues (ConnectionParams)
//   protocol section 3.6   events after a connection is established
//   protocol section 10.1  what replaces the facilities of the kernel
//   protocol section 10.4  what providers can do (Capabilities)
// docs/fabric.md lists every promise made here with the test that holds it.
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

// Where a path leads. `source` may be empty (any local address). Forms: "ip:10.0.0.1", "10.0.0.1", "ip:::1",
// a host name where the fabric resolves names; the simulated fabric takes node and port numbers.
struct PathAddress {
  std::string source;
  std::string destination;
  std::uint16_t port = 1234;
  bool operator==(const PathAddress&) const = default;  // of the words: "::1" is not "0::1"
};

struct ConnectionParams {
  std::uint32_t send_depth = 0;     // work requests that may be outstanding
  std::uint32_t receive_depth = 0;  // receives that may be posted
  std::uint32_t key_depth = 0;      // keys that may be made or killed on the connection at a time
  // accept(): private data of a reject, sent where what the connection needs cannot be had. The key then ends
  // as that of a lost connection.
  std::span<const std::byte> refusal{};
  // connect(), where the destination is a host name: index of the address to use, modulo their number
  // (event::AddressesFound). Only con 0 of a path and epoch chooses; the other connections of that epoch go
  // to the same address.
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
  std::uint64_t remote_addr = 0;  // of the first byte
};

// What a connection goes through: in Linux hca_name and hca_port of a path (protocol section 8).
struct DevicePort {
  std::string name;       // "mlx5_0", "rxe0", or the provider ("tcp"); empty: not known
  std::uint8_t port = 0;  // from 1
  std::string posting{};  // "wr": by ibv_wr_*(), "send": by ibv_post_send(); empty: not verbs
};

// Everything is pure, so that a new function reaches every backend and every decorator: one that stands in
// front of another fabric derives from ForwardingFabric, one that can do little from PlainFabric.
class Fabric {
 public:
  virtual ~Fabric() = default;
  // Of a fabric of several devices: what one of them can. Their connections may differ.
  virtual const Capabilities& capabilities() const noexcept = 0;

  // --- memory (set-up calls; may allocate) ---
  // Allocates zeroed memory and registers it. Owned by the fabric until release().
  virtual Result<Region> allocate(std::size_t bytes) = 0;
  // Registers memory of the caller, which must outlive the region.
  virtual Result<Region> register_memory(std::span<std::byte> memory) = 0;
  virtual void release(RegionId) = 0;
  // Memory of a region; valid until release().
  std::span<std::byte> bytes(RegionId id) const noexcept { return regions_[id]; }

  // Lets peers write to [offset, offset + length) of the region.
  virtual Result<RemoteKey> make_key(RegionId, std::size_t offset, std::size_t length) = 0;
  virtual void release_key(RemoteKeyId) = 0;
  // The key of a remote key for the peer of this connection: where a fabric spans several devices, each has
  // keys of its own, made when they are asked for; a connection whose device has no room for them is lost.
  // RemoteKey::rkey is good where there is only one.
  virtual std::uint32_t rkey_of(ConKey, const RemoteKey&) noexcept = 0;
  // The same as make_key() with a key that invalidate() can kill, for the peers of all connections of the
  // path of `key`, which must be up. The key is valid for whatever is posted on `key` from now on.
  virtual Result<RemoteKey> make_revocable_key(ConKey, RegionId, std::size_t offset, std::size_t length) = 0;
  // A key for one request that is posted on `key` after this, which the peer may kill by SEND_WITH_INV. Ends
  // with release_key(). Needs capability `per_io_keys`.
  virtual Result<RemoteKey> make_request_key(ConKey, RegionId, std::size_t offset, std::size_t length) = 0;
  // Makes the key of a revocable remote key dead; reported as ChunkInvalidated{key, cookie}. Needs
  // capability `invalidation`.
  virtual void invalidate(ConKey, RemoteKeyId, std::uint64_t cookie) = 0;
  // Gives a dead remote key a key that is none of its last 50, valid for whatever is posted on `key` from now
  // on. docs/fabric.md says after how many it may be one that it had.
  virtual Result<std::uint32_t> rebind(ConKey, RemoteKeyId) = 0;

  // --- connections ---
  virtual Errc listen(const PathAddress& local) = 0;
  // Port of the last successful listen(), for a listen() on port 0; 0 where there are no ports.
  virtual std::uint16_t listening_port() const noexcept = 0;
  // Answered by Connected or ConnectFailed. The network decides how long that takes where the peer does not
  // answer; with some it is many minutes. disconnect() ends it earlier, as core/proto does after
  // ClientConfig::connect_timeout.
  virtual void connect(ConKey, const PathAddress&, const ConnectionParams&,
                       std::span<const std::byte> private_data) = 0;
  // Receives may be posted right after accept(), and are in place before the peer learns of it.
  virtual void accept(std::uint32_t request, ConKey, const ConnectionParams&,
                      std::span<const std::byte> private_data) = 0;
  virtual void reject(std::uint32_t request, std::span<const std::byte> private_data) = 0;
  virtual void disconnect(ConKey) = 0;
  // "1.2.3.4:5 > 1.2.3.4:1234" for logs.
  virtual std::string describe(ConKey) const = 0;
  virtual DevicePort device_of(ConKey) const = 0;
  // describe() of a connect request that was neither accepted nor rejected; empty where the fabric cannot
  // tell.
  virtual std::string describe_request(std::uint32_t request) const = 0;
  // What a connection of such a request can: less than capabilities() where its device can less than another.
  virtual const Capabilities& capabilities_of_request(std::uint32_t request) const noexcept = 0;
  // The name behind event::ConnectRequested::identity of such a request: at most 128 of A-Z a-z 0-9 . _ : @
  // -. Empty where the identity is none.
  virtual std::string identity_of_request(std::uint32_t request) const = 0;
  // What lies behind event::ConnectRequested::refusal of such a request, in words; empty where nothing does.
  virtual std::string refusal_of_request(std::uint32_t /*request*/) const { return {}; }

  // --- IO path: no allocation, no blocking ---
  // `bytes_each` may be 0 for receives that only immediates and empty SENDs consume.
  virtual void post_receive(ConKey, unsigned count, std::uint32_t bytes_each) noexcept = 0;
  // Accepts a prefix and returns its length; 0 means try again after the next poll(). Accepts and discards
  // work requests of a connection whose ConnectionLost is pending or was reported.
  virtual std::size_t post(std::span<const WorkRequest>) noexcept = 0;
  // Makes progress and reports what happened.
  virtual std::size_t poll(Nanos now, std::span<FabricEvent>) noexcept = 0;

  // --- sleeping ---
  // A descriptor that becomes readable when poll() has something to do; -1 where there is none.
  virtual int wait_fd() const noexcept = 0;
  // True when it is safe to sleep on wait_fd(): nothing is pending.
  virtual bool try_wait() noexcept = 0;

 protected:
  std::vector<std::span<std::byte>> regions_;  // by RegionId
};

}  // namespace rtrs
