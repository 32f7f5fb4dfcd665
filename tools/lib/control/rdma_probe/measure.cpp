#include "tools/lib/control/rdma_probe/measure.hpp"

#include <fmt/format.h>

#include <array>

#include "tools/lib/control/rdma_probe/probe_error.hpp"

namespace rtrs::probe {
namespace {

constexpr std::size_t kChunk = std::size_t{128} << 10U;
constexpr std::size_t kShort = 4096;
constexpr std::uint32_t kDepth = 64;
constexpr std::uint32_t kSignalEach = 16;

struct Measured {
  double number = 0;
  const char* unit = "";
  std::string what;
};

// Calls once() repeatedly for `pace.measures`, at least once. Returns the average time of a call in seconds.
template <class Once>
double repeat(const Pace& pace, Once once) {
  const Clock::time_point begin = Clock::now();
  std::uint64_t count = 0;
  std::chrono::duration<double> taken{};
  do {
    once();
    ++count;
    taken = Clock::now() - begin;
  } while (taken < pace.measures && !pace.stop());
  return taken.count() / static_cast<double>(count);
}

Measured in_microseconds(double seconds, const char* of) {
  constexpr double kMicro = 1e6;
  return {seconds * kMicro, "us", fmt::format("{:.1f} us {}", seconds * kMicro, of)};
}

Measured registering(const Device& device, const Pace& pace) {
  Buffer buffer = make_buffer(device, kChunk, kRemote);
  buffer.release();
  const double each = repeat(pace, [&] {
    const verbs::MemoryHandle region(ibv_reg_mr(device.domain.get(), buffer.data(), kChunk, kRemote));
    demand(region != nullptr, "a registration fails: " + errno_text(errno));
  });
  return in_microseconds(each, "to register and deregister 128 KiB");
}

Measured binding(const Device& device, const Pace& pace) {
  Loop loop = make_loop(device, pace);
  const Buffer into = make_buffer(device, kChunk, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
  const verbs::WindowHandle window(ibv_alloc_mw(device.domain.get(), IBV_MW_TYPE_1));
  demand(window != nullptr, "no window: " + errno_text(errno));
  const double each = repeat(pace, [&] {
    for (const bool open : {true, false}) {
      succeed(loop.bind(window.get(), into, open), "posting a binding");
      good(loop.wait_far(), "the binding");
    }
  });
  return in_microseconds(each, "to bind and invalidate a window of type 1");
}

double writes_a_second(const Device& device, const Pace& pace, std::size_t bytes) {
  Loop loop = make_loop(device, pace, {.sends = kDepth, .receives = 1});
  const Buffer from = make_buffer(device, bytes, 0);
  const Buffer into = make_buffer(device, bytes, kRemote);
  unsigned free = kDepth;
  const double each = repeat(pace, [&] {
    // Fills the send queue in batches of kSignalEach writes, of which only the last one is signalled.
    for (; free >= kSignalEach; free -= kSignalEach)
      for (unsigned i = 0; i < kSignalEach; ++i)
        succeed(loop.write(from, bytes, into.address(), into.region()->rkey, i + 1 == kSignalEach),
                "posting a write");
    good(loop.wait_near(), "a write");
    free += kSignalEach;
  });
  return kSignalEach / each;
}

Measured short_writes(const Device& device, const Pace& pace) {
  const double rate = writes_a_second(device, pace, kShort);
  return {rate, "writes/s", fmt::format("{:.0f} writes of 4 KiB a second, {} in flight", rate, kDepth)};
}

Measured long_writes(const Device& device, const Pace& pace) {
  constexpr double kMega = 1e6;
  const double rate = writes_a_second(device, pace, kChunk) * kChunk / kMega;
  return {rate, "MB/s", fmt::format("{:.0f} MB/s in writes of 128 KiB, {} in flight", rate, kDepth)};
}

Measured answer_time(const Device& device, const Pace& pace) {
  Loop loop = make_loop(device, pace);
  const double each = repeat(pace, [&] {
    succeed(loop.receive(nullptr, 0), "posting a receive without memory");
    succeed(loop.write_with_immediate(nullptr, 0, 0, 0, 1), "posting an empty write");
    good(loop.wait_far(), "the receive");
    good(loop.wait_near(), "the write");
  });
  return in_microseconds(each, "from an empty write to its arrival and its completion");
}

}  // namespace

Lines measure(const Device& device, const Pace& pace, bool windows_work) {
  Lines lines;
  const auto take = [&](const char* check, auto of) {
    pace.progress(fmt::format("{}: measuring: {}", device.name, check));
    Measured got;
    Line line = judged(Line::Part::measurement, device.name, check, [&] {
      got = of(device, pace);
      return got.what;
    });
    if (line.grade == Line::Grade::ok) {
      line.number = got.number;
      line.unit = got.unit;
    }
    lines.push_back(std::move(line));
  };
  take("registering", registering);
  if (windows_work)
    take("binding", binding);
  else
    lines.push_back({.part = Line::Part::measurement,
                     .device = device.name,
                     .check = "binding",
                     .grade = Line::Grade::absent,
                     .what = "no working windows of type 1",
                     .remedy = "nothing to do"});
  take("empty write", answer_time);
  take("4 KiB writes", short_writes);
  take("128 KiB writes", long_writes);
  return lines;
}

}  // namespace rtrs::probe
