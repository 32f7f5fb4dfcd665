#include "tools/nbdkit/remote.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <utility>

#include "backends/bindings/asio/path_syntax.hpp"
#include "backends/platform/system/clock.hpp"
#include "core/base/assert_hook.hpp"
#include "core/proto/reasons.hpp"
#include "core/record/writer.hpp"
#include "tools/nbdkit/explain.hpp"

namespace rtrs::nbdkit {
namespace {

using Error = boost::system::error_code;

trace::Origin origin_of(const std::string& backend, const std::vector<std::string>& options) {
  return {"nbdkit-urtrs-plugin", "client", backend, 0, options, platform::steady_now(), platform::wall_now()};
}

// kEndCheck: while requests are in flight, tick() checks once per this time whether the program should end.
// kReportPause: time between two status reports of tick().
constexpr Nanos kEndCheck = milliseconds(200);
constexpr Nanos kReportPause = seconds(1);
// When the program should end, a connected server gets this time to answer the pending requests.
constexpr Nanos kEndGrace = seconds(5);

BlockSessionOptions options_of(const plugin::Settings& settings) {
  BlockSessionOptions options;
  options.session_name = settings.session;
  for (const std::string& text : settings.paths)
    options.paths.push_back(*asio::parse_path(text, settings.port));
  options.protocol = settings.protocol;
  return options;
}

}  // namespace

tl::expected<std::unique_ptr<Remote>, std::string> Remote::open(const plugin::Settings& settings,
                                                                Status::Lines lines, Ending ending) {
  std::unique_ptr<Remote> remote(new Remote(settings, std::move(lines), std::move(ending)));
  std::string why = remote->start();
  if (!why.empty()) return tl::unexpected(std::move(why));
  why = remote->open_session();
  if (!why.empty()) return tl::unexpected(std::move(why));
  return remote;
}

Remote::Remote(const plugin::Settings& settings, Status::Lines lines, Ending ending)
    : settings_(settings), lines_(std::move(lines)), ending_(std::move(ending)) {}

// Creates the fabric and the session. Returns "" or an error text. Runs in the loop thread, because threads
// of the fabric inherit the signal mask of the thread that creates it.
std::string Remote::start() {
  std::string why;
  loop_.run([&] {
    tools::FabricChoice choice = settings_.fabric;
    choice.client = true;
    choice.undelivered_timeout = dead_peer_time(settings_.protocol.heartbeat);
    // The fabric log does not repeat failures of paths, which Status logs.
    choice.log = [this](tools::LogLevel level, const std::string& text) {
      lines_(level == tools::LogLevel::error || level == tools::LogLevel::unmet, text);
    };
    auto fabric = tools::open_fabric(choice);
    if (!fabric) {
      why = tools::with_underscores(std::move(fabric.error()));
      return;
    }
    const std::string backend = (*fabric)->capabilities().name;
    fabric_name_ = backend;
    fabric_ = fabric->get();
    make_session(std::move(*fabric));
    why = open_control();
    if (!why.empty()) return;
    if (settings_.trace.empty()) return;
    const trace::Origin origin = origin_of(backend, settings_.given);
    const Lock lock = session_->lock();
    const int error =
        session_->recorder().open_file(settings_.trace.c_str(), origin, settings_.file_options());
    if (error != 0) why = "cannot write the trace " + settings_.trace + ": " + trace::file_error_text(error);
  });
  return why;
}

void Remote::make_session(std::unique_ptr<Fabric> fabric) {
  status_ = std::make_unique<Status>(settings_, lines_);
  if (!settings_.status.empty())
    status_writer_ = std::make_unique<LatestWriter>(
        [file = settings_.status](const std::string& content) { return replace_file(file, content); });
  timer_ = std::make_unique<boost::asio::steady_timer>(loop_.context());
  // make_unique cannot be used, because it cannot convert *this to the private base class.
  session_.reset(new BlockSession(std::move(fabric), options_of(settings_), *this));
  watch_for_trouble();
}

// Writes the last trace records to a file on SIGUSR1, and when a failed assertion ends the program.
void Remote::watch_for_trouble() {
  signals_ = std::make_unique<boost::asio::signal_set>(loop_.context(), SIGUSR1);
  await_signal();
  if (settings_.trace_dump.empty()) return;
  // The hook takes no lock, because the thread with the failed assertion holds it.
  set_assert_hook([](void* remote) noexcept { static_cast<Remote*>(remote)->dump_trace(true); }, this);
}

void Remote::await_signal() {
  signals_->async_wait([this](Error error, int) {
    if (error) return;
    dump_trace(false);
    await_signal();
  });
}

void Remote::dump_trace(bool locked) {
  if (!session_) return;
  const std::string file = !settings_.trace_dump.empty() ? settings_.trace_dump
                                                         : settings_.directory + "/nbdkit-urtrs-" +
                                                               std::to_string(::getpid()) + ".rtrc";
  const trace::Origin origin = origin_of("", settings_.given);
  const auto dump = [&] { return session_->recorder().dump_ring(file.c_str(), origin); };
  const auto lock_and_dump = [&] {
    const Lock lock = session_->lock();
    return dump();
  };
  const int error = locked ? dump() : lock_and_dump();
  lines_(true, error == 0 ? "wrote the last records to " + file + "; show them with: urtrs-replay cat " + file
                          : "cannot write the last records to " + file + ": " +
                                trace::file_error_text(error) + "; trace_dump= names another file");
}

std::string Remote::open_session() {
  Lock lock = session_->lock();
  for (const std::string& name : settings_.devices) exports_.keep(name);
  Patience patience{asio::steady_now(), settings_.connect_timeout, true};
  const Errc opened = session_->open();
  opened_ = true;
  const Error error = opened == Errc::ok && !settings_.one_device() ? await_link(lock, patience)
                                                                    : asio::to_error_code(opened);
  std::string why;
  if (error) {
    why = explain(error, {}, settings_.access_mode, patience.bound);
  } else if (settings_.one_device()) {
    // detach() is never called for this use, so the device is opened only once.
    const auto use = attach(lock, settings_.devices.front(), settings_.access_mode, patience);
    if (!use) why = use.error();
  }
  if (why.empty()) boost::asio::post(loop_.context(), [this] { tick(); });
  // After a failure, does not wait for the response to a pending OPEN: it is not needed, and connect_timeout
  // limits the duration of the start.
  if (!why.empty()) {
    not_started_ = why;
    give_up(lock);
  }
  return why;
}

// Closes the session without waiting for responses. The server closes the devices when the session ends.
void Remote::give_up(Lock&) {
  for (unsigned path = 0; path < session_->session().paths().size(); ++path) session_->disconnect_path(path);
  close_begun_ = true;
  session_->close();
}

void Remote::on_event(const BlockEvent& event) {
  note_news(event);
  if (const auto* path = std::get_if<PathEvent>(&event)) on_path(*path);
  if (const auto* change = std::get_if<rnbd::DeviceChanged>(&event)) on_device(*change);
  if (const auto* replaced = std::get_if<rnbd::CacheReplaced>(&event)) {
    if (const Export* one = exports_.find(replaced->device))
      status_->on_device(one->name, {session_->client().state(replaced->device), 0, one->geometry, true,
                                     replaced->unflushed});
  }
  show_status_soon();
}

void Remote::show_status_soon() {
  if (!status_writer_ || std::exchange(status_due_, true)) return;
  boost::asio::post(loop_.context(), [this] { write_status(); });
}

void Remote::on_path(const PathEvent& news) {
  status_->on_path(news, {});
  note_name_refusal(news);
  on_lost_path(news);
}

void Remote::on_device(const rnbd::DeviceChanged& change) {
  Export* const one = exports_.find(change.device);
  if (one == nullptr) return;
  const bool refused = change.state == rnbd::DeviceState::closed && change.peer_errno != 0;
  // A rejected reopen is reported only if the errno differs from that of the previous rejection.
  if (!refused || change.peer_errno != one->refusal)
    status_->on_device(one->name, {change.state, change.peer_errno, change.geometry, false, 0});
  exports_.on_changed(*one, change);
  const std::string name = one->name;
  if (exports_.drop_if_unused(*one)) status_->forget(name);
}

// Writes the trace to a file if a path is lost and no command caused that; at most once in 10 s.
void Remote::on_lost_path(const PathEvent& news) {
  const bool lost = news.kind == PathEvent::Kind::path && news.path.state == PathState::draining &&
                    text_of(news.path.reason).kind != ReasonKind::wanted;
  if (!lost || settings_.trace_dump.empty() || news.at < next_dump_) return;
  next_dump_ = news.at + seconds(10);
  boost::asio::post(loop_.context(), [this] { dump_trace(false); });
}

void Remote::note_name_refusal(const PathEvent& news) {
  const bool failed = news.kind == PathEvent::Kind::path && news.path.attempt != 0 &&
                      news.path.state == PathState::waiting && news.path.path < kMaxPaths;
  if (failed && is_name_refusal(news.path.reason, news.path.peer_errno))
    name_refused_.set(news.path.path);
  else if (failed)
    name_refused_.reset(news.path.path);
  else if (news.kind == PathEvent::Kind::path && news.path.state == PathState::connected)
    name_refused_.reset();
}

void Remote::tick() {
  if (!timer_) return;
  const Nanos now = asio::steady_now();
  watch_for_end(now);
  close_unused(now);
  continue_mapping();
  if (control_) control_->go_on();
  if (now >= next_report_) {
    next_report_ = now + kReportPause;
    {
      const Lock lock = session_->lock();
      OldestRequest oldest;
      const bool waits = session_->session().oldest_in_flight(oldest);
      status_->on_oldest_request(now, waits ? &oldest : nullptr);
    }
    write_status();
    report_trace();
    warn_of_expiry(now);
  }
  const Lock lock = session_->lock();
  timer_->expires_after(std::chrono::nanoseconds(busy() ? kEndCheck : kReportPause));
  timer_->async_wait([this](Error error) {
    if (!error) tick();
  });
}

void Remote::watch_for_end(Nanos now) {
  {
    const Lock lock = session_->lock();
    if (close_begun_ || !busy()) return;
  }
  if (end_by_ == kNever && ending_ && ending_(false)) end_by_ = now + kEndGrace;
  if (end_by_ == kNever) return;
  const Lock lock = session_->lock();
  const bool hopeless = !session_->session().link_up();
  if (!hopeless && now < end_by_) return;
  lines_(true, hopeless ? "exiting on request, and no path is connected: pending requests fail now"
                        : "the program was asked to exit, and the server did not answer within " +
                              duration_words(kEndGrace) + ": requests that are not answered within another " +
                              duration_words(settings_.protocol.close_timeout) + " fail");
  close_begun_ = true;
  session_->close();
}

void Remote::write_status() {
  if (!session_ || !status_writer_) return;
  std::optional<Status> status;
  std::vector<PathStatus> paths;
  ClientStats stats;
  {
    const Lock lock = session_->lock();
    status_due_ = false;
    status.emplace(*status_);
    paths.assign(session_->session().paths().begin(), session_->session().paths().end());
    stats = session_->session().stats();
  }
  // Renders without the lock, because rendering takes long.
  status_writer_->put(status->render(asio::steady_now(), paths, stats));
  const int error = status_writer_->last_error();
  if (error != 0 && error != status_errno_)
    lines_(true, "cannot write the status file " + settings_.status + ": " + errno_words(error) +
                     (error == EEXIST ? "; it or the file .new beside it is not a regular file" : ""));
  status_errno_ = error;
}

void Remote::report_trace() {
  if (!session_) return;
  const auto ended = [this] {
    const Lock lock = session_->lock();
    return session_->recorder().file_errno();
  };
  const int error = ended();
  if (error == 0 || std::exchange(trace_ended_, true)) return;
  lines_(true, "the trace " + settings_.trace + " ends here: " + errno_words(error) + "; IO continues");
}

void Remote::warn_of_expiry(Nanos now) {
  if (!expiry_warning_.is_due(now)) return;
  const Lock lock = session_->lock();
  if (const std::string warning = tools::credentials_warning(*fabric_); !warning.empty())
    lines_(true, warning);
}

Remote::~Remote() {
  if (session_) {
    Lock lock = session_->lock();
    if (!std::exchange(close_begun_, true)) session_->close();
    while (!session_->closed()) session_->wait_for_news(lock, kNever);
    session_->recorder().close_file();
  }
  // Destroys the objects that the loop uses in the thread of the loop.
  loop_.run([this] {
    set_assert_hook(nullptr, nullptr);
    control_.reset();
    signals_.reset();
    timer_.reset();
    write_status();
    report_trace();
    session_.reset();
  });
  status_writer_.reset();
}

unsigned Remote::on_io_begin() {
  return static_cast<unsigned>(status_->phase());
}

void Remote::on_io_end(unsigned begun, Nanos latency, bool failed) {
  status_->on_request_done(static_cast<Phase>(begun), latency, failed);
}

}  // namespace rtrs::nbdkit
