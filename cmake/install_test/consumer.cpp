// What a stranger's first program looks like: it knows only what was installed.
#include <cstdio>

#include "core/wire/imm.hpp"

int main() {
  constexpr std::uint32_t queue_depth = 512;
  const auto imm = rtrs::wire::encode_io_req(queue_depth, 7, 4096);
  const auto back = rtrs::wire::decode_io_req(queue_depth, imm);
  std::printf("chunk %u, offset %u\n", back.buf_id, back.off);
  return back.buf_id == 7 && back.off == 4096 ? 0 : 1;
}
