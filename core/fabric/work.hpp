// What is posted to a fabric, and what it reports.
//
// Which messages RTRS makes of these work requests: protocol section 2.8; in Linux rtrs_post_rdma_write_sg
// and rtrs_post_send_rdma (rtrs-clt.c), rdma_write_sg and send_io_resp_imm (rtrs-srv.c). What the two sides
// do with the completions: rtrs_clt_rdma_done, rtrs_srv_rdma_done.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

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
    write_imm,  // RDMA write with immediate; may be empty
    send,       // SEND of `inline_bytes`
    send_imm,   // SEND of `inline_bytes` with immediate
    send_inv,   // empty SEND that invalidates `rkey` at the peer (protocol section 5.5)
  };
  ConKey key;
  Op op = Op::write;
  std::uint8_t part_count = 0;
  bool signalled =
      false;  // a good completion is reported as send_done; a failed one always as connection_lost
  std::uint32_t imm = 0;  // host order
  std::uint32_t rkey = 0;
  std::uint64_t remote_addr = 0;
  std::uint64_t cookie = 0;
  // The parts' memory must stay unchanged until the work request has completed or the connection is closed.
  std::array<LocalPart, 2> parts{};
  // Copied by the fabric before post() returns.
  std::span<const std::byte> inline_bytes{};
};

struct FabricEvent {
  enum class Kind : std::uint8_t {
    connect_requested,  // request, bytes = private data, address_pair, host
    connected,          // key, bytes = private data of the accept (client only)
    connect_failed,     // key, reason; for Reason::rejected bytes = private data of the reject
    connection_lost,    // key, reason: the first sign; at most one a key
    connection_closed,  // key: the last event of it, only after disconnect(), exactly one
    imm_received,       // key, imm: a write with immediate arrived, its payload is visible
    message_received,   // key, bytes = payload; has_imm and imm for a SEND with immediate
    key_invalidated,    // key, rkey: a SEND_WITH_INV arrived
    send_done,          // key, cookie
    chunk_invalidated,  // key, cookie of invalidate(), ok
  };
  Kind kind = Kind::connect_requested;
  Reason reason = Reason::none;
  bool has_imm = false;
  bool ok = true;
  ConKey key{};
  std::uint32_t imm = 0;
  std::uint32_t rkey = 0;
  std::uint32_t request = 0;
  std::uint32_t address_pair = 0;
  std::uint32_t host = 0;  // digest of the client's address, which limits count by
  std::uint64_t cookie = 0;
  // Owned by the fabric, valid until its next poll().
  std::span<const std::byte> bytes{};
};

}  // namespace rtrs
