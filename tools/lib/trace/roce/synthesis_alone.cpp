// Generates the frames of connections of which only one end was recorded.
#include <algorithm>
#include <utility>

#include "core/wire/imm.hpp"
#include "tools/lib/trace/roce/synthesis.hpp"

namespace rtrs::roce {
namespace {

using trace::WireOp;

// Keys of Link::awaiting, which describe what a message to the server waits for: the response in a chunk (the
// key is the chunk number), or one of these constants.
constexpr std::uint32_t kAwaitsInfo = 0x10000000;
constexpr std::uint32_t kAwaitsHeartbeat = 0x10000001;
constexpr std::uint32_t kAwaitsFence = 0x20000000;  // the serial of the fence request is added to this

// Maximum length of a chunk in bytes.
constexpr std::uint32_t kMaxRead = std::uint32_t{1} << 28;

bool is_response(std::uint32_t imm) noexcept {
  const wire::ImmType type = wire::imm_type(imm);
  return type == wire::ImmType::io_rsp || type == wire::ImmType::io_rsp_w_inv;
}

// Returns the key in Link::awaiting for a SEND without immediate. For a SEND to the server, the key describes
// what the SEND waits for; for a SEND to the client, what it answers.
std::uint32_t awaited_by_send(wire::Bytes bytes) noexcept {
  const auto type = wire::send_type(bytes);
  if (!type || bytes.size() < wire::kFenceBytes) return kAwaitsInfo;
  const bool fence = type.value == wire::MsgType::fence_req || type.value == wire::MsgType::fence_rsp;
  return fence ? kAwaitsFence + (wire::load_le32(bytes, 4) & 0xfffffffU) : kAwaitsInfo;
}

}  // namespace

// Remembers chunk addresses, chunk keys and the destinations of reads that the messages contain.
void Synthesis::learn(Link& link, bool to_server, const StoredNote& note) {
  Attempt& attempt = attempts_[link.attempt];
  if (to_server) {
    if (note.op != WireOp::write_imm || wire::imm_type(note.imm) != wire::ImmType::io_req) return;
    const auto layout = find_request(ChunkTable{}, note.imm, 0, note.bytes);
    if (!layout || attempt.chunks.depth() == 0) return;
    const std::uint32_t chunk = wire::decode_io_req(attempt.chunks.depth(), note.imm).buf_id;
    attempt.reads.erase(chunk);
    if (layout->descriptor) attempt.reads[chunk] = *layout->descriptor;
    return;
  }
  if (note.op == WireOp::send) attempt.chunks.offered(note.bytes);
  if (note.op != WireOp::send_imm) return;
  const auto key = wire::parse_rkey_rsp(note.bytes, attempt.chunks.depth());
  if (key) attempt.chunks.renewed(key.value.buf_id, key.value.rkey);
}

// Acknowledges the message to the server that waited for `awaited`, because the server has answered it.
void Synthesis::answered(Link& link, std::uint32_t awaited) {
  const auto found = link.awaiting.find(awaited);
  if (found == link.awaiting.end()) return;
  acknowledge(link, true, found->second);
  link.awaiting.erase(found);
}

void Synthesis::client_alone(Link& link, const StoredNote& note) {
  const std::uint32_t depth = attempts_[link.attempt].chunks.depth();
  const wire::ImmType type = wire::imm_type(note.imm);
  if (note.kind == StoredNote::Kind::sent) {
    post(link, true, message_of(note), true);
    std::uint32_t awaited = awaited_by_send(note.bytes);
    if (note.has_imm)
      awaited = type == wire::ImmType::hb_msg                 ? kAwaitsHeartbeat
                : type == wire::ImmType::io_req && depth != 0 ? wire::decode_io_req(depth, note.imm).buf_id
                                                              : ~std::uint32_t{0};
    if (awaited != ~std::uint32_t{0}) link.awaiting[awaited] = link.to_server.posted;
    return;
  }
  // A client's trace contains the data of reads only if it was made from a capture.
  if (note.op == WireOp::write) {
    auto& reads = attempts_[link.attempt].reads;
    std::erase_if(reads, [&note](const auto& read) {
      return read.second.addr == note.remote_addr && read.second.key == note.rkey;
    });
    return post(link, false, message_of(note), false);
  }
  // Holds the invalidation back until its response is known: data is sent before the invalidation, but only
  // if the response has no error.
  if (note.op == WireOp::send_inv) {
    link.held.push_back(message_of(note));
    return;
  }
  if (note.has_imm && is_response(note.imm)) return respond(link, note);
  if (note.has_imm && type == wire::ImmType::hb_ack) answered(link, kAwaitsHeartbeat);
  if (!note.has_imm) answered(link, awaited_by_send(note.bytes));
  post(link, false, message_of(note), true);
  acknowledge_all(link, false);
}

// Posts the data of a read, then held invalidations, then the response. No data is sent for an error. If
// negotiated, the response carries the data itself, unless an invalidation must be sent between data and
// response.
void Synthesis::respond(Link& link, const StoredNote& note) {
  Attempt& attempt = attempts_[link.attempt];
  const std::uint32_t chunk = attempt.chunks.answered(note.imm);
  answered(link, chunk);
  Message response = message_of(note);
  const auto read = attempt.reads.find(chunk);
  if (read != attempt.reads.end()) {
    const bool keyless = note.op == WireOp::write_imm;
    const bool told = keyless && note.length != 0;
    if (!told && wire::decode_io_rsp(note.imm).error == 0 && read->second.len <= kMaxRead) {
      const bool joined = keyless && attempt.chunks.joins_data() && link.held.empty();
      Message data;
      data.op = Message::Op::write;
      Message& carrier = joined ? response : data;
      carrier.remote_addr = read->second.addr;
      carrier.rkey = read->second.key;
      carrier.payload.resize(read->second.len);
      if (!joined) post(link, false, data, false);
      ++counters_.generated_reads;
    }
    attempt.reads.erase(read);
  }
  for (const Message& invalidation : link.held) post(link, false, invalidation, true);
  link.held.clear();
  post(link, false, response, true);
  acknowledge_all(link, false);
}

// Acknowledges all messages to the client, on all connections of the path whose client end was not recorded.
// Called when the client must have received everything.
void Synthesis::acknowledge_all_to_client(const Link& link) {
  for (const std::uint32_t other : attempts_[link.attempt].connections)
    if (recordings_.connections()[other].client == ConnectionEnds::kNone)
      acknowledge_all(links_[other], false);
}

void Synthesis::server_alone(Link& link, const StoredNote& note) {
  if (note.kind == StoredNote::Kind::sent) {
    post(link, false, message_of(note), true);
    // If the trace does not contain the end of the connection, its messages are acknowledged at once.
    // Otherwise the last responses of a server that becomes silent would stay unacknowledged for so long that
    // a reader would take them for lost.
    if (!link.ends) acknowledge_all(link, false);
    return;
  }
  // A server reads no content of a request that arrives after its connection has ended.
  if (note.op == WireOp::write_imm && note.length == 0 && wire::imm_type(note.imm) == wire::ImmType::io_req) {
    ++counters_.unread_requests;
    return;
  }
  // A client that sends again has received all earlier messages, because a lost message would have ended the
  // path.
  acknowledge_all_to_client(link);
  Message message = message_of(note);
  if (message.op == Message::Op::write_imm && !message.payload.empty())
    set_request_address(link, note, message);
  post(link, true, message, true);
  acknowledge_all(link, true);
}

// Sets the address of a request from the chunk's address and the immediate, because a server does not record
// it. If the message begins at the start of the chunk, the immediate is the offset of the header. Otherwise
// the header is searched for at the end of the message, where other bytes can look like a header.
void Synthesis::set_request_address(const Link& link, const StoredNote& note, Message& message) {
  const ChunkTable& chunks = attempts_[link.attempt].chunks;
  const auto chunk = chunks.chunk(note.imm);
  std::optional<RequestLayout> layout;
  if (chunk) {
    const std::uint64_t off = wire::decode_io_req(chunks.depth(), note.imm).off;
    const std::uint64_t behind = note.length - std::min<std::uint64_t>(off, note.length);
    if (behind <= note.bytes.size())
      layout = find_request(chunks, note.imm, chunk->addr + off + behind - note.bytes.size(), note.bytes);
  }
  if (!layout) layout = find_request(ChunkTable{}, note.imm, 0, note.bytes);
  if (!layout || !chunk) {
    ++counters_.unplaced_writes;
    return;
  }
  const std::uint64_t header = note.bytes.size() - layout->header;
  message.rkey = chunk->key;
  message.remote_addr =
      chunk->addr + wire::decode_io_req(chunks.depth(), note.imm).off + header - note.length;
}

}  // namespace rtrs::roce
