#include "tools/lib/trace/roce/message.hpp"

#include <algorithm>

namespace rtrs::roce {

namespace {

constexpr std::byte kFiller{0xff};

}  // namespace

std::vector<std::byte> invalidation_filler() {
  return std::vector<std::byte>(kInvalidationFiller, kFiller);
}

bool is_filled_invalidation(const Message& message) noexcept {
  return message.op == Message::Op::send_inv && message.payload.size() == kInvalidationFiller &&
         std::all_of(message.payload.begin(), message.payload.end(),
                     [](std::byte byte) { return byte == kFiller; });
}

Place place_of(Opcode opcode) noexcept {
  switch (opcode) {
    case Opcode::send_first:
      return {true, true, false, false};
    case Opcode::send_middle:
      return {true, false, false, false};
    case Opcode::send_last:
    case Opcode::send_last_imm:
    case Opcode::send_last_inv:
      return {true, false, true, false};
    case Opcode::send_only:
    case Opcode::send_only_imm:
    case Opcode::send_only_inv:
      return {true, true, true, false};
    case Opcode::write_first:
      return {true, true, false, true};
    case Opcode::write_middle:
      return {true, false, false, true};
    case Opcode::write_last:
    case Opcode::write_last_imm:
      return {true, false, true, true};
    case Opcode::write_only:
    case Opcode::write_only_imm:
      return {true, true, true, true};
    default:
      return {};
  }
}

}  // namespace rtrs::roce
