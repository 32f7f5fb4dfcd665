// Notes of wire traffic as one side saw it, for display, for `check` and for conversion to packets (`pcap`).
// Notes are not inputs of a state machine, so replay skips them. A trace made from a capture consists of
// notes only.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/base/reflect.hpp"
#include "core/proto/ids.hpp"
#include "core/wire/bytes.hpp"

namespace rtrs::trace {

enum class WireOp : std::uint8_t { write, write_imm, send, send_imm, send_inv };
const char* to_string(WireOp) noexcept;

enum class WireCmKind : std::uint8_t {
  req,     // connect request
  rep,     // accept
  rej,     // reject
  dreq,    // one side disconnects
  closed,  // the connection has no outstanding work any more
};
const char* to_string(WireCmKind) noexcept;

// Payloads are stored in two parts. `head` is the part that a state machine or RNBD parses: the message of a
// SEND; the user header and RTRS header of a request, which follow the data. `digest` is content_digest() of
// the data, which is before `head` (writes) or after it (SENDs longer than kMaxHead); 0: no data. If whole
// payloads are recorded, `head` also contains the data, or as much of its end as fits in kMaxHead.
inline constexpr std::size_t kMaxHead = 60 * 1024;

// Message that this side posted to its fabric; possibly it never reached the wire.
struct WireSent {
  Nanos now = 0;
  ConKey key;
  WireOp op = WireOp::write;
  bool has_imm = false;
  std::uint32_t imm = 0;   // immediate in host byte order, as in core/wire/imm.hpp
  std::uint32_t rkey = 0;  // write: key of the target; send_inv: key to invalidate; else 0
  std::uint64_t remote_addr = 0;
  std::uint32_t length = 0;  // size of the whole payload in bytes
  std::uint64_t digest = 0;
  wire::Bytes head;  // recorded part of the payload, borrowed
  RTRS_FIELDS(now, key, op, has_imm, imm, rkey, remote_addr, length, digest, head)
};

// Message that this side received. `rkey` and `remote_addr` are 0 if this side cannot know them. Writes
// without immediate are not seen; only the server sees the payload of writes with immediate. When a READ
// completes, a client records its data as a write without immediate, rkey and address.
struct WireReceived {
  Nanos now = 0;
  ConKey key;
  WireOp op = WireOp::write;
  bool has_imm = false;
  std::uint32_t imm = 0;
  std::uint32_t rkey = 0;
  std::uint64_t remote_addr = 0;
  std::uint32_t length = 0;
  std::uint64_t digest = 0;
  wire::Bytes head;
  RTRS_FIELDS(now, key, op, has_imm, imm, rkey, remote_addr, length, digest, head)
};

// Connection management. If a connect request leads to no connection, only `key.con` is known and epoch is 0.
struct WireCm {
  Nanos now = 0;
  ConKey key;
  WireCmKind kind = WireCmKind::req;
  bool sent = false;         // false: received
  wire::Bytes private_data;  // private data of the connect request, accept or reject; borrowed
  RTRS_FIELDS(now, key, kind, sent, private_data)
};

// Packets of one direction were sent but are missing in the capture. Their content is unknown, so later
// findings on this connection are uncertain. Occurs only in traces made from captures.
struct WireGap {
  Nanos now = 0;
  ConKey key;
  bool sent = false;  // the missing packets were sent by this side
  std::uint64_t packets = 0;
  RTRS_FIELDS(now, key, sent, packets)
};

}  // namespace rtrs::trace
