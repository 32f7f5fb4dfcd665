#include "tools/urtrs/views/output.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>

#include "tools/lib/text/json_text.hpp"
#include "tools/urtrs/views/views.hpp"

namespace rtrs::admin {

using nlohmann::json;

namespace {

volatile std::sig_atomic_t signal_number = 0;

void say_error(bool as_json, const char* code, const std::string& message, const std::string& hint,
               int error) {
  if (!as_json) {
    std::fprintf(stderr, "urtrs: %s%s%s\n", printable(message).c_str(), hint.empty() ? "" : "; ",
                 printable(hint).c_str());
    return;
  }
  json object{{"code", code}, {"message", message}};
  if (!hint.empty()) object["hint"] = hint;
  if (error != 0) object["errno"] = error;
  print(json{{"schema_version", kSchemaVersion}, {"error", std::move(object)}});
}

}  // namespace

void catch_signals() {
  struct sigaction stop {};
  stop.sa_handler = [](int number) { signal_number = number; };
  ::sigaction(SIGINT, &stop, nullptr);  // without SA_RESTART, so that a signal interrupts blocking calls
  ::sigaction(SIGTERM, &stop, nullptr);
  // SIGHUP arrives when the terminal is closed. The signal stays ignored if the process was started with
  // nohup.
  struct sigaction before {};
  if (::sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
    ::sigaction(SIGHUP, &stop, nullptr);
}

int interrupted() noexcept {
  return signal_number;
}

int fail(const Mistake& wrong, bool as_json) {
  say_error(as_json, "usage", wrong.message, wrong.hint.empty() ? "see urtrs --help" : wrong.hint, 0);
  return usage;
}

int fail(const rpc::Error& error, bool as_json) {
  if (error.error == EINTR && interrupted() != 0) return 128 + interrupted();
  const bool absent = error.error == ENOENT || error.error == ECONNREFUSED || error.error == EACCES;
  const bool unreachable =
      error.code == rpc::Code::failed && absent && error.message.find("control socket") != std::string::npos;
  if (error.error == ETIMEDOUT) {
    say_error(as_json, "timeout", error.message, error.hint, error.error);
    return timed_out;
  }
  // Wrong arguments that only the daemon could detect.
  const bool misused = error.code == rpc::Code::invalid_params;
  say_error(as_json,
            unreachable ? "no_daemon"
            : misused   ? "usage"
                        : "failed",
            error.message, error.hint, error.error);
  return unreachable ? no_daemon : misused ? usage : failed;
}

int say_no_daemon(const rpc::Error& error, bool as_json) {
  say_error(as_json, "no_daemon", error.message, error.hint, error.error);
  return no_daemon;
}

int say_unexpected(const std::string& what, bool as_json) {
  say_error(as_json, "failed", fmt::format("the reply is not from an urtrsd of this version: {}", what),
            "\"urtrs doctor\" compares the versions", EPROTO);
  return failed;
}

void print_warnings(const json& shown, const Options& options) {
  if (options.format == Format::json) return;
  for (const json& one : shown.value("warnings", json::array()))
    if (one.is_string())
      std::fprintf(stderr, "urtrs: warning: %s\n", printable(one.get<std::string>()).c_str());
}

int print(const Table& table, const Options& options) {
  const auto text = render(table, options, kSchemaVersion);
  if (!text) return fail(text.error(), options.format == Format::json);
  std::fputs(text->c_str(), stdout);
  return done;
}

void print(const json& answer) {
  std::puts(tools::json_text(answer, 2).c_str());
}

}  // namespace rtrs::admin
