#include "tools/urtrs-perf/client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "backends/bindings/asio/path_syntax.hpp"
#include "core/proto/reasons.hpp"
#include "core/record/recorder.hpp"
#include "tools/lib/control/fabric/own_identity.hpp"
#include "tools/lib/text/session_name.hpp"
#include "tools/lib/text/terminal/progress_line.hpp"
#include "tools/lib/text/terminal/terminal.hpp"
#include "tools/urtrs-perf/fabric.hpp"
#include "tools/urtrs-perf/interrupt.hpp"
#include "tools/urtrs-perf/load.hpp"
#include "tools/urtrs-perf/recording.hpp"
#include "tools/urtrs-perf/report.hpp"
#include "tools/urtrs-perf/run_loop.hpp"

namespace rtrs::perf {
namespace {

wire::Uuid random_uuid() {
  std::random_device random;
  wire::Uuid uuid;
  for (auto& byte : uuid.bytes) byte = static_cast<std::uint8_t>(random());
  return uuid;
}

ClientOptions client_options(const Options& options, const Capabilities& fabric,
                             std::vector<PathAddress> paths) {
  ClientOptions client;
  const std::string who = tools::own_identity(options.fabric, options.tls, options.auth);
  client.session_name =
      tools::default_session_name(who.empty() ? tools::short_host_name() : who, "perf", tools::random_part());
  client.paths = std::move(paths);
  client.session_uuid = random_uuid();
  for (unsigned path = 0; path < kMaxPaths; ++path) client.path_uuids.push_back(random_uuid());
  client.protocol = options.protocol;
  ClientConfig& protocol = client.protocol;
  protocol.seed = std::random_device{}();
  protocol.connect_timeout = options.connect_timeout;
  protocol.info_timeout = options.connect_timeout;
  return clamp_to(client, fabric);
}

class PerfClient {
 public:
  PerfClient(const Options& options, Fabric& fabric, std::vector<PathAddress> paths)
      : options_(options),
        fabric_(fabric),
        paths_(std::move(paths)),
        client_(client_options(options, fabric.capabilities(), paths_),
                options.recorder ? &recorder_ : nullptr),
        printer_(options) {}

  int run() {
    if (!open_record(recorder_, options_, "client", fabric_.capabilities().name)) return kPrecondition;
    if (connect()) measure();
    list_paths();
    close();
    if (!close_record(recorder_, options_) && report_.exit_code == kOk)
      fail(kFailed, "the trace is not complete");
    return printer_.end(report_);
  }

 private:
  bool connect();
  void measure();
  bool measure_size(const Region& data, std::uint32_t bytes);
  std::vector<std::uint32_t> sizes() const;
  void list_paths();
  void close();
  void fail(int exit_code, std::string why) {
    report_.exit_code = exit_code;
    report_.failure = std::move(why);
  }
  void tell_news();
  std::string path_states() const;
  Meter::Progress progress();
  Nanos soon() const { return asio::steady_now() + kNap; }

  const Options& options_;
  Fabric& fabric_;
  std::vector<PathAddress> paths_;
  Recorder recorder_;
  Client client_;
  Printer printer_;
  Report report_;
  tools::ProgressLine line_;
  bool loss_reported_ = false;
};

// Prints on standard error when a path is lost or has reconnected, but not when it connects for the first
// time.
void PerfClient::tell_news() {
  PathEvent news;
  while (client_.take_news(news)) {
    if (news.kind != PathEvent::Kind::path) continue;
    const std::string name = asio::to_text(paths_[news.path.path % paths_.size()]);
    const bool connected = news.path.state == PathState::connected;
    if (news.path.state == PathState::draining && client_.paths()[news.path.path].ever_connected &&
        news.path.attempt == 0) {
      line_.clear();
      const ReasonText why = words_of(news.path.reason, news.path.peer_errno, fabric_.capabilities().name);
      fmt::print(stderr, "path {} lost: {} [{}]; {}\n", name, why.sentence, why.code, why.hint);
      loss_reported_ = true;
    } else if (connected && loss_reported_) {
      line_.clear();
      fmt::print(stderr, "path {} reconnected\n", name);
    }
  }
}

std::string PerfClient::path_states() const {
  std::string text;
  for (unsigned i = 0; i < client_.paths().size(); ++i) {
    const PathStatus& path = client_.paths()[i];
    // A path without a reason may still be waiting for its first reply.
    const Reason reason = path.reason == Reason::none ? Reason::connect_timeout : path.reason;
    const bool up = path.state == PathState::connected;
    text += fmt::format("{}{}{}{}", i == 0 ? "" : ", ", asio::to_text(paths_[i]), up ? " is " : ": ",
                        up ? "connected" : words_of(reason, path.peer_errno).sentence);
  }
  return text;
}

bool PerfClient::connect() {
  const Nanos end = asio::steady_now() + options_.connect_timeout;
  const Errc opened = client_.open(fabric_, asio::steady_now());
  if (opened != Errc::ok) {
    fail(kFailed, fmt::format("cannot open a session: {}", to_string(opened)));
    return false;
  }
  // Waits until all paths are connected, because a measurement with fewer paths than intended would be
  // useless.
  const auto all_up = [this] {
    const auto paths = client_.paths();
    return std::all_of(paths.begin(), paths.end(),
                       [](const PathStatus& path) { return path.state == PathState::connected; });
  };
  run_until(
      fabric_, options_.wait,
      [this](Nanos now) {
        IoCompletion none;
        client_.poll(fabric_, now, {&none, 1});
        return false;
      },
      [this] { return std::min(client_.next_deadline(), soon()); },
      [&] { return all_up() || caught_signal() != 0 || asio::steady_now() >= end; });
  PathEvent first;
  while (client_.take_news(first)) {
  }
  if (all_up()) return true;
  if (const int number = caught_signal(); number != 0) {
    fail(kSignalBase + number, "interrupted before a connection was made");
    return false;
  }
  fail(kTimedOut, fmt::format("no connection within {:g} s: {}",
                              static_cast<double>(options_.connect_timeout) / 1e9, path_states()));
  return false;
}

std::vector<std::uint32_t> PerfClient::sizes() const {
  if (!options_.all_sizes) return {options_.block_size};
  std::vector<std::uint32_t> all;
  for (std::uint32_t size = 2; size <= client_.max_io_size(); size *= 2) all.push_back(size);
  return all;
}

void PerfClient::measure() {
  const std::vector<std::uint32_t> all = sizes();
  if (all.back() > client_.max_io_size()) {
    return fail(kUsage, fmt::format("--bs: the server accepts at most {} bytes", client_.max_io_size()));
  }
  const auto data = fabric_.allocate(std::size_t{options_.iodepth} * std::max(all.back(), 1u));
  if (!data) return fail(kPrecondition, "no memory for the data");
  printer_.begin();
  for (const std::uint32_t bytes : all)
    if (!measure_size(*data, bytes)) break;
}

Meter::Progress PerfClient::progress() {
  if (!options_.interval && !tools::is_terminal(stderr)) return {};
  return [this](double at, double iops, double latency) {
    const std::string text = fmt::format("{:6.1f} s {:10.0f} IOPS {:8.2f} usec", at, iops, latency);
    if (options_.interval)
      fmt::print(stderr, "{}\n", text);
    else
      line_.show(text);
  };
}

bool PerfClient::measure_size(const Region& data, std::uint32_t bytes) {
  Load load(options_, client_, fabric_, data, bytes, progress());
  load.start(asio::steady_now());
  run_until(
      fabric_, options_.wait,
      [&](Nanos now) {
        const bool again = load.step(now);
        if (const int number = caught_signal(); number != 0)
          load.stop(now, kSignalBase + number, "interrupted: results so far");
        if (!again) tell_news();
        return again;
      },
      [&] { return std::min(load.next_deadline(), soon()); }, [&] { return load.done(); });
  line_.clear();
  tell_news();
  Result result = load.take_result();
  if (result.iterations != 0) {
    printer_.row(result);
    report_.results.push_back(std::move(result));
  }
  if (!load.failed()) return true;
  const bool interrupted = load.exit_code() > kSignalBase;
  // EINVAL means that this may be a server of block devices, which rejects requests without a device.
  const bool no_perf = load.failure().find("(errno 22)") != std::string::npos;
  fail(load.exit_code(), interrupted ? load.failure()
                                     : load.failure() + "; " + path_states() +
                                           (no_perf ? "; is that server an urtrs-perf?" : ""));
  return false;
}

void PerfClient::list_paths() {
  for (unsigned i = 0; i < client_.paths().size(); ++i) {
    const PathStatus& path = client_.paths()[i];
    report_.paths.push_back({asio::to_text(paths_[i]), to_string(path.state), path.ios, path.failovers,
                             path.reconnects, client_.device(i)});
  }
}

void PerfClient::close() {
  client_.close(fabric_, asio::steady_now());
  const Nanos end = asio::steady_now() + kCloseTime;
  run_until(
      fabric_, options_.wait,
      [this](Nanos now) {
        IoCompletion done;
        return client_.poll(fabric_, now, {&done, 1}) != 0;
      },
      [this] { return std::min(client_.next_deadline(), soon()); },
      [&] { return client_.closed() || asio::steady_now() >= end; });
}

}  // namespace

int run_client(const Options& options) {
  std::vector<PathAddress> paths;
  for (const std::string& address : options.addresses) {
    auto path = asio::parse_path(address, options.port);
    if (!path) {
      fmt::print(stderr, "urtrs-perf: {}\n", path.error());
      return kUsage;
    }
    paths.push_back(std::move(*path));
  }
  const auto fabric = open_fabric(options);
  if (fabric == nullptr) return kPrecondition;
  return PerfClient(options, *fabric, std::move(paths)).run();
}

}  // namespace rtrs::perf
