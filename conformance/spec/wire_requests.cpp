// Requests and responses on the wire.
#include <algorithm>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/connection.hpp"
#include "conformance/spec/immediate.hpp"
#include "conformance/spec/wire.hpp"

namespace rtrs::spec {

void WireSpec::request(Connection& con, Path& path) {
  if (path.depth == 0) return;
  const std::uint32_t buf_id = request_buf_id(path.depth, event_->imm);
  const std::uint32_t off = request_off(path.depth, event_->imm);
  if (!context().check(
          buf_id < path.depth && off < path.chunk_size, Rule::io_req_target,
          [&] {
            return "a request for chunk " + std::to_string(buf_id) + " with its header at " +
                   std::to_string(off);
          },
          [&] {
            return std::to_string(path.depth) + " chunks of " + std::to_string(path.chunk_size) + " bytes";
          }))
    return;
  if (event_->bytes.empty() && event_->length == 0 && !sent()) {
    // The server recorded no header, because it refused the request without reading the chunk.
    if (PossibleStates<Slot>* slot = slot_of(session_of(path), buf_id)) slot->forget();
    return;
  }
  const std::optional<Request> request = read_header(path, off);
  if (!context().check(
          request.has_value(), Rule::io_req_header,
          [&] {
            return "a request of " + std::to_string(event_->length) +
                   " bytes that does not end with a header at " + std::to_string(off);
          },
          [] { return std::string("a READ header of 8 or 24 bytes or a WRITE header of 4 bytes"); }))
    return;
  check_target(path, *request, buf_id, off);
  if (request->has_buffer)
    context().check(
        request->buffer.len != 0 && request->buffer.len <= path.chunk_size, Rule::io_req_descriptor,
        [&] { return "a READ into " + std::to_string(request->buffer.len) + " bytes"; },
        [&] { return "1 to " + std::to_string(path.chunk_size); });
  take_slot(con, path, *request, buf_id, off);
}

// The RTRS header is at the end of the written bytes. For a WRITE, user data and user header come before it.
std::optional<WireSpec::Request> WireSpec::read_header(const Path& path, std::uint32_t off) const {
  const std::string_view head = event_->bytes;
  const bool tags = agreed(path, kGenerationFlag, kGenerationExtension);
  for (const std::size_t size : {kWriteHeader, kReadHeader + kDescriptorBytes, kReadHeader}) {
    if (head.size() < size) continue;
    const std::string_view header = head.substr(head.size() - size);
    Request request;
    const std::uint16_t word = u16_at(header, 0);
    const std::uint16_t type = tags ? word & 0xff : word;
    request.generation = tags ? static_cast<std::uint8_t>(word >> 8) : std::uint8_t{0};
    request.usr_len = u16_at(header, 2);
    request.header = static_cast<std::uint32_t>(size);
    request.reads = size != kWriteHeader;
    if (type != (request.reads ? kRead : kWrite) || request.usr_len > off) continue;
    if (!request.reads && event_->length != off + size) continue;
    if (request.reads) {
      const std::uint16_t count = u16_at(header, 6);
      if (count != (size == kReadHeader ? 0 : 1) || event_->length != request.usr_len + size) continue;
      request.has_buffer = count == 1;
      request.need_invalidate = request.has_buffer && (u16_at(header, 4) & 1) != 0;
      if (request.has_buffer)
        request.buffer = {number_at(header, kReadHeader, 8), u32_at(header, kReadHeader + 8),
                          u32_at(header, kReadHeader + 12)};
    }
    return request;
  }
  return std::nullopt;
}

void WireSpec::check_target(const Path& path, const Request& request, std::uint32_t buf_id,
                            std::uint32_t off) {
  // Only the sender's notes and captures contain the target address.
  if (event_->rkey == 0 || buf_id >= path.chunks.size()) return;
  const Buffer& chunk = path.chunks[buf_id];
  const std::uint64_t end = chunk.addr + off + request.header;
  context().check(
      event_->remote_addr >= chunk.addr && event_->remote_addr + event_->length == end &&
          end <= chunk.addr + chunk.len,
      Rule::io_req_target,
      [&] {
        return std::to_string(event_->length) + " bytes written at " + std::to_string(event_->remote_addr);
      },
      [&] {
        return "an end at " + std::to_string(end) + " in chunk " + std::to_string(buf_id) + ", which is " +
               std::to_string(chunk.len) + " bytes at " + std::to_string(chunk.addr);
      });
  // A trace without the set-up messages does not show the chunk's present key: a fresh key may have arrived
  // on any connection of the path.
  context().check(
      event_->rkey == chunk.key || path.partial, Rule::io_req_key,
      [&] { return "key " + std::to_string(event_->rkey); },
      [&] { return "key " + std::to_string(chunk.key) + " of chunk " + std::to_string(buf_id); });
}

void WireSpec::take_slot(Connection& con, Path& path, const Request& request, std::uint32_t buf_id,
                         std::uint32_t off) {
  PossibleStates<Slot>* slot = slot_of(session_of(path), buf_id);
  if (slot == nullptr) return;
  if (path.partial) return slot->forget();
  Slot taken;
  taken.phase = Phase::under_way;
  taken.generation = request.generation;
  taken.reads = request.reads;
  taken.has_buffer = request.has_buffer;
  taken.need_invalidate = request.need_invalidate;
  taken.buffer = request.buffer;
  taken.path = path.number;
  taken.key = con.key;
  rnbd_request(path, request, off, taken);
  // A request of another incarnation may have ended without a message, because the client drained that path;
  // only the trace of the client shows this. The server may answer the old request as long as that
  // incarnation exists. The slot then has several possible states, each with a different request.
  const bool strict = of_->machine && of_->client;
  const bool free = slot->all([&](const Slot& state) {
    return state.phase == Phase::idle || (!strict && state.path != path.number);
  });
  if (!slot->anything() && !free) {
    const Key& former = slot->states().front().key;
    report(Rule::io_req_slot, former, "a second request in chunk " + std::to_string(buf_id),
           "nothing in this chunk before the response to the request of " + to_string(former));
  }
  if (slot->anything() || strict || !slot->keep([&](const Slot& state) {
        return state.phase == Phase::under_way && state.path != path.number;
      }))
    slot->set(taken);
  else
    slot->also(taken);
  context().findings.ambiguity(slot->size());
}

// Data that a response carries is checked like a separate RDMA write.
void WireSpec::response_form(Connection& con, Path& path, bool has_key) {
  const bool keyed = (path.flags & kNewRkeyFlag) != 0;
  const bool joins = path.open || agreed(path, kDataWithAnswerFlag, kDataWithAnswerExtension);
  context().check(
      has_key ? keyed && event_->length == kRkeyRspBytes
              : (!keyed || joins) && event_->op == WireOp::write_imm && (event_->length == 0 || joins),
      Rule::io_rsp_form,
      [&] { return std::string(name_of(event_->op)) + " of " + std::to_string(event_->length) + " bytes"; },
      [&] {
        return std::string(keyed && joins ? "SEND_WITH_IMM of RKEY_RSP, or WRITE_WITH_IMM for a READ"
                           : keyed        ? "SEND_WITH_IMM of RKEY_RSP"
                           : joins        ? "WRITE_WITH_IMM"
                                          : "WRITE_WITH_IMM of length 0");
      });
  if (joins && event_->op == WireOp::write_imm && event_->length != 0) {
    of_->sees_data = true;
    data(con, path);
  }
}

void WireSpec::response(Connection& con, Path& path) {
  if (path.partial) return;  // the negotiated response format is unknown
  const RuleContext at = context();
  const std::string_view bytes = event_->bytes;
  const bool has_key =
      event_->op == WireOp::send_imm && bytes.size() >= kRkeyRspBytes && u16_at(bytes, 0) == kRkeyRsp;
  response_form(con, path, has_key);
  if (path.depth == 0) return;
  std::uint32_t id = response_id(event_->imm);
  std::uint32_t tag = 0;
  const bool tags = agreed(path, kGenerationFlag, kGenerationExtension);
  if (tags) {
    tag = id >> log2up(path.depth);
    id &= (1U << log2up(path.depth)) - 1;
  }
  if (!at.check(
          id < path.depth, Rule::io_rsp_id, [&] { return "message id " + std::to_string(id); },
          [&] { return "ids below " + std::to_string(path.depth); }))
    return;
  if (has_key) {
    at.check(u16_at(bytes, 2) == id, Rule::io_rsp_id, "RKEY_RSP for another chunk than its immediate",
             "the buf_id of the immediate");
    if (id < path.chunks.size()) path.chunks[id].key = u32_at(bytes, 4);
  }
  PossibleStates<Slot>& slot = *slot_of(session_of(path), id);
  if (slot.anything()) return slot.set(Slot{});
  const auto asked = std::find_if(slot.states().begin(), slot.states().end(), [&](const Slot& state) {
    return state.phase == Phase::under_way && state.path == path.number;
  });
  const bool known = asked != slot.states().end();
  const Slot state = known ? *asked : Slot{};
  at.check(
      known, Rule::io_rsp_known, [&] { return "a response for chunk " + std::to_string(id); },
      [] { return std::string("one response to each request of this incarnation"); });
  if (!known) return;
  at.check(
      state.key == con.key, Rule::io_rsp_connection, [&] { return "a response over " + to_string(con.key); },
      [&] { return to_string(state.key); });
  if (tags)
    at.check(
        tag == (state.generation & ((1U << generation_bits(path.depth)) - 1)), Rule::io_rsp_id,
        [&] { return "generation " + std::to_string(tag); },
        [&] { return std::to_string(state.generation) + " of the request"; });
  const bool keyless = (path.flags & kNewRkeyFlag) != 0 && !has_key;
  at.check(!keyless || state.reads, Rule::io_rsp_form, "a WRITE is answered without a fresh key",
           "SEND_WITH_IMM of RKEY_RSP");
  check_response(path, state);
  rnbd_response(path, state, static_cast<std::uint16_t>(response_errno(event_->imm)));
  if (!slot.keep([&](const Slot& other) { return other.path != path.number; })) slot.set(Slot{});
}

void WireSpec::check_response(const Path& path, const Slot& slot) {
  const bool claims = imm_type(event_->imm) == kIoRspInv;
  context().check(
      claims == slot.invalidated, Rule::io_rsp_invalidate,
      claims ? "type 2 without a SEND_WITH_INV of the offered key" : "type 1 after a SEND_WITH_INV",
      slot.invalidated ? "type 2" : "type 1");
  // A server may be configured not to send invalidations, because its clients do not need them.
  const bool told = of_->machine && !of_->client && !of_->settings.send_invalidate;
  const bool left = slot.need_invalidate && !slot.invalidated;
  context().check(
      !left || told || path.open || agreed(path, kKeysStayFlag, kKeysStayExtension), Rule::io_rsp_key_left,
      "the key of a READ with NEED_INVAL is left to the client: a kernel client before 6.12 hangs",
      "SEND_WITH_INV of the offered key first");
  if (!of_->sees_data) return;
  // A request with an empty buffer expects no data.
  const bool failed = response_errno(event_->imm) != 0;
  const bool missing = !failed && slot.has_buffer && slot.buffer.len != 0 && !slot.data_written;
  context().check(
      !missing && !(failed && slot.data_written), Rule::io_rsp_data,
      missing ? "a READ is answered and its data was not written" : "a READ failed and data was written",
      missing ? "RDMA WRITE of the data first" : "no data");
}

void WireSpec::data(Connection& con, Path& path) {
  bool known = false, open = path.open;
  for (PossibleStates<Slot>& slot : session_of(path).slots) {
    open = open || slot.anything();
    slot.step([&](Slot state, auto& next) {
      const bool its = state.phase == Phase::under_way && state.key == con.key && state.has_buffer &&
                       state.buffer.key == event_->rkey && state.buffer.addr == event_->remote_addr &&
                       event_->length <= state.buffer.len;
      if (its) known = state.data_written = true;
      next.push_back(state);
    });
  }
  context().check(
      known || open, Rule::io_rsp_data,
      [&] {
        return std::to_string(event_->length) + " bytes written at " + std::to_string(event_->remote_addr) +
               " with key " + std::to_string(event_->rkey);
      },
      [] { return std::string("the buffer of a READ that is under way on this connection"); });
}

void WireSpec::invalidation(Connection& con, Path& path) {
  bool known = false, open = path.open;
  for (PossibleStates<Slot>& slot : session_of(path).slots) {
    open = open || slot.anything();
    slot.step([&](Slot state, auto& next) {
      const bool its = state.phase == Phase::under_way && state.key == con.key && state.need_invalidate &&
                       (event_->rkey == 0 || state.buffer.key == event_->rkey);
      if (its && !known) known = state.invalidated = true;
      next.push_back(state);
    });
  }
  context().check(
      known || open, Rule::io_rsp_invalidate,
      [&] { return "SEND_WITH_INV of key " + std::to_string(event_->rkey); },
      [] { return std::string("a key that a READ under way on this connection offered with NEED_INVAL"); });
}

}  // namespace rtrs::spec
