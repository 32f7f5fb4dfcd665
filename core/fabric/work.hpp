// Work requests that are posted to a fabric, and the events that it reports.
//
// Protocol section 2.8 describes the RTRS messages made from these work requests. Linux posts them in
// rtrs_post_rdma_write_sg and rtrs_post_send_rdma (rtrs-clt.c), rdma_write_sg and send_io_resp_imm
// (rtrs-srv.c), and handles completions in rtrs_clt_rdma_done and rtrs_srv_rdma_done.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <variant>

#include "core/proto/errc.hpp"
#include "core/proto/ids.hpp"

namespace rtrs {

// Registered memory, by handle. Handles are small, dense and reused only after release().
using RegionId = std::uint32_t;
inline constexpr RegionId kNoRegion = ~RegionId{0};

struct LocalPart {
  RegionId region = kNoRegion;
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
};

struct WorkRequest {
  enum class Op : std::uint8_t {
    write,      // RDMA write
    write_imm,  // RDMA write with immediate; may have no data
    send,       // SEND of `inline_bytes`
    send_imm,   // SEND of `inline_bytes` with immediate
    send_inv,   // empty SEND that invalidates `rkey` at the peer (protocol section 5.5)
  };
  ConKey key{};
  Op op = Op::write;
  std::uint8_t part_count = 0;
  // A good completion is reported as SendDone; a failed one is always reported as ConnectionLost.
  bool signalled = false;
  std::uint32_t imm = 0;  // in host byte order
  std::uint32_t rkey = 0;
  std::uint64_t remote_addr = 0;
  std::uint64_t cookie = 0;
  // The parts' memory must stay unchanged until the work request has completed or the connection is closed.
  std::array<LocalPart, 2> parts{};
  // The fabric copies these bytes before post() returns.
  std::span<const std::byte> inline_bytes{};
};

// Events of a fabric, one struct per event, in the past tense. The fabric owns the bytes; they are valid
// until its next poll().
namespace event {

struct ConnectRequested {
  std::uint32_t request = 0;
  std::uint32_t address_pair = 0;  // equal for connections between the same two addresses
  std::uint32_t host = 0;          // digest of the client's address; limits are counted per host
  std::span<const std::byte> private_data{};
  PeerIdentity identity{};  // identity of the client, if the fabric has authenticated the client
  // Reason for which the fabric rejects the client, or none. The caller rejects the request with EACCES
  // before any other check.
  Reason refusal = Reason::none;
};
// Client only, before Connected and ConnectFailed, and only for the first connection of an attempt: the
// destination is a host name with several addresses. ConnectionParams::address selects the address.
struct AddressesFound {
  ConKey key{};
  std::uint16_t count = 0;  // number of addresses, at least 2
};
// Reported to a client only.
struct Connected {
  ConKey key{};
  std::span<const std::byte> private_data{};  // private data of the accept
};
struct ConnectFailed {
  ConKey key{};
  Reason reason = Reason::none;
  std::span<const std::byte> private_data{};  // private data of the reject, for Reason::rejected
};
// First sign that the connection is lost; at most one per key.
struct ConnectionLost {
  ConKey key{};
  Reason reason = Reason::none;
};
// Last event of the key: exactly one, and only after disconnect().
struct ConnectionClosed {
  ConKey key{};
};
// A write with immediate arrived; its payload is visible.
struct ImmReceived {
  ConKey key{};
  std::uint32_t imm = 0;
};
// A SEND arrived.
struct MessageReceived {
  ConKey key{};
  std::optional<std::uint32_t> imm;  // if the peer sent a SEND with immediate
  std::span<const std::byte> payload{};
};
// A SEND_WITH_INV arrived.
struct KeyInvalidated {
  ConKey key{};
  std::uint32_t rkey = 0;
};
// A signalled work request has completed.
struct SendDone {
  ConKey key{};
  std::uint64_t cookie = 0;
};
// invalidate() has completed.
struct ChunkInvalidated {
  ConKey key{};
  std::uint64_t cookie = 0;  // the cookie that was passed to invalidate()
  bool ok = true;
};

}  // namespace event

// At most eleven alternatives, because g++ 12 compiles std::visit to a switch only up to that number.
using FabricEvent =
    std::variant<event::ImmReceived, event::MessageReceived, event::SendDone, event::ConnectRequested,
                 event::Connected, event::ConnectFailed, event::ConnectionLost, event::ConnectionClosed,
                 event::KeyInvalidated, event::ChunkInvalidated, event::AddressesFound>;
static_assert(std::is_trivially_copyable_v<FabricEvent> && std::variant_size_v<FabricEvent> <= 11);

namespace event {

// Returns the key of the event's connection; null for a connect request, which has no key yet.
inline const ConKey* key_of(const FabricEvent& event) noexcept {
  return std::visit(
      [](const auto& one) -> const ConKey* {
        if constexpr (requires { one.key; })
          return &one.key;
        else
          return nullptr;
      },
      event);
}
inline bool is_of(const FabricEvent& event, const ConKey& key) noexcept {
  const ConKey* const its = key_of(event);
  return its != nullptr && *its == key;
}

// Returns a pointer to the span of the peer's bytes in the event; null if the event has none.
inline std::span<const std::byte>* bytes_in(FabricEvent& event) noexcept {
  return std::visit(
      [](auto& one) -> std::span<const std::byte>* {
        if constexpr (requires { one.private_data; })
          return &one.private_data;
        else if constexpr (requires { one.payload; })
          return &one.payload;
        else
          return nullptr;
      },
      event);
}

}  // namespace event

}  // namespace rtrs
