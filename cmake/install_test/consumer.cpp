// What a stranger's first program looks like: it knows only what was installed.
#include <cstdio>

#include "core/wire/imm.hpp"
#include "core/wire/refusal.hpp"

int main() {
  namespace wire = rtrs::wire;
  constexpr std::uint32_t queue_depth = 512;
  const wire::IoReqImm back = wire::decode_io_req(queue_depth, wire::encode_io_req(queue_depth, 7, 4096));
  std::printf("chunk %u, offset %u, %s\n", back.buf_id, back.off, wire::to_string(wire::Refusal::bad_offset));
  return back.buf_id == 7 && back.off == 4096 ? 0 : 1;
}
