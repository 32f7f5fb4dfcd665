#include "tools/nbdkit/status.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/base/counted.hpp"
#include "core/proto/reasons.hpp"
#include "tools/lib/control/client/client_facts.hpp"
#include "tools/lib/text/json_text.hpp"
#include "tools/lib/text/times.hpp"
#include "tools/nbdkit/explain.hpp"

namespace rtrs::nbdkit {

using namespace tools::field;
using tools::micros_of, tools::seconds_between, tools::seconds_of;

namespace {

constexpr std::size_t kMaxEvents = 1000;
constexpr const char* kDeviceStates = "init|open|closed|unmapping|unmapped";

std::int64_t unix_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::uint64_t bytes_of(const asio::DeviceNews& news) {
  return news.geometry.nsectors * wire::rnbd::kSectorBytes;
}

std::string in_seconds(Nanos time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", seconds_of(time));
  return text;
}

// True if this side requested the end of the path.
bool is_wanted(Reason reason) {
  return text_of(reason).kind == ReasonKind::wanted;
}

// Returns a description and the code that docs/reasons.md lists, for example "connection refused
// [connect_refused]".
std::string with_code(Reason reason, std::uint16_t peer_errno) {
  return reason_words(reason, peer_errno) + " [" + to_string(reason) + "]";
}

}  // namespace

Status::Status(const plugin::Settings& settings, Lines lines)
    : settings_(settings),
      lines_(std::move(lines)),
      started_(asio::steady_now()),
      paths_(settings.paths.size()) {
  for (const std::string& name : settings.devices) device(name);
}

Status::Device& Status::device(const std::string& name) {
  const auto found = std::ranges::find(devices_, name, &Device::name);
  if (found != devices_.end()) return *found;
  Device& made = devices_.emplace_back();
  made.name = name;
  return made;
}

void Status::on_use(const std::string& name, unsigned connections, bool read_only) {
  Device& one = device(name);
  one.connections = connections;
  one.read_only = read_only;
}

void Status::forget(const std::string& name) {
  if (std::ranges::find(settings_.devices, name) != settings_.devices.end()) return;
  std::erase_if(devices_, [&name](const Device& one) { return one.name == name; });
}

void Status::note(Event event) {
  event.at -= std::min(event.at, started_);
  event.unix_ms = unix_ms();
  if (events_.size() == kMaxEvents) {
    events_.pop_front();
    ++events_dropped_;
  }
  events_.push_back(std::move(event));
}

void Status::on_path_added(unsigned path) {
  if (path >= paths_.size()) paths_.resize(path + 1U);
  paths_[path] = Path{};
}

std::string Status::what_is_left() const {
  const auto up =
      std::count_if(paths_.begin(), paths_.end(), [](const Path& path) { return path.connected; });
  const auto all =
      std::count_if(paths_.begin(), paths_.end(), [](const Path& path) { return !path.removed; });
  if (up > 0) return "IO continues on " + std::to_string(up) + " of " + counted(all, "path");
  if (std::none_of(paths_.begin(), paths_.end(), [](const Path& path) { return path.ever; }))
    return "no path is connected yet";
  return "no path left, IO waits up to " + duration_words(settings_.protocol.queue_timeout) +
         " (queue_timeout)";
}

void Status::on_path_connected(Nanos at, Path& path, const std::string& name) {
  std::string line = name + ": connected";
  const bool news = path.ever || path.failed != 0;
  if (path.ever) line += " again after " + in_seconds(at - path.lost_at);
  if (news) line += " (" + std::to_string(path.failed + 1) + (path.failed == 0 ? " attempt)" : " attempts)");
  path.connected = true;
  path.ever = true;
  path.failed = 0;
  lines_(news, news ? line + "; " + what_is_left() : line);
}

void Status::on_attempt_failed(const PathChanged& change, Path& path, const std::string& name,
                               const std::string& reason) {
  path.failed = change.attempt;
  const bool important = std::has_single_bit(path.failed);
  const std::int32_t most = settings_.protocol.max_reconnect_attempts;
  lines_(important, name + ": attempt " + std::to_string(path.failed) +
                        (most < 0 ? "" : " of " + std::to_string(most)) + ", next in " +
                        in_seconds(change.delay) + " (last: " + reason + "); " + what_is_left());
}

void Status::on_path_changed(Nanos at, const PathChanged& change) {
  if (change.path >= paths_.size() || change.path >= settings_.paths.size()) return;
  Path& path = paths_[change.path];
  const std::string name = "session " + settings_.session + ", path " + settings_.paths[change.path];
  const std::string reason = with_code(change.reason, change.peer_errno);
  const bool connected = change.state == PathState::connected;
  if (path.connected && !connected) {
    path.connected = false;
    path.lost_at = at;
    path.lost_reason = change.reason;
    lines_(!is_wanted(change.reason), name + " lost: " + reason + "; " + what_is_left());
  } else if (connected) {
    on_path_connected(at, path, name);
  } else if (change.state == PathState::waiting && change.attempt != 0) {
    on_attempt_failed(change, path, name, reason);
  } else if (change.state == PathState::closed && !is_wanted(change.reason)) {
    const bool hidden = change.reason == Reason::attempts_exhausted && !path.reason.empty();
    lines_(true, name + " is closed and will not be retried: " + reason +
                     (hidden ? " (last: " + path.reason + ")" : "") + "; " + what_is_left());
  } else {
    const bool known = change.reason == Reason::none && !path.reason.empty();
    lines_(false, name + ": " + to_string(change.state) + (known ? ", last: " + path.reason : ""));
  }
  if (change.state == PathState::absent) {
    path.removed = true;
    path.ever = false;
  }
  if (connected)
    path.reason.clear();
  else if (change.reason != Reason::none)
    path.reason = reason;
  Event event;
  event.at = at;
  event.path = change.path;
  event.what = to_string(change.state);
  event.reason = to_string(change.reason);
  event.error = change.peer_errno;
  event.attempt = change.attempt;
  event.delay = change.delay;
  note(std::move(event));
}

void Status::on_path(const PathEvent& news, std::span<const PathStatus>) {
  if (news.kind == PathEvent::Kind::path) {
    on_path_changed(news.at, news.path);
  } else {
    Event event;
    event.at = news.at;
    event.what = news.kind == PathEvent::Kind::link_up     ? "link_up"
                 : news.kind == PathEvent::Kind::link_down ? "link_down"
                                                           : "session_ended";
    event.reason = to_string(news.reason);
    link_up_ = news.kind == PathEvent::Kind::link_up;
    lines_(false, event.what);
    note(std::move(event));
  }
  const auto missing = [](const Path& path) { return path.ever && !path.connected; };
  const bool any_lost = std::any_of(paths_.begin(), paths_.end(), missing);
  latency_.set_paths(!any_lost, any_lost);
}

void Status::on_replaced_cache(const std::string& name, const asio::DeviceNews& news) {
  Event event;
  event.device = name;
  event.at = asio::steady_now();
  event.what = "device_cache_replaced";
  const bool lost = news.unflushed != 0;
  if (lost) event.error = EIO;
  lines_(true,
         "device " + name + ": the server restarted without its cache" +
             (lost ? ": " + std::to_string(news.unflushed) +
                         " acknowledged writes were not flushed and may be lost; the next flush and the next "
                         "write with FUA fail with EIO"
                   : "; every acknowledged write was flushed before, so nothing of a file or disk is lost") +
             "; a memory export (mem:) is empty again");
  note(std::move(event));
}

void Status::on_device(const std::string& name, const asio::DeviceNews& news) {
  if (news.cache_replaced) return on_replaced_cache(name, news);
  Device& one = device(name);
  const bool open = news.state == rnbd::DeviceState::open;
  one.reason = open ? rnbd::reason_of_change(one.news.geometry, news.geometry)
                    : rnbd::reason_of_refusal(static_cast<std::uint16_t>(news.error));
  const bool has_reason = one.reason != rnbd::DeviceReason::none;
  Event event;
  event.at = asio::steady_now();
  event.device = name;
  event.what = std::string("device_") + rnbd::to_string(news.state);
  event.error = news.error;
  if (has_reason) event.reason = rnbd::text_of(one.reason).code;
  // If the device never opened, the line is not important, because the caller reports the error.
  lines_(has_reason && news.state != rnbd::DeviceState::unmapped,
         "device " + name + " " + rnbd::to_string(news.state) +
             device_words(news, one.news.geometry, one.reason));
  one.news = news;
  note(std::move(event));
}

// Returns ": " and what has changed on the device, or why the device cannot be used and what to do; empty if
// there is no reason.
std::string Status::device_words(const asio::DeviceNews& news, const rnbd::Geometry& before,
                                 rnbd::DeviceReason reason) const {
  if (reason == rnbd::DeviceReason::none) return {};
  const rnbd::DeviceReasonText& text = rnbd::text_of(reason);
  const std::string code = std::string(" [") + text.code + "]";
  if (news.state == rnbd::DeviceState::unmapped) return ": " + errno_words(news.error);
  if (news.state != rnbd::DeviceState::open)
    return ": " + std::string(text.sentence) + ": " + errno_words(news.error) + code + "; " +
           (text.may_pass ? "IO waits up to " + duration_words(settings_.protocol.queue_timeout) +
                                " (queue_timeout) while the device is tried again"
                          : "IO fails until the server opens the device, which is tried again") +
           "; " + text.hint;
  const auto changed = [](const char* what, std::uint64_t from, std::uint64_t to, const char* unit) {
    return std::string(what) + " changed from " + std::to_string(from) + " to " + std::to_string(to) + unit;
  };
  std::string line;
  if (before.logical_block_size != news.geometry.logical_block_size)
    line += ": " + changed("its logical block size", before.logical_block_size,
                           news.geometry.logical_block_size, " bytes");
  if (before.nsectors != news.geometry.nsectors)
    line += (line.empty() ? ": " : ", ") +
            changed("its size", before.nsectors, news.geometry.nsectors, " sectors of 512 bytes");
  return line + code + "; " + text.hint;
}

void Status::on_request_done(Phase began, Nanos latency, bool failed) noexcept {
  latency_.add(began, latency);
  request_errors_ += failed ? 1 : 0;
}

void Status::on_oldest_request(Nanos now, const OldestRequest* oldest) {
  oldest_ = oldest != nullptr ? std::optional(*oldest) : std::nullopt;
  const Nanos age = oldest != nullptr && now > oldest->since ? now - oldest->since : 0;
  if (age < kSlowRequest && next_warning_ > kSlowRequest) {
    next_warning_ = kSlowRequest;
    lines_(true, "the server answers again: no request waits for longer than " + in_seconds(kSlowRequest));
  }
  if (age < next_warning_) return;
  next_warning_ = 2 * age;
  const std::string path =
      oldest->path < settings_.paths.size() ? " (" + settings_.paths[oldest->path] + ")" : "";
  lines_(true, "the server has not answered a request for " + in_seconds(age) + ": path " +
                   std::to_string(oldest->path) + path + ", connection " + std::to_string(oldest->con) +
                   "; its storage may be slow, or the network drops large packets, which the server logs; "
                   "request_timeout= bounds the wait");
}

struct Status::Facts {
  struct At {
    const Status& status;
    const Device& first;
    Nanos now;
  };
  static constexpr tools::Fact<At> kStatus[] = {
      RTRS_FACT(plain("format"), 1),
      RTRS_FACT(plain("pid"), ::getpid()),
      RTRS_FACT(text("session"), at.status.settings_.session),
      RTRS_FACT(text("device"), at.first.name),
      RTRS_FACT(text("state").of(kDeviceStates), rnbd::to_string(at.first.news.state)),
      RTRS_FACT(size("size_bytes"), bytes_of(at.first.news)),
      RTRS_FACT(text("link").of("up|down"), at.status.link_up_ ? "up" : "down"),
      RTRS_FACT(text("phase").of("before|during|after"), to_string(at.status.phase())),
      RTRS_FACT(real("uptime_s"), seconds_between(at.status.started_, at.now)),
      RTRS_FACT(plain("request_errors"), at.status.request_errors_),
      RTRS_FACT(plain("events_dropped"), at.status.events_dropped_),
  };

  static constexpr tools::Fact<Device> kDevice[] = {
      RTRS_FACT(text("name"), at.name),
      RTRS_FACT(text("state").of(kDeviceStates), rnbd::to_string(at.news.state)),
      RTRS_FACT(size("size_bytes"), bytes_of(at.news)),
      RTRS_FACT(flag("read_only"), at.read_only),
      RTRS_FACT(plain("errno"), at.news.error),
      RTRS_FACT(text("reason"), rnbd::text_of(at.reason).code),
      RTRS_FACT(plain("connections"), at.connections),
  };

  struct PathAt {
    const Status& status;
    std::size_t index;
    const PathStatus& path;
  };
  static constexpr tools::Fact<PathAt> kPath[] = {
      RTRS_FACT(plain("index"), at.index),
      RTRS_FACT(text("address"),
                at.index < at.status.settings_.paths.size() ? at.status.settings_.paths[at.index] : ""),
      RTRS_FACT(text("state").of("absent|connecting|connected|draining|waiting|closing|closed"),
                to_string(at.path.state)),
      RTRS_FACT(text("lost_reason").was("/last_cause"),
                to_string(at.index < at.status.paths_.size() ? at.status.paths_[at.index].lost_reason
                                                             : Reason::none)),
      RTRS_FACT(text("reason"), to_string(at.path.reason)),
      RTRS_FACT(plain("errno"), at.path.peer_errno),
      RTRS_FACT(plain("attempt"), at.path.attempt),
      RTRS_FACT(plain("reconnects"), at.path.reconnects),
      RTRS_FACT(plain("failed_attempts"), at.path.failed_attempts),
      RTRS_FACT(plain("ios"), at.path.ios),
      RTRS_FACT(plain("failovers"), at.path.failovers),
      RTRS_FACT(plain("inflight"), at.path.inflight),
      RTRS_FACT(real("rtt_us").was("/heartbeat_latency_us"), micros_of(at.path.heartbeat_latency)),
      RTRS_FACT(real("state_at_s").was("/since_s"), seconds_between(at.status.started_, at.path.since)),
  };

  static constexpr tools::Fact<tools::Histogram> kLatency[] = {
      RTRS_FACT(plain("ios"), at.count()),
      RTRS_FACT(real("mean_us"), at.mean() / 1e3),
      RTRS_FACT(real("p50_us"), micros_of(at.percentile(50))),
      RTRS_FACT(real("p99_us"), micros_of(at.percentile(99))),
      RTRS_FACT(real("max_us"), micros_of(at.max())),
  };

  static constexpr tools::Fact<Event> kEvent[] = {
      RTRS_FACT(real("at_s"), seconds_of(at.at)),
      RTRS_FACT(plain("unix_ms"), at.unix_ms),
      RTRS_FACT(plain("path"), at.path),
      RTRS_FACT(text("device"), at.device),
      RTRS_FACT(text("what"), at.what),
      RTRS_FACT(text("reason"), at.reason),
      RTRS_FACT(plain("errno"), at.error),
      RTRS_FACT(plain("attempt"), at.attempt),
      RTRS_FACT(real("next_attempt_s"), seconds_of(at.delay)),
  };
};

std::map<std::string, std::vector<tools::Field>> Status::fields() {
  using tools::fields_of;
  auto status = fields_of<Facts::At>(Facts::kStatus);
  std::ranges::copy(fields_of(control::client_stats_facts()), std::back_inserter(status));
  return {{"status", std::move(status)},
          {"device", fields_of<Device>(Facts::kDevice)},
          {"path", fields_of<Facts::PathAt>(Facts::kPath)},
          {"latency", fields_of<tools::Histogram>(Facts::kLatency)},
          {"event", fields_of<Event>(Facts::kEvent)}};
}

std::string Status::render(Nanos now, std::span<const PathStatus> paths, const ClientStats& stats) const {
  using nlohmann::json, tools::to_json;
  const Device first = devices_.empty() ? Device{} : devices_.front();
  json out = to_json<Facts::At>(Facts::kStatus, {*this, first, now});
  out.update(to_json(control::client_stats_facts(), stats));
  out["oldest_request"] = nullptr;
  if (oldest_)
    out["oldest_request"] = {{"age_s", seconds_between(oldest_->since, now)},
                             {"path", oldest_->path},
                             {"connection", oldest_->con}};
  for (const char* list : {"devices", "paths", "events"}) out[list] = json::array();
  for (const Device& one : devices_) out["devices"].push_back(to_json<Device>(Facts::kDevice, one));
  for (std::size_t i = 0; i < paths.size(); ++i)
    out["paths"].push_back(to_json<Facts::PathAt>(Facts::kPath, {*this, i, paths[i]}));
  for (const Phase phase : {Phase::before, Phase::during, Phase::after})
    out["latency"][to_string(phase)] = to_json<tools::Histogram>(Facts::kLatency, latency_.of(phase));
  for (const Event& one : events_) out["events"].push_back(to_json<Event>(Facts::kEvent, one));
  return tools::json_text(out, 1) + "\n";
}

}  // namespace rtrs::nbdkit
