#include "core/driver/wire_tap.hpp"

#include <algorithm>

#include "core/record/chain_hash.hpp"
#include "core/wire/imm.hpp"

namespace rtrs {

using trace::WireOp;

namespace {

std::uint64_t digest_of(wire::Bytes data) noexcept {
  return data.empty() ? 0 : trace::content_digest(data.data(), data.size());
}

WireOp op_of(WorkRequest::Op op) noexcept {
  switch (op) {
    case WorkRequest::Op::write:
      return WireOp::write;
    case WorkRequest::Op::write_imm:
      return WireOp::write_imm;
    case WorkRequest::Op::send:
      return WireOp::send;
    case WorkRequest::Op::send_imm:
      return WireOp::send_imm;
    case WorkRequest::Op::send_inv:
      return WireOp::send_inv;
  }
  return WireOp::write;
}

wire::Bytes bytes_of(const Fabric& fabric, const LocalPart& part) noexcept {
  return fabric.bytes(part.region).subspan(part.offset, part.length);
}

}  // namespace

WireTap::Payload WireTap::of_write(wire::Bytes data, wire::Bytes head) {
  head = head.last(std::min(head.size(), trace::kMaxHead));
  const auto length = static_cast<std::uint32_t>(data.size() + head.size());
  if (!recorder_->records_payload() || data.empty()) return {length, digest_of(data), head};
  const std::size_t kept = std::min(data.size(), trace::kMaxHead - head.size());
  whole_.assign(data.end() - static_cast<std::ptrdiff_t>(kept), data.end());
  whole_.insert(whole_.end(), head.begin(), head.end());
  return {length, digest_of(data.first(data.size() - kept)), whole_};
}

WireTap::Payload WireTap::of_send(wire::Bytes message) {
  const wire::Bytes head = message.first(std::min(message.size(), trace::kMaxHead));
  return {static_cast<std::uint32_t>(message.size()), digest_of(message.subspan(head.size())), head};
}

void WireTap::note_sent(InstanceId instance, Nanos now, const Fabric& fabric, const WorkRequest& work) {
  trace::WireSent note;
  note.now = now;
  note.key = work.key;
  note.op = op_of(work.op);
  note.has_imm = work.op == WorkRequest::Op::write_imm || work.op == WorkRequest::Op::send_imm;
  note.imm = note.has_imm ? work.imm : 0;
  note.rkey = work.rkey;
  note.remote_addr = work.remote_addr;
  Payload payload;
  if (!work.inline_bytes.empty()) {
    payload = of_send(work.inline_bytes);
  } else if (work.part_count != 0) {
    const bool has_header =
        work.op == WorkRequest::Op::write_imm && wire::imm_type(work.imm) == wire::ImmType::io_req;
    const bool has_data = !has_header || work.part_count > 1;
    payload = of_write(has_data ? bytes_of(fabric, work.parts[0]) : wire::Bytes{},
                       has_header ? bytes_of(fabric, work.parts[work.part_count - 1U]) : wire::Bytes{});
  }
  note.length = payload.length;
  note.digest = payload.digest;
  note.head = payload.head;
  recorder_->note(instance, note);
}

void WireTap::note_received(InstanceId instance, Nanos now, const event::ImmReceived& event, wire::Bytes data,
                            wire::Bytes head) {
  trace::WireReceived note;
  note.now = now;
  note.key = event.key;
  note.op = WireOp::write_imm;
  note.has_imm = true;
  note.imm = event.imm;
  write(instance, note, of_write(data, head));
}

void WireTap::note_received(InstanceId instance, Nanos now, const event::MessageReceived& event) {
  trace::WireReceived note;
  note.now = now;
  note.key = event.key;
  note.op = event.imm ? WireOp::send_imm : WireOp::send;
  note.has_imm = event.imm.has_value();
  note.imm = event.imm.value_or(0);
  write(instance, note, of_send(event.payload));
}

void WireTap::note_received(InstanceId instance, Nanos now, const event::KeyInvalidated& event) {
  trace::WireReceived note;
  note.now = now;
  note.key = event.key;
  note.op = WireOp::send_inv;
  note.rkey = event.rkey;
  write(instance, note, {});
}

void WireTap::note_read(InstanceId instance, Nanos now, wire::Bytes data) {
  trace::WireReceived note;
  note.now = now;
  note.key = last_;
  write(instance, note, of_write(data, {}));
}

void WireTap::write(InstanceId instance, trace::WireReceived& note, const Payload& payload) {
  last_ = note.key;
  note.length = payload.length;
  note.digest = payload.digest;
  note.head = payload.head;
  recorder_->note(instance, note);
}

}  // namespace rtrs
