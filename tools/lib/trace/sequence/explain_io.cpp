// Describes the records of requests, responses and their messages.
#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"
#include "tools/lib/trace/sequence/explain.hpp"

namespace rtrs::tools::sequence {

void Explainer::on_submitted(const Fields& record, Step& step) {
  step.group = Group::io;
  step.shape = Shape::submit;
  const bool write = record.word("direction") == "write";
  const auto bytes = static_cast<std::uint32_t>(record.number("data_len"));
  now_->permits[static_cast<std::uint16_t>(record.number("permit"))] = {write, bytes};
  step.title = std::string(record.flag("service") ? "submit message"
                           : write                ? "submit write"
                                                  : "submit read") +
               ' ' + size_words(bytes) + ", permit " + record.word("permit");
}

void Explainer::on_post_request(const Fields& record, Step& step) {
  step.group = Group::io;
  const auto permit = static_cast<std::uint16_t>(record.number("permit"));
  const auto known = now_->permits.find(permit);
  step.title = "IO_REQ";
  if (known != now_->permits.end())
    step.title += std::string(known->second.write ? " write " : " read ") + size_words(known->second.bytes);
  step.title += ", permit " + std::to_string(permit);
  now_->posted[permit] = steps_.added();
  send(step, signature('R', std::uint64_t{permit} << 8 | record.number("generation")));
}

void Explainer::on_arrived(const Fields& record, Step& step) {
  step.group = Group::io;
  step.title = "IO_REQ " + record.word("direction") + ' ' + size_words(record.number("data_len")) +
               ", chunk " + record.word("chunk");
  receive(step, signature('R', record.number("chunk") << 8 | record.number("generation")));
}

void Explainer::on_deliver(const Fields& record, Step& step) {
  step.group = Group::io;
  step.shape = Shape::deliver;
  const auto chunk = static_cast<std::uint32_t>(record.number("chunk"));
  now_->delivered[chunk << 16 | static_cast<std::uint16_t>(record.number("serial"))] = steps_.added();
  step.title = "to storage, chunk " + record.word("chunk") +
               (record.flag("parked") ? ", waited for the previous user of the chunk" : "");
}

void Explainer::on_responded(const Fields& record, Step& step) {
  step.group = Group::io;
  step.shape = Shape::answer;
  const std::uint64_t error = record.number("peer_errno");
  if (error != 0) step.tone = Tone::bad;
  step.title = "storage answers " + errno_words(error) + ", chunk " + record.word("chunk");
}

void Explainer::on_post_response(const Fields& record, Step& step) {
  const auto imm = static_cast<std::uint32_t>(record.number("imm"));
  const std::string words = imm_words(imm, step);
  step.group = Group::io;
  const bool fresh = record.flag("fresh_key");
  const char* const data = record.flag("data_with_answer") ? ", with its data"
                           : record.flag("write_data")     ? ", after its data"
                                                           : "";
  step.title = (fresh ? "RKEY_RSP, " : "") + words + data;
  send(step, signature(fresh ? 'K' : 'M', imm));
}

void Explainer::on_post_imm(const Fields& record, Step& step) {
  const auto imm = static_cast<std::uint32_t>(record.number("imm"));
  step.title = imm_words(imm, step);
  send(step, signature('M', imm));
}

// Describes the delivery of a probe, which is an empty WRITE. An empty WRITE causes no event at the peer, so
// the step has no receive.
void Explainer::on_probe_delivery(const Fields&, Step& step) {
  step.group = Group::heartbeat;
  step.title = "empty WRITE as a delivery probe";
}

void Explainer::on_imm(const Fields& record, Step& step) {
  const auto imm = static_cast<std::uint32_t>(record.number("imm"));
  const bool keyed = step.event == "KeyedResponseReceived";
  step.title = (keyed ? "RKEY_RSP, " : "") + imm_words(imm, step);
  receive(step, signature(keyed ? 'K' : 'M', imm));
}

void Explainer::on_complete(const Fields& record, Step& step) {
  step.group = Group::io;
  step.shape = Shape::complete;
  const std::string result = record.word("result");
  step.title = "complete, permit " + record.word("permit");
  if (result == "ok") return;
  step.tone = Tone::bad;
  step.title += ": " + result;
  if (record.number("peer_errno") != 0) step.title += ", " + errno_words(record.number("peer_errno"));
}

void Explainer::on_failed_over(const Fields& record, Step& step) {
  step.group = Group::io;
  step.tone = Tone::warning;
  step.title = "permit " + record.word("permit") + " fails over: path " + record.word("from") + " to path " +
               record.word("to") + (record.flag("fenced") ? ", fenced" : ", without a fence");
}

void Explainer::on_key_invalidated(const Fields& record, Step& step) {
  step.group = Group::local;
  step.title = "SEND_WITH_INV: key of permit " + record.word("permit") + " is dead";
}

void Explainer::on_peer_broke(const Fields& record, Step& step) {
  step.group = Group::connect;
  step.tone = Tone::bad;
  step.title = "the peer violated the protocol: " + record.word("why");
}

void Explainer::on_wire(const Fields& record, Step& step) {
  step.group = Group::wire;
  step.title = record.word("op") + ' ' + size_words(record.number("length"));
  if (step.event == "WireReceived" && record.word("op") == "write" && record.number("rkey") == 0) {
    step.title = "data of the READ, " + size_words(record.number("length"));
    return;
  }
  const auto imm = static_cast<std::uint32_t>(record.number("imm"));
  if (record.flag("has_imm")) {
    Step scratch;
    const bool request = wire::imm_type(imm) == wire::ImmType::io_req;
    if (request && machine().depth != 0) {
      const std::uint32_t chunk = wire::decode_io_req(machine().depth, imm).buf_id;
      step.title = "IO_REQ for chunk " + std::to_string(chunk) + ", " + step.title;
      append_message(record, step, chunk);
    } else if (request) {
      step.title = "IO_REQ, " + step.title;
    } else {
      step.title = imm_words(imm, scratch) + ", " + step.title;
    }
    step.tone = scratch.tone;
  }
  // The signature must equal the signature of the other side's note. A client does not know the data length
  // of a response, so a response's signature does not contain the length.
  const bool answer = record.flag("has_imm") && wire::imm_type(imm) != wire::ImmType::io_req;
  const std::uint64_t length = answer ? 0 : record.number("length") & 0xfffff;
  const std::uint64_t sign = signature('W', std::uint64_t{imm} << 20 | length);
  step.event == "WireSent" ? send(step, sign) : receive(step, sign);
  step.may_vanish = true;
}

// A capture has the depth of a session, which tells permits apart from other bits, only in CON_RSP.
void Explainer::take_limits(std::string_view con_rsp) {
  const auto parsed =
      wire::parse_conn_rsp({reinterpret_cast<const std::byte*>(con_rsp.data()), con_rsp.size()}, 0);
  if (!parsed || parsed.value.error != 0 || machine().depth != 0) return;
  machine().depth = parsed.value.queue_depth;
  machine().generations = (parsed.value.flags & wire::kConnRspGeneration) != 0;
}

void Explainer::on_wire_cm(const Fields& record, Step& step) {
  step.group = Group::wire;
  const std::string kind = record.word("kind");
  step.title = "CM " + kind;
  const std::string_view data = record.bytes("private_data");
  if (kind == "req" && step.connection != kNone) {
    const auto parsed = wire::parse_conn_req({reinterpret_cast<const std::byte*>(data.data()), data.size()});
    if (parsed) {
      const auto& uuid = parsed.value.sess_uuid.bytes;
      connection_of(step).path_uuid.assign(reinterpret_cast<const char*>(uuid.data()), uuid.size());
      step.title += ", attempt " + std::to_string(parsed.value.recon_cnt);
    }
  }
  if (kind == "rep" && record.number("key.con") == 0) take_limits(data);
  if (kind.empty() || kind == "closed") return;
  const std::uint64_t sign =
      signature('w', kind.size() << 8 | static_cast<unsigned char>(kind[2 % kind.size()]));
  record.flag("sent") ? send(step, sign) : receive(step, sign);
  step.may_vanish = true;
}

}  // namespace rtrs::tools::sequence
