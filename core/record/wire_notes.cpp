#include "core/record/wire_notes.hpp"

namespace rtrs::trace {

const char* to_string(WireOp op) noexcept {
  switch (op) {
    case WireOp::write:
      return "write";
    case WireOp::write_imm:
      return "write_imm";
    case WireOp::send:
      return "send";
    case WireOp::send_imm:
      return "send_imm";
    case WireOp::send_inv:
      return "send_inv";
  }
  return "unknown";
}

const char* to_string(WireCmKind kind) noexcept {
  switch (kind) {
    case WireCmKind::req:
      return "req";
    case WireCmKind::rep:
      return "rep";
    case WireCmKind::rej:
      return "rej";
    case WireCmKind::dreq:
      return "dreq";
    case WireCmKind::closed:
      return "closed";
  }
  return "unknown";
}

}  // namespace rtrs::trace
