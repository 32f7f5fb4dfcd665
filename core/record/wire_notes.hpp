// Notes of wire traffic, as one side saw it. They are no inputs of a machine and replay skips them. They
// serve for display, for `check` and for conversion to packets (`pcap`). A trace made from a capture consists
// of notes only.
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
  closed,  // nothing of the connection is outstanding any more
};
const char* to_string(WireCmKind) noexcept;

// Payloads are kept in two parts. `head` is what a machine or RNBD parses: of SENDs the message, of requests
// the user header and the RTRS header, which stand behind the data. `digest` is content_digest() of the data,
// which is what stands before `head` (writes) or after it (SENDs longer than kMaxHead); 0 when there is none.
// Recorded with whole payloads, `head` also holds the data, or as much of its end as kMaxHead leaves room
// for.
inline constexpr std::size_t kMaxHead = 60 * 1024;

// Message that this side posted to its fabric. It may not have reached the wire.
struct WireSent {
  Nanos now = 0;
  ConKey key;
  WireOp op = WireOp::write;
  bool has_imm = false;
  std::uint32_t imm = 0;   // host order, as core/wire/imm.hpp uses it
  std::uint32_t rkey = 0;  // of writes: where to; of send_inv: which one is to die; else 0
  std::uint64_t remote_addr = 0;
  std::uint32_t length = 0;  // bytes of the whole payload
  std::uint64_t digest = 0;
  wire::Bytes head;  // borrowed
  RTRS_FIELDS(now, key, op, has_imm, imm, rkey, remote_addr, length, digest, head)
};

// Message that this side received. `rkey` and `remote_addr` are 0 if this side cannot know them. Writes
// without immediate are not seen; only the server sees the payload of writes with immediate.
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
  bool sent = false;         // else received
  wire::Bytes private_data;  // borrowed
  RTRS_FIELDS(now, key, kind, sent, private_data)
};

// Only in traces made from captures: packets of one direction were sent but are missing in the capture. Their
// content is unknown, so later findings on this connection are uncertain.
struct WireGap {
  Nanos now = 0;
  ConKey key;
  bool sent = false;  // the missing packets were sent by this side
  std::uint64_t packets = 0;
  RTRS_FIELDS(now, key, sent, packets)
};

}  // namespace rtrs::trace
