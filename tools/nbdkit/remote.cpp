#include "tools/nbdkit/remote.hpp"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include "backends/asio/path_syntax.hpp"
#include "core/base/assert_hook.hpp"
#include "core/record/writer.hpp"
#include "tools/nbdkit/explain.hpp"

namespace rtrs::nbdkit {
namespace {

using Error = boost::system::error_code;

const char* const kTool = "nbdkit-urtrs-plugin";

// Between two looks at whether the program is to end, while requests are under way.
constexpr std::chrono::milliseconds kEndCheck{200};
// What a connected server gets to answer the requests that are under way when the program is to end.
constexpr Nanos kEndGrace = seconds(5);

asio::RemoteDeviceOptions options_of(const Settings& settings) {
  asio::RemoteDeviceOptions options;
  options.session_name = settings.session;
  for (const std::string& text : settings.paths)
    options.paths.push_back(*asio::parse_path(text, settings.port));
  options.device = settings.device;
  options.access_mode = settings.access_mode;
  options.protocol = settings.protocol;
  return options;
}

const Error kTimedOut{ETIMEDOUT, boost::system::system_category()};

}  // namespace

tl::expected<std::unique_ptr<Remote>, std::string> Remote::open(const Settings& settings, Status::Lines lines,
                                                                std::function<bool()> ending) {
  std::unique_ptr<Remote> remote(new Remote(settings, std::move(lines), std::move(ending)));
  std::string why = remote->start();
  if (!why.empty()) return tl::unexpected(std::move(why));
  const Error error = remote->map();
  if (!error) return remote;
  remote->loop_.run([&] {
    const auto paths = remote->device_->paths();
    why = error == kTimedOut ? explain_timeout(settings, remote->start_bound_, paths)
                             : explain_map_failure(settings, error, paths);
  });
  return tl::unexpected(std::move(why));
}

Remote::Remote(const Settings& settings, Status::Lines lines, std::function<bool()> ending)
    : settings_(settings), lines_(std::move(lines)), ending_(std::move(ending)) {}

// Makes fabric and device on the loop's thread; what went wrong, or nothing.
std::string Remote::start() {
  std::string why;
  loop_.run([&] {
    tools::FabricChoice choice = settings_.fabric;
    choice.undelivered_timeout = dead_peer_time(settings_.protocol.heartbeat);
    choice.log = [this](tools::LogLevel, const std::string& text) { lines_(false, text); };
    auto fabric = tools::open_fabric(choice);
    if (!fabric) {
      why = std::move(fabric.error());
      return;
    }
    status_ = std::make_unique<Status>(settings_, lines_);
    if (!settings_.status.empty())
      status_writer_ = std::make_unique<LatestWriter>(
          [file = settings_.status](const std::string& content) { return replace_file(file, content); });
    timer_ = std::make_unique<boost::asio::steady_timer>(loop_.context());
    end_timer_ = std::make_unique<boost::asio::steady_timer>(loop_.context());
    asio::RemoteDeviceOptions options = options_of(settings_);
    options.on_path = [this](const PathEvent& news) {
      status_->on_path(news, {});
      note_name_refusal(news);
      on_lost_path(news);
      write_status();
    };
    options.on_device = [this](const asio::DeviceNews& news) {
      status_->on_device(news);
      write_status();
    };
    const std::string backend = (*fabric)->capabilities().name;
    device_ = std::make_unique<asio::RemoteDevice>(loop_.context(), std::move(*fabric), std::move(options));
    watch_for_trouble();
    if (settings_.trace.empty()) return;
    const trace::Origin origin{kTool, "client", backend, settings_.protocol.seed, settings_.given};
    const int error = device_->open_trace(settings_.trace, origin, settings_.trace_options);
    if (error != 0) why = "cannot write the trace " + settings_.trace + ": " + trace::file_error_text(error);
  });
  return why;
}

// The last records are written down when somebody asks for them by SIGUSR1, and when a broken invariant ends
// the program.
void Remote::watch_for_trouble() {
  signals_ = std::make_unique<boost::asio::signal_set>(loop_.context(), SIGUSR1);
  await_signal();
  if (settings_.trace_dump.empty()) return;
  set_assert_hook([](void* remote) noexcept { static_cast<Remote*>(remote)->dump_trace(); }, this);
}

void Remote::await_signal() {
  signals_->async_wait([this](Error error, int) {
    if (error) return;
    dump_trace();
    await_signal();
  });
}

// Where a path was lost and nobody asked for it. Not more often than every few seconds.
void Remote::on_lost_path(const PathEvent& news) {
  const Reason reason = news.path.reason;
  const bool lost = news.kind == PathEvent::Kind::path && news.path.state == PathState::draining &&
                    reason != Reason::none && reason != Reason::requested &&
                    reason != Reason::session_closed && reason != Reason::path_removed;
  if (!lost || settings_.trace_dump.empty() || news.at < next_dump_) return;
  next_dump_ = news.at + seconds(10);
  dump_trace();
}

void Remote::dump_trace() {
  if (!device_) return;
  const std::string file = !settings_.trace_dump.empty() ? settings_.trace_dump
                                                         : settings_.directory + "/nbdkit-urtrs-" +
                                                               std::to_string(::getpid()) + ".rtrc";
  const trace::Origin origin{kTool, "client", "", settings_.protocol.seed, settings_.given};
  const int error = device_->dump_trace(file, origin);
  lines_(true, error == 0
                   ? "wrote the last records to " + file + "; look at them with: urtrs-replay cat " + file
                   : "cannot write the last records to " + file + ": " + trace::file_error_text(error) +
                         "; trace_dump= names another file");
}

Error Remote::map() {
  return loop_.call([this](auto done) {
    // Whichever comes first tells the caller, and the other must not.
    auto told = std::make_shared<bool>(false);
    const auto tell = [this, told, done](Error error) {
      if (std::exchange(*told, true)) return;
      timer_->cancel();
      if (!error) tick();
      done(error);
    };
    await_start(settings_.connect_timeout, tell);
    device_->async_map(tell);
  });
}

// `bound`: since the start, which was start_bound_ ago.
void Remote::await_start(Nanos bound, std::function<void(Error)> tell) {
  timer_->expires_after(std::chrono::nanoseconds(bound - start_bound_));
  start_bound_ = bound;
  timer_->async_wait([this, tell = std::move(tell)](Error error) {
    if (error) return;
    const Nanos longer = settings_.taken_name_timeout();
    if (name_refused_ == 0 || start_bound_ >= longer) return tell(kTimedOut);
    lines_(true, "no path came up within " + duration_words(start_bound_) +
                     " (connect_timeout): " + taken_name_words(settings_) + ". Goes on trying, for " +
                     duration_words(longer) + " in all");
    await_start(longer, tell);
  });
}

void Remote::note_name_refusal(const PathEvent& news) {
  const bool failed = news.kind == PathEvent::Kind::path && news.path.attempt != 0 &&
                      news.path.state == PathState::waiting && news.path.path < kMaxPaths;
  const std::uint32_t bit = 1U << (news.path.path % kMaxPaths);
  if (failed && is_name_refusal(news.path.reason, news.path.peer_errno))
    name_refused_ |= bit;
  else if (failed)
    name_refused_ &= ~bit;
  else if (news.kind == PathEvent::Kind::path && news.path.state == PathState::connected)
    name_refused_ = 0;
}

void Remote::tick() {
  if (!timer_) return;
  OldestRequest oldest;
  const bool waits = device_ && device_->session().oldest_in_flight(oldest);
  status_->on_oldest_request(asio::steady_now(), waits ? &oldest : nullptr);
  write_status();
  report_trace();
  timer_->expires_after(std::chrono::seconds(1));
  timer_->async_wait([this](Error error) {
    if (!error) tick();
  });
}

void Remote::write_status() {
  if (!device_ || !status_writer_) return;
  status_writer_->put(status_->render(asio::steady_now(), device_->paths(), device_->session().stats()));
  const int error = status_writer_->last_error();
  if (error != 0 && error != status_errno_)
    lines_(true, "cannot write the status file " + settings_.status + ": " + errno_words(error) +
                     (error == EEXIST ? "; it or the file .new beside it is not a regular file" : ""));
  status_errno_ = error;
}

void Remote::report_trace() {
  const int error = device_ ? device_->trace_errno() : 0;
  if (error == 0 || std::exchange(trace_ended_, true)) return;
  lines_(true, "the trace " + settings_.trace + " ends here: " + errno_words(error) + "; IO goes on");
}

Remote::~Remote() {
  bool open = false;
  loop_.run([&] { open = device_ != nullptr; });
  if (open) {
    loop_.call([this](auto done) {
      if (closed_) return done({});
      when_closed_ = done;
      close_device();
    });
  }
  // Whatever is left in the loop ends here, on its thread.
  loop_.run([this] {
    set_assert_hook(nullptr, nullptr);
    signals_.reset();
    if (timer_) timer_->cancel();
    if (end_timer_) end_timer_->cancel();
    write_status();
    report_trace();
    device_.reset();
    timer_.reset();
    end_timer_.reset();
  });
  status_writer_.reset();
}

// Runs while requests are under way.
void Remote::watch_for_end() {
  if (!ending_ || close_begun_) return;
  watching_ = true;
  end_timer_->expires_after(kEndCheck);
  end_timer_->async_wait([this](Error error) {
    watching_ = false;
    if (error || under_way_ == 0) return;
    const Nanos now = asio::steady_now();
    if (end_by_ == kNever && ending_()) end_by_ = now + kEndGrace;
    const bool hopeless = end_by_ != kNever && !device_->session().link_up();
    if (!hopeless && now < end_by_) return watch_for_end();
    lines_(true, hopeless ? "the program is asked to end and no path is connected: requests that are not "
                            "answered yet fail at once"
                          : "the program is asked to end and the server did not answer within " +
                                duration_words(kEndGrace) + ": requests that are not answered yet fail");
    close_device();
  });
}

void Remote::close_device() {
  if (std::exchange(close_begun_, true)) return;
  device_->async_close([this](Error error) {
    closed_ = true;
    if (when_closed_) std::exchange(when_closed_, nullptr)(error);
  });
}

int Remote::io(const asio::DeviceIo& request) {
  const Error error = loop_.call([&](auto done) {
    const Nanos started = asio::steady_now();
    const Phase began = status_->phase();
    ++under_way_;
    if (!watching_) watch_for_end();
    device_->async_io(request, [this, started, began, done](Error result) {
      --under_way_;
      status_->on_request_done(began, asio::steady_now() - started, static_cast<bool>(result));
      done(result);
    });
  });
  return asio::to_errno(error);
}

Remote::Shape Remote::shape() {
  Shape shape;
  loop_.run([&] {
    shape.geometry = device_->geometry();
    shape.max_io_size = device_->session().max_io_size();
    shape.writable = device_->writable();
  });
  return shape;
}

}  // namespace rtrs::nbdkit
