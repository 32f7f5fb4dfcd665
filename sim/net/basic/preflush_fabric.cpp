#include "sim/net/basic/preflush_fabric.hpp"

#include "core/base/assert.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/rnbd_messages.hpp"

namespace rtrs::sim {

// The last part of a request begins with the user header.
void PreflushFabric::mark(const WorkRequest& work) {
  const LocalPart& part = work.parts[work.part_count - 1U];
  if (part.length < wire::rnbd::kIoBytes) return;
  const auto header = static_cast<Fabric&>(inner_).bytes(part.region).subspan(part.offset);
  const auto message = wire::rnbd::parse_io(header.first(wire::rnbd::kIoBytes));
  if (!message || message.value.opcode != wire::rnbd::Opcode::write || message.value.prio % 2 != 0) return;
  wire::rnbd::Io marked = message.value;
  marked.preflush = true;
  RTRS_ASSERT(encode(marked, header.first(wire::rnbd::kIoBytes)) == wire::rnbd::kIoBytes);
}

std::size_t PreflushFabric::post(std::span<const WorkRequest> requests) noexcept {
  for (const WorkRequest& work : requests) {
    const bool request = work.op == WorkRequest::Op::write_imm && work.part_count != 0 &&
                         wire::imm_type(work.imm) == wire::ImmType::io_req;
    if (request) mark(work);
  }
  return inner_.post(requests);
}

}  // namespace rtrs::sim
