#include "tools/urtrsd/daemon.hpp"

#include <malloc.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <new>
#include <random>
#include <utility>

#include "backends/platform/address/socket_address.hpp"
#include "core/base/assert.hpp"
#include "core/base/assert_hook.hpp"
#include "core/base/counted.hpp"
#include "core/proto/reasons.hpp"
#include "core/wire/linux_errno.hpp"
#include "tools/lib/control/limits/urtrsd.hpp"
#include "tools/lib/text/printable.hpp"
#include "tools/urtrsd/config/config_values.hpp"
#include "tools/urtrsd/start_trial.hpp"

namespace rtrs::daemon {
namespace {

// Lane in BlockingJobs for trimming the heap. The lane of a session is its serial, which starts at 1.
constexpr BlockingJobs::Lane kMemory = ~BlockingJobs::Lane{1};

ServerConfig protocol_config(const DaemonConfig& config, const Capabilities& fabric) {
  ServerConfig protocol = config.protocol;
  protocol.max_host_sessions = static_cast<std::uint16_t>(tools::host_sessions_of(protocol));
  protocol.always_invalidate = config.always_invalidate.value_or(fresh_keys_protect(fabric));
  protocol.send_invalidate = !config.assume_kernel_6_12_clients;
  if (fabric.send_invalidate_is_slow && protocol.extensions != wire::Extensions::none)
    protocol.extensions |= wire::Extensions::keys_stay;
  // A response takes at most three work requests (SendQueue::kMaxBatch). With 32 entries for other messages,
  // a send queue of the default depth takes 512 KiB on mlx5; more would take 1 MiB.
  protocol.send_depth = static_cast<std::uint16_t>(std::min(3 * protocol.queue_depth + 32, 4096));
  return protocol;
}

// Returns CLIENT from an address pair "CLIENT > SERVER".
std::string_view client_of(std::string_view ends) {
  return ends.substr(0, ends.find(' '));
}

// Returns the host that is charged for the open files of a client. All clients with an unknown address count
// as one host.
DescriptorBudget::Host host_of(std::string_view client) {
  const Result<net::SocketAddress> address = net::parse_address(client, 0);
  return address ? net::host_digest(*address) : 0;
}

// Converts an address pair "CLIENT > SERVER" to "SRC@DST".
std::string path_of(std::string_view ends) {
  const attributes::PathEnds path = attributes::path_ends(ends);
  return path.source + "@" + path.destination;
}

std::uint64_t descriptor_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
}

}  // namespace

Daemon::Daemon(boost::asio::io_context& context, const DaemonConfig& config, std::unique_ptr<Fabric> fabric,
               std::unique_ptr<Catalog> catalog, std::unique_ptr<StorageEngine> engine,
               const ServiceEnvironment& service)
    : context_(context),
      config_(config),
      catalog_(std::move(catalog)),
      engine_(std::move(engine)),
      fabric_(std::move(fabric)),
      server_(clamp_to(protocol_config(config, fabric_->capabilities()), fabric_->capabilities()),
              std::random_device{}(), &recorder_),
      descriptors_(descriptor_limit()),
      engine_events_(context),
      signals_(context),
      shutdown_(context),
      memory_timer_(context),
      expiry_timer_(context),
      retry_timer_(context),
      pump_(context, *fabric_, config.busy_poll ? asio::WaitMode::busy_poll : asio::WaitMode::events,
            {[this](Nanos now) { return this->step(now); },
             [this] { return std::min(server_.next_deadline(), log_.next_due()); }},
            config.poll),
      service_(context, service),
      jobs_(context) {
  catalog_->set_log([](const std::string& line) { spdlog::warn("{}", line); });
  catalog_->wait_for_nbd(config.nbd_wait);
}

Daemon::~Daemon() {
  set_assert_hook(nullptr, nullptr);
  pump_.stop();
  if (engine_events_.is_open()) engine_events_.release();  // the engine owns the descriptor
}

int Daemon::start() {
  // Before listening, because clients and scripts may send signals as soon as urtrsd listens.
  wait_for_signals();
  if (const auto why = missing_invalidation(config_, fabric_->capabilities())) {
    spdlog::error("{}", *why);
    return 3;
  }
  if (!config_.trace.empty() && !open_trace(config_.trace).empty()) return 1;
  if (!config_.trace_dump.empty()) {
    const auto dump = [](void* daemon) noexcept {
      auto* self = static_cast<Daemon*>(daemon);
      self->dump_trace(self->config_.trace_dump);
    };
    set_assert_hook(dump, this);
  }
  server_.set_access(access_of(config_));
  if (!config_.always_invalidate) server_.invalidate_where_it_protects();
  if (!listen()) return 3;
  for (const ExportSpec& spec : catalog_->specs())
    if (!is_missing(spec.name)) log_export(spec);
  spdlog::info("always_invalidate is {}", always_invalidates() ? "on" : "off");
  open_control();
  if (!open_or_miss_metrics()) return 3;
  wait_for_storage();
  pump_.start();
  watch_expiry();
  spdlog::info("ready");
  spdlog::default_logger()->flush();
  service_.ready(service_status());
  return 0;
}

bool Daemon::always_invalidates() const {
  return config_.always_invalidate.value_or(fresh_keys_protect(fabric_->capabilities()));
}

bool Daemon::step(Nanos now) {
  const std::size_t count = server_.poll(*fabric_, now, actions_);
  for (const block::Action& action : std::span(actions_).first(count)) {
    // StartStorage is tested first, because every IO causes one.
    if (const auto* storage = std::get_if<block::StartStorage>(&action))
      perform(*storage);
    else
      std::visit([this](const auto& one) { this->perform(one); }, action);
  }
  report_news();
  if (log_.next_due() <= now) log_.tell();
  const bool more = run_storage();
  if (stopping_ && server_.closed() && engine_->in_flight() == 0 && jobs_.unfinished() == 0) {
    context_.stop();
    return false;
  }
  return more || count != 0;
}

// Returns true if an operation completed, or if there is more work that can be done immediately.
bool Daemon::run_storage() {
  if (std::exchange(submitted_, false)) engine_->start_submitted();
  if (!engine_->has_news()) return false;
  const std::size_t count = engine_->poll(done_);
  const Nanos now = asio::steady_now();
  const Server::ResponseBatch answers = server_.gather(*fabric_);
  for (const StorageResult& one : std::span(done_).first(count)) {
    if (one.error != 0) [[unlikely]]
      log_failure(one);
    server_.storage_done(*fabric_, now, one.id, one.error, one.sync_failed);
  }
  return count != 0 || submitted_ || engine_->has_news();
}

void Daemon::wait_for_storage() {
  if (engine_->fd() < 0) return;
  if (!engine_events_.is_open()) engine_events_.assign(engine_->fd());
  engine_events_.async_wait(boost::asio::posix::stream_descriptor::wait_read,
                            [this](const boost::system::error_code& error) {
                              if (error) return;
                              run_storage();
                              pump_.step_soon();  // sends the responses and continues with pending work
                              wait_for_storage();
                            });
}

void Daemon::wait_for_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGHUP}) signals_.add(number);
  signals_.async_wait([this](const boost::system::error_code& error, int number) {
    if (error) return;
    if (number == SIGUSR1) {
      dump_trace(config_.trace_dump.empty() ? "urtrsd-" + std::to_string(::getpid()) + ".rtrc"
                                            : config_.trace_dump);
    } else if (number == SIGUSR2) {
      toggle_trace();
    } else if (number == SIGHUP) {
      reload([](const Reloaded&) {});
    } else if (stopping_) {
      return exit_immediately("second signal");
    } else {
      begin_shutdown(number == SIGINT ? "SIGINT" : "SIGTERM");
    }
    wait_for_signals();
  });
}

void Daemon::begin_shutdown(const char* why) {
  spdlog::info("{}: closing {}; signal again to exit immediately", why,
               counted(server_.transport().session_count(), "session"));
  stopping_ = true;
  retry_timer_.cancel();
  service_.stopping(fmt::format("{}: closing {}", why, counted(open_sessions_, "session")));
  server_.close(*fabric_, asio::steady_now());
  catalog_->stop_waiting_for_nbd();
  pump_.step_soon();
  if (config_.shutdown_timeout == kNever) return;
  shutdown_.expires_after(std::chrono::nanoseconds(config_.shutdown_timeout));
  shutdown_.async_wait([this](const boost::system::error_code& error) {
    if (!error)
      exit_immediately("shutdown_timeout = " + find_setting("shutdown_timeout")->show(config_) + " is over");
  });
}

// Does not wait: a hanging device may never complete its operations, and operations cannot be cancelled.
void Daemon::exit_immediately(const std::string& why) {
  spdlog::warn("{}: exiting with {} in flight and {} being opened or closed{}", why,
               counted(engine_->in_flight(), "operation"), counted(jobs_.unfinished(), "device"),
               hung_operations());
  recorder_.close_file();
  catalog_->set_log({});  // threads of NBD disks may outlive the log
  forced_ = true;
  context_.stop();
}

void Daemon::log_refused(const PathEvent& news) {
  const ReasonText& why = text_of(news.reason);
  // With shared keys, every connect is first rejected with a challenge. These rejections must not use up the
  // rate limit for real errors.
  if (news.reason == Reason::challenged)
    return spdlog::debug("sent {} a key challenge", client_of(news.peer));
  std::string facts = news.refusal_words;
  if (news.reason == Reason::too_many_sessions) {
    const ServerConfig limits = protocol_config(config_, fabric_->capabilities());
    facts = fmt::format("{} open (max_sessions = {}, max_host_sessions = {})",
                        counted(open_sessions_, "session"), limits.max_sessions, limits.max_host_sessions);
  }
  log_.write(LogKind::refused_connect, spdlog::level::warn,
             LogFields{{}, path_of(news.peer), why.code, news.refusal},
             "refused a connect request: peer={}{} reason={} errno={}: {}{}{}; {}", client_of(news.peer),
             identity_field(news.identity), why.code, news.refusal, why.sentence, facts.empty() ? "" : ": ",
             facts, why.hint);
}

void Daemon::log_path(const PathEvent& news) {
  const std::string& name = news.session_name;
  const bool down = news.path.state == PathState::closing || news.path.state == PathState::draining;
  const LogKind kind = name.empty() ? LogKind::unnamed_path : down ? LogKind::path_down : LogKind::path_up;
  const ReasonText& why = text_of(news.path.reason);
  const bool mend = why.kind == ReasonKind::refused || why.kind == ReasonKind::broken;
  LogFields fields{tools::printable(name), path_of(news.peer), {}, 0};
  std::string end;
  if (news.path.reason != Reason::none) {
    fields.reason = why.code;
    fields.error = news.path.peer_errno != 0 ? news.path.peer_errno : why.linux_errno;
    if (!news.refused_name.empty())
      end = fmt::format(" asked_name={}{}", in_quotes(news.refused_name), identity_field(news.identity));
    end += fmt::format(" reason={} errno={}: {}{}{}{}{}", why.code, fields.error, why.sentence,
                       news.refusal_words.empty() ? "" : ": ", news.refusal_words, mend ? "; " : "",
                       mend ? why.hint : "");
  }
  log_.write(kind, mend ? spdlog::level::warn : spdlog::level::info, fields,
             "session={} name={} path={} index={} peer={} state={}{}", news.session, in_quotes(name),
             fields.path, news.path.path % kMaxPaths, client_of(news.peer), to_string(news.path.state), end);
}

void Daemon::report_news() {
  while (server_.take_news(path_event_)) {
    const PathEvent& news = path_event_;
    if (news.kind == PathEvent::Kind::refused) log_refused(news);
    if (control_ != nullptr && news.kind == PathEvent::Kind::refused) control_->tell(news);
    if (news.kind != PathEvent::Kind::path) continue;
    log_path(news);
    if (news.path.state == PathState::draining || news.path.state == PathState::closing)
      schedule_malloc_trim();
    if (control_ != nullptr) control_->tell(news);
    report_trace(news);
  }
  if (recorder_.file_failed() && !tracing_.empty()) {
    spdlog::error("the trace {} ends here: {}; IO continues", in_quotes(tracing_),
                  errno_text(recorder_.file_errno()));
    tracing_.clear();
  }
}

// malloc does not return the memory of closed paths to the system until malloc_trim() is called. The call is
// delayed, so that one call serves many closed paths, because it scans the whole heap.
void Daemon::schedule_malloc_trim() {
  constexpr std::chrono::seconds kPause{5};
  if (std::exchange(memory_timer_set_, true)) return;
  memory_timer_.expires_after(kPause);
  memory_timer_.async_wait([this](const boost::system::error_code& error) {
    memory_timer_set_ = false;
    if (error) return;
    // Runs in a thread, because trimming 150 MiB takes about 50 ms.
    jobs_.run(kMemory, [] {
      ::malloc_trim(0);
      return [] {};
    });
  });
}

void Daemon::watch_expiry() {
  constexpr std::chrono::hours kPause{1};
  expiry_timer_.expires_after(kPause);
  expiry_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    if (expiry_warning_.is_due(now()))
      if (const std::string warning = tools::credentials_warning(*fabric_); !warning.empty())
        spdlog::warn("{}", warning);
    watch_expiry();
  });
}

void Daemon::perform(const block::SessionOpened& action) {
  try {
    if (sessions_.size() <= action.session) sessions_.resize(action.session + 1U);
    engine_->reserve((open_sessions_ + 1) * config_.protocol.queue_depth);
    const std::string peer = server_.transport().peer(action.session);
    sessions_[action.session] =
        std::make_unique<Session>(Session{std::string(action.name), std::string(client_of(peer)),
                                          path_of(peer), action.serial, host_of(client_of(peer))});
  } catch (const std::bad_alloc&) {
    no_memory_for(action.session, action.name);
    return server_.close_session(*fabric_, asio::steady_now(), action.session);
  }
  ++open_sessions_;
  service_.status(service_status());
  log_.write(LogKind::session, spdlog::level::info, fields_of(action.session), "{} opened{}",
             who(action.session), identity_field(server_.transport().identity(action.session)));
}

void Daemon::perform(const block::SessionRefused& action) {
  no_memory_for(action.session, action.name);
}

void Daemon::no_memory_for(std::uint16_t session, std::string_view name) {
  log_.write(LogKind::session, spdlog::level::err, LogFields{tools::printable(name), {}, {}, ENOMEM},
             "session={} name={} peer={} is closed: no memory for it", session, in_quotes(std::string(name)),
             client_of(server_.transport().peer(session)));
}

void Daemon::perform(const block::SessionClosed& action) {
  if (action.session >= sessions_.size() || sessions_[action.session] == nullptr) return;
  if (action.unknown_flags != 0)
    log_.write(LogKind::session, spdlog::level::warn, fields_of(action.session),
               "{} sent {} with unknown flags; the flags were ignored", who(action.session),
               counted(action.unknown_flags, "IO"));
  log_.write(LogKind::session, spdlog::level::info, fields_of(action.session), "{} closed",
             who(action.session));
  sessions_[action.session].reset();
  --open_sessions_;
  if (!stopping_) service_.status(service_status());
}

std::string Daemon::who(std::uint16_t session) const {
  const Session& asked = *sessions_[session];
  return fmt::format("session={} name={} peer={}", session, in_quotes(asked.name), asked.peer);
}

LogFields Daemon::fields_of(std::uint16_t session, int error) const {
  return {tools::printable(sessions_[session]->name), sessions_[session]->path, {}, error};
}

void Daemon::perform(const block::StartStorage& action) {
  submitted_ = true;
  // submit() cannot fail, because reserve() made room for all requests that the sessions can have in flight.
  const bool accepted = engine_->submit(action, *devices_.at(action.handle).opened.device);
  RTRS_ASSERT(accepted);
}

}  // namespace rtrs::daemon
