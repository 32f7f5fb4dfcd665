#include "tools/urtrsd/log.hpp"

#include <poll.h>
#include <spdlog/async.h>
#include <spdlog/details/null_mutex.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <future>
#include <memory>
#include <system_error>
#include <thread>

#include "backends/bindings/asio/fabric_pump.hpp"
#include "core/base/counted.hpp"
#include "tools/lib/text/log_stamp.hpp"

namespace rtrs::daemon {
namespace {

constexpr std::size_t kQueuedLines = 1024;
constexpr std::chrono::seconds kPatienceAtEnd{2};

void write_all(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
    if (written > 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {  // a process that shares the descriptor has set O_NONBLOCK
      pollfd room{STDERR_FILENO, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

// Writes lines to standard error. Called only by the log thread.
class StderrSink : public spdlog::sinks::base_sink<spdlog::details::null_mutex> {
 public:
  // `pool` owns the log thread and outlives all calls of the sink.
  StderrSink(spdlog::details::thread_pool* pool, LogFormat format, bool journal)
      : pool_(pool), format_(format), journal_(journal) {}

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    write_line(message);
    const std::size_t dropped = pool_->overrun_counter();
    if (dropped == told_) return;
    const std::string text =
        "standard error was not read, so this log dropped " + counted(dropped - told_, "line");
    told_ = dropped;
    write_line({spdlog::source_loc{}, message.logger_name, spdlog::level::warn, text});
  }
  void flush_() override {}

 private:
  void write_line(spdlog::details::log_msg message) {
    const auto name = spdlog::level::to_string_view(message.level);
    const std::string_view level(name.data(), name.size());
    const std::string_view payload(message.payload.data(), message.payload.size());
    std::string line(journal_ ? priority_of(level) : std::string_view());
    if (format_ == LogFormat::as_json) {
      line += json_line(message.time, level, payload) + "\n";
    } else {
      const std::string_view text = parts_of(payload).text;
      message.payload = {text.data(), text.size()};
      spdlog::memory_buf_t formatted;
      formatter_->format(message, formatted);
      line.append(formatted.data(), formatted.size());
    }
    write_all(line);
  }

  spdlog::details::thread_pool* pool_;
  LogFormat format_;
  bool journal_;  // standard error is the systemd journal
  std::size_t told_ = 0;
};

const char* lines_of(LogKind kind) {
  switch (kind) {
    case LogKind::unnamed_path:
      return "lines of paths without a session";
    case LogKind::path_up:
      return "lines of paths that come up";
    case LogKind::path_down:
      return "lines of paths that go down";
    case LogKind::session:
      return "lines of sessions";
    case LogKind::device:
      return "lines of opened and closed devices";
    case LogKind::refused_open:
      return "lines of devices that could not be opened";
    case LogKind::refused_connect:
      return "refused connect requests";
    case LogKind::failed_io:
      return "lines of IOs that failed";
    case LogKind::count:
      break;
  }
  return "lines";
}

}  // namespace

void LimitedLog::tell() {
  while (const auto summary = limiter_.due(asio::steady_now()))
    spdlog::warn("... {} more {} in {} s", summary->more, lines_of(static_cast<LogKind>(summary->kind)),
                 tools::LogLimiter::kWindow / seconds(1));
}

bool LimitedLog::allow(LogKind kind) {
  tell();
  return limiter_.allow(static_cast<std::size_t>(kind), asio::steady_now());
}

void set_up_log(const std::string& level, LogFormat format) {
  spdlog::init_thread_pool(kQueuedLines, 1);
  spdlog::set_default_logger(std::make_shared<spdlog::async_logger>(
      "urtrsd",
      std::make_shared<StderrSink>(spdlog::thread_pool().get(), format, tools::journal_reads_stderr()),
      spdlog::thread_pool(), spdlog::async_overflow_policy::overrun_oldest));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %v");
  spdlog::set_level(spdlog::level::from_str(level));
}

void finish_log(int exit_code) {
  auto ended = std::make_shared<std::promise<void>>();
  auto waited = ended->get_future();
  try {
    std::thread([ended] {
      spdlog::shutdown();
      ended->set_value();
    }).detach();
  } catch (const std::system_error&) {  // no thread can be started: write the queue without a time limit
    return spdlog::shutdown();
  }
  if (waited.wait_for(kPatienceAtEnd) != std::future_status::ready) std::_Exit(exit_code);
}

}  // namespace rtrs::daemon
