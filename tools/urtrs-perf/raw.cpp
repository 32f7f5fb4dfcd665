#include "tools/urtrs-perf/raw.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "backends/bindings/asio/fabric_pump.hpp"
#include "backends/libfabric/ofi.hpp"
#include "tools/urtrs-perf/interrupt.hpp"
#include "tools/urtrs-perf/meter.hpp"
#include "tools/urtrs-perf/raw_link.hpp"
#include "tools/urtrs-perf/report.hpp"

namespace rtrs::perf {
namespace {

bool reads(const Options& options) {
  return options.rw == Workload::read || options.rw == Workload::randread;
}

int complain(const std::string& what, int exit_code) {
  fmt::print(stderr, "urtrs-perf: {}\n", what);
  return exit_code;
}

// Exchanges messages until the measurement is over. Returns an exit code and an error text.
std::pair<int, std::string> ping_pong(const Options& options, RawLink& link, Meter& meter) {
  const std::uint32_t request = reads(options) ? kRawRequestBytes : options.block_size;
  std::vector<Nanos> submitted(options.iodepth);
  std::vector<std::uint32_t> arrived;
  arrived.reserve(64);
  Nanos last = asio::steady_now();
  std::uint64_t sent = 0;
  meter.start(last);
  for (std::uint32_t slot = 0; slot < options.iodepth && sent < meter.to_submit(); ++slot, ++sent) {
    submitted[slot] = last;
    if (!link.write(slot, request)) return {kFailed, "fi_writemsg failed"};
  }
  while (!meter.over()) {
    arrived.clear();
    if (!link.poll(arrived)) return {kFailed, "the server closed the connection"};
    const Nanos now = asio::steady_now();
    for (const std::uint32_t slot : arrived) {
      if (slot >= options.iodepth) return {kFailed, "an unexpected reply"};
      meter.completed(now, now - submitted[slot]);
      if (meter.over() || sent >= meter.to_submit()) continue;
      submitted[slot] = now;
      ++sent;
      if (!link.write(slot, request)) return {kFailed, "fi_writemsg failed"};
    }
    if (!arrived.empty()) last = now;
    meter.tick(now);
    if (const int number = caught_signal(); number != 0) {
      meter.finish(now);
      return {kSignalBase + number, "interrupted: results so far"};
    }
    if (now - last > options.protocol.queue_timeout) return {kTimedOut, "no answer"};
  }
  return {kOk, ""};
}

}  // namespace

int run_raw_server(const Options& options) {
  RawLink link;
  std::uint16_t port = 0;
  if (!link.listen(options, port)) return complain(link.error(), kPrecondition);
  fmt::print("listening on port {}\n", port);
  std::fflush(stdout);
  if (!link.accept()) return caught_signal() != 0 ? kOk : complain(link.error(), kFailed);
  const std::uint32_t answer = link.peer().reads != 0 ? link.peer().bytes : 0;
  std::vector<std::uint32_t> arrived;
  arrived.reserve(64);
  while (caught_signal() == 0) {
    arrived.clear();
    if (!link.poll(arrived)) return kOk;
    for (const std::uint32_t slot : arrived) {
      if (slot >= link.peer().iodepth || !link.write(slot, answer)) return kOk;
    }
  }
  return kOk;
}

int run_raw_client(const Options& options) {
  RawGreeting shape;
  shape.bytes = options.block_size;
  shape.iodepth = static_cast<std::uint16_t>(options.iodepth);
  shape.reads = reads(options) ? 1 : 0;
  if (options.block_size > kMaxRawBytes || options.rw == Workload::rw || options.all_sizes || options.verify)
    return complain("--raw measures one size, reads or writes, and checks nothing", kUsage);
  RawLink link;
  if (!link.connect(options, shape)) return complain(link.error(), kFailed);
  const Printer printer(options);
  Report report;
  Meter meter(options, options.block_size, {});
  printer.begin();
  std::tie(report.exit_code, report.failure) = ping_pong(options, link, meter);
  meter.finish(asio::steady_now());
  report.results.push_back(meter.take());
  printer.row(report.results.back());
  return printer.end(report);
}

}  // namespace rtrs::perf
