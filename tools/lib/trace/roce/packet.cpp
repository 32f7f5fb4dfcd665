#include "tools/lib/trace/roce/packet.hpp"

namespace rtrs::roce {

HeaderSet headers_of(Opcode opcode) noexcept {
  HeaderSet set;
  set.known = true;
  switch (opcode) {
    case Opcode::send_first:
    case Opcode::send_middle:
    case Opcode::send_last:
    case Opcode::send_only:
    case Opcode::write_middle:
    case Opcode::write_last:
    case Opcode::read_response_middle:
      return set;
    case Opcode::send_last_imm:
    case Opcode::send_only_imm:
    case Opcode::write_last_imm:
      set.imm = true;
      return set;
    case Opcode::write_first:
    case Opcode::write_only:
    case Opcode::read_request:
      set.reth = true;
      return set;
    case Opcode::write_only_imm:
      set.reth = true;
      set.imm = true;
      return set;
    case Opcode::read_response_first:
    case Opcode::read_response_last:
    case Opcode::read_response_only:
    case Opcode::acknowledge:
    case Opcode::atomic_acknowledge:
      set.aeth = true;
      return set;
    case Opcode::compare_swap:
    case Opcode::fetch_add:
      return set;
    case Opcode::send_last_inv:
    case Opcode::send_only_inv:
      set.ieth = true;
      return set;
    case Opcode::datagram_send_only:
      set.deth = true;
      return set;
  }
  set.known = false;
  return set;
}

}  // namespace rtrs::roce
