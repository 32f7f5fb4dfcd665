// Tests registration, the order of data and immediates, and the flush of a queue pair in the error state.
#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tools/lib/control/rdma_probe/probe_error.hpp"
#include "tools/lib/control/rdma_probe/self_test.hpp"

namespace rtrs::probe {
namespace {

constexpr std::chrono::seconds kOrderTime{5};
constexpr unsigned kFlushed = 8;

std::string registration(const Device& device, const Pace& pace) {
  Loop loop = make_loop(device, pace);
  Buffer from = make_buffer(device, kTestBytes, 0);
  Buffer into = make_buffer(device, kTestBytes, kRemote);
  from.fill(kData);
  into.fill(kBefore);
  const std::uint32_t stale = into.region()->rkey;
  succeed(loop.write(from, kTestBytes, into.address(), stale), "posting a write");
  good(loop.wait_near(), "the write");
  demand(into.holds(kData), "the write completed, but its data did not arrive");
  into.fill(kBefore);
  into.release();
  succeed(loop.write(from, kTestBytes, into.address(), stale), "posting a write");
  const Waited answer = loop.wait_near();
  demand(answer.has_value(), "a write under the key of a registration that is undone is not answered");
  demand(answer->status != IBV_WC_SUCCESS, "a write under the key of a registration that is undone is taken");
  demand(into.holds(kBefore), "a write under the key of a registration that is undone changes memory");
  return fmt::format("its stale key is refused ({})", ibv_wc_status_str(answer->status));
}

std::string whole_session(const Device& device, const Pace&) {
  const Buffer all = make_buffer(device, kSessionBytes, kRemote);
  return fmt::format("{} MiB, the buffers of one session of urtrsd, are registered", kSessionBytes >> 20U);
}

// Fills the buffer so that every 8-byte word of every round has a different number.
void pattern(Buffer& buffer, std::uint64_t round) {
  for (std::size_t at = 0; at < kTestBytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = round * 0x9e3779b97f4a7c15U + at;
    std::memcpy(buffer.data() + at, &word, sizeof word);
  }
}

std::string order(const Device& device, const Pace& pace, const Rounds& rounds) {
  Loop loop = make_loop(device, pace);
  Buffer from = make_buffer(device, kTestBytes, 0);
  Buffer into = make_buffer(device, kTestBytes, kRemote);
  const Clock::time_point end = Clock::now() + kOrderTime;
  std::uint64_t round = 0;
  for (; round < rounds.count; ++round) {
    if (pace.stop() || (!rounds.all && Clock::now() >= end)) break;
    pattern(from, round + 1);
    succeed(loop.receive(nullptr, 0), "posting a receive without memory");
    succeed(loop.write(from, kTestBytes, into.address(), into.region()->rkey, false), "posting a write");
    const auto immediate = static_cast<std::uint32_t>(round);
    succeed(loop.write_with_immediate(nullptr, 0, 0, 0, immediate), "posting an empty write");
    const ibv_wc told = good(loop.wait_far(), "the receive");
    const bool same = std::memcmp(from.data(), into.data(), kTestBytes) == 0;
    demand(ntohl(told.imm_data) == immediate,
           fmt::format("round {} has the immediate of round {}", round, ntohl(told.imm_data)));
    demand(same, fmt::format("in round {} the immediate arrived before the data written before it", round));
    good(loop.wait_near(), "the write");
    if (round % 1024 == 0)
      pace.progress(fmt::format("{}: data before immediates, round {}", device.name, round));
  }
  return fmt::format("{} rounds of {} bytes: all data were there with the immediate behind them", round,
                     kTestBytes);
}

std::string flush(const Device& device, const Pace& pace) {
  Loop loop = make_loop(device, pace);
  for (unsigned i = 0; i < kFlushed; ++i)
    succeed(loop.receive(nullptr, 0), "posting a receive without memory");
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  succeed(ibv_modify_qp(loop.far.pair.get(), &attributes, IBV_QP_STATE), "ending a queue pair");
  for (unsigned i = 0; i < kFlushed; ++i) {
    const Waited one = loop.wait_far();
    demand(one.has_value(), fmt::format("{} of {} receives are given back: {}", i, kFlushed,
                                        one ? std::string() : one.error()));
    demand(one->status == IBV_WC_WR_FLUSH_ERR,
           fmt::format("a receive is given back as \"{}\"", ibv_wc_status_str(one->status)));
  }
  return fmt::format("{} receives are given back when their queue pair ends", kFlushed);
}

}  // namespace

Lines test_memory(const Device& device, const Pace& pace) {
  const auto line = [&](const char* check, auto test) {
    return judged(Line::Part::test, device.name, check, [&] { return test(device, pace); });
  };
  return {line("registration", registration), line("memory of a session", whole_session)};
}

Lines test_order(const Device& device, const Pace& pace, const Rounds& rounds) {
  return {judged(Line::Part::test, device.name, "data before immediates",
                 [&] { return order(device, pace, rounds); })};
}

Lines test_flush(const Device& device, const Pace& pace) {
  return {judged(Line::Part::test, device.name, "flush", [&] { return flush(device, pace); })};
}

}  // namespace rtrs::probe
