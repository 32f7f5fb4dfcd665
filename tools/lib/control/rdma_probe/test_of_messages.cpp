// Tests RDMA writes and SENDs, with and without data and immediates.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "tools/lib/control/rdma_probe/probe_error.hpp"
#include "tools/lib/control/rdma_probe/self_test.hpp"

namespace rtrs::probe {
namespace {

constexpr std::size_t kMessage = 64;
constexpr std::uint32_t kImmediate = 0x5a17c0de;

// Checks the receive completion of a message with an immediate.
void expect_immediate(const ibv_wc& completion, ibv_wc_opcode opcode, std::size_t bytes) {
  demand(completion.opcode == opcode,
         fmt::format("the receiver is told of opcode {}, not of {}", static_cast<int>(completion.opcode),
                     static_cast<int>(opcode)));
  demand((completion.wc_flags & IBV_WC_WITH_IMM) != 0, "the receiver is not told of the immediate");
  demand(ntohl(completion.imm_data) == kImmediate,
         fmt::format("the immediate is {:#x}, not {:#x}", ntohl(completion.imm_data), kImmediate));
  if (opcode == IBV_WC_RECV)
    demand(completion.byte_len == bytes,
           fmt::format("the receiver is told of {} bytes, not of {}", completion.byte_len, bytes));
}

struct MessageRig {
  MessageRig(const Device& device, const Pace& pace)
      : loop(make_loop(device, pace)),
        from(make_buffer(device, kTestBytes, 0)),
        into(make_buffer(device, kTestBytes, kRemote)) {
    from.fill(kData);
  }
  Loop loop;
  Buffer from, into;
};

std::string write(const Device& device, const Pace& pace) {
  MessageRig rig(device, pace);
  succeed(rig.loop.write(rig.from, kTestBytes, rig.into.address(), rig.into.region()->rkey),
          "posting a write");
  good(rig.loop.wait_near(), "the write");
  demand(rig.into.holds(kData), "the write completed, but its data did not arrive");
  return fmt::format("{} bytes arrive", kTestBytes);
}

std::string write_inline(const Device& device, const Pace& pace) {
  // Inline size that the backend requests. A device grants at least this size, or refuses the queue pair.
  constexpr std::uint32_t kWanted = 96;
  auto loop = Loop::make(device, pace, {.inline_bytes = kWanted});
  if (!loop)
    throw Trouble{fmt::format("{} bytes are refused", kWanted),
                  "nothing to do: urtrs sends short messages from registered memory then",
                  Line::Grade::absent};
  Buffer into = make_buffer(device, kTestBytes, kRemote);
  std::array<std::byte, kWanted> data{};
  data.fill(kData);
  ibv_sge part{reinterpret_cast<std::uintptr_t>(data.data()), kWanted, 0};
  ibv_send_wr request{}, *refused = nullptr;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
  request.sg_list = &part;
  request.num_sge = 1;
  request.wr.rdma.remote_addr = into.address();
  request.wr.rdma.rkey = into.region()->rkey;
  succeed(std::abs(ibv_post_send(loop->near.pair.get(), &request, &refused)), "posting inline data");
  // The caller may reuse the memory immediately after posting inline data.
  data.fill(std::byte{0});
  good(loop->wait_near(), "the write");
  demand(std::all_of(into.data(), into.data() + kWanted, [](std::byte one) { return one == kData; }),
         "inline data are read after they were posted");
  return fmt::format("{} bytes inside of a work request", kWanted);
}

std::string empty_write_with_immediate(const Device& device, const Pace& pace) {
  MessageRig rig(device, pace);
  succeed(rig.loop.receive(nullptr, 0), "posting a receive without memory");
  succeed(rig.loop.write_with_immediate(nullptr, 0, 0, 0, kImmediate), "posting an empty write");
  expect_immediate(good(rig.loop.wait_far(), "the receive"), IBV_WC_RECV_RDMA_WITH_IMM, 0);
  good(rig.loop.wait_near(), "the write");
  return "needs no key at the other end";
}

std::string write_with_immediate(const Device& device, const Pace& pace) {
  MessageRig rig(device, pace);
  succeed(rig.loop.receive(nullptr, 0), "posting a receive without memory");
  succeed(rig.loop.write_with_immediate(&rig.from, kTestBytes, rig.into.address(), rig.into.region()->rkey,
                                        kImmediate),
          "posting a write");
  expect_immediate(good(rig.loop.wait_far(), "the receive"), IBV_WC_RECV_RDMA_WITH_IMM, kTestBytes);
  demand(rig.into.holds(kData), "the immediate arrives before its data");
  good(rig.loop.wait_near(), "the write");
  return fmt::format("{} bytes and the immediate arrive", kTestBytes);
}

std::string send_with_immediate(const Device& device, const Pace& pace) {
  MessageRig rig(device, pace);
  succeed(rig.loop.receive(&rig.into, kTestBytes), "posting a receive");
  succeed(rig.loop.send_with_immediate(rig.from, kMessage, kImmediate), "posting a message");
  expect_immediate(good(rig.loop.wait_far(), "the receive"), IBV_WC_RECV, kMessage);
  demand(std::all_of(rig.into.data(), rig.into.data() + kMessage, [](std::byte one) { return one == kData; }),
         "the message is there, and its data are not");
  good(rig.loop.wait_near(), "the message");
  return fmt::format("{} bytes and the immediate arrive", kMessage);
}

}  // namespace

Lines test_messages(const Device& device, const Pace& pace) {
  const auto line = [&](const char* check, auto test) {
    return judged(Line::Part::test, device.name, check, [&] { return test(device, pace); });
  };
  return {line("write", write), line("inline write", write_inline),
          line("empty write with immediate", empty_write_with_immediate),
          line("write with immediate", write_with_immediate),
          line("message with immediate", send_with_immediate)};
}

}  // namespace rtrs::probe
