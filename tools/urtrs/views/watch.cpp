#include "tools/urtrs/views/watch.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <span>
#include <thread>
#include <utility>

#include "tools/lib/control/rpc/socket_path.hpp"
#include "tools/lib/text/json_text.hpp"
#include "tools/lib/text/terminal/terminal.hpp"
#include "tools/urtrs/views/output.hpp"
#include "tools/urtrs/views/top.hpp"
#include "tools/urtrs/views/views.hpp"

namespace rtrs::admin {

using nlohmann::json;

void rest(double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (interrupted() == 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

int top(rpc::Client& client, const Options& given) {
  Options options = given;
  const bool screen = ::isatty(STDOUT_FILENO) == 1 && options.format == Format::table;
  if (screen) options.width = tools::columns_of(stdout);
  const auto look = [&client] { return client.call("server.show", {{"buckets", "true"}}); };
  auto before = look();
  auto at = std::chrono::steady_clock::now();
  for (unsigned shown = 0; before && (options.count == 0 || shown < options.count); ++shown) {
    rest(options.interval);
    if (interrupted() != 0) return done;
    auto now = look();
    const auto then = std::exchange(at, std::chrono::steady_clock::now());
    if (!now) return interrupted() != 0 ? done : fail(now.error(), options.format == Format::json);
    // These sequences move the cursor to the top left and clear the screen.
    if (screen) std::fputs("\x1b[H\x1b[J", stdout);
    const double seconds = std::chrono::duration<double>(at - then).count();
    if (const int code = print(rates(expected_answer(*before), expected_answer(*now), seconds), options))
      return code;
    std::fflush(stdout);
    before = std::move(now);
  }
  return before ? done : fail(before.error(), options.format == Format::json);
}

std::vector<Field> event_fields() {
  return {
      {"serial", "Serial", "number of the event; a gap means missed events", Field::Kind::number},
      {"unix_ms", "Time", "milliseconds since 1970", Field::Kind::number},
      {"what", "Event", "path, link_up, link_down, session_ended, connect_refused, open_refused or device"},
      {"session", "Session", "name of the session"},
      {"path", "Path", "index of the path", Field::Kind::number},
      {"peer", "Peer", "both ends, the client first"},
      {"pathname", "Path", "SRC@DST", Field::Kind::text, false},
      {"device", "Device", "that was opened, resized or lost", Field::Kind::text, false},
      {"size_bytes", "Size", "of the device", Field::Kind::bytes, false},
      {"size_before", "Before", "its size before, where that changed", Field::Kind::bytes, false},
      {"attempt", "Attempt", "of a client, since the path was connected", Field::Kind::number, false},
      {"next_s", "Next", "seconds until the next attempt", Field::Kind::number, false},
      {"requests", "Requests", "requests taken over from other paths", Field::Kind::number, false},
      {"state", "State", "of the path"},
      {"reason", "Reason", "why"},
      {"errno", "Errno", "of Linux", Field::Kind::number}};
}

namespace {

// Members that are printed first, in this order. These members identify the object and show its new state.
constexpr const char* kFirst[] = {"session", "device", "pathname", "path", "state", "reason", "errno"};
// Members that are left out of the list of members. The time, `what` and `sentence` have fixed places in the
// line, and "urtrs reason show" prints the hint.
constexpr const char* kLeftOut[] = {"unix_ms", "what", "serial", "schema_version", "hint", "sentence"};

bool is_among(std::span<const char* const> words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

std::string words_of(const json& event) {
  const auto ms = static_cast<std::int64_t>(number(event, "unix_ms") % 100'000'000'000'000U);
  const std::time_t time = ms / 1000;
  std::tm parts{};
  ::gmtime_r(&time, &parts);
  std::string line = fmt::format("{:02}:{:02}:{:02}.{:03}Z {}", parts.tm_hour, parts.tm_min, parts.tm_sec,
                                 ms % 1000, event.value("what", "?"));
  const auto add = [&line](const std::string& key, const json& value) {
    const bool word =
        value.is_string() && value.get_ref<const std::string&>().find_first_of(" \"") == std::string::npos;
    line += fmt::format(" {}={}", key, word ? value.get<std::string>() : tools::json_text(value));
  };
  for (const char* key : kFirst)
    if (event.contains(key)) add(key, event.at(key));
  for (const auto& [key, value] : event.items()) {
    const bool again = key == "peer" && event.contains("pathname");
    if (!again && !is_among(kFirst, key) && !is_among(kLeftOut, key)) add(key, value);
  }
  if (event.contains("sentence")) add("sentence", event.at("sentence"));
  return printable(line);
}

namespace {

// Prints an event. In CSV, the header is printed only before the first event.
int print_event(const json& event, const Options& options, bool first) {
  if (options.format == Format::json) {
    std::puts(tools::json_text(event).c_str());
  } else if (options.format == Format::csv) {
    Options row = options;
    row.headers = options.headers && first;
    if (const int code = print(Table{"events", event_fields(), {{event, {}}}}, row)) return code;
  } else {
    std::puts(words_of(event).c_str());
  }
  std::fflush(stdout);
  return done;
}

}  // namespace

int monitor(rpc::Client& client, const Options& options) {
  if (const auto begun = client.call("events.watch", json::object()); !begun)
    return fail(begun.error(), options.format == Format::json);
  for (unsigned shown = 0; interrupted() == 0 && (options.count == 0 || shown < options.count); ++shown) {
    const auto event = client.next(std::chrono::milliseconds(-1));
    if (!event)
      return event.error().error == EINTR && interrupted() != 0
                 ? done
                 : fail(event.error(), options.format == Format::json);
    if (const int code = print_event(event->params, options, shown == 0)) return code;
  }
  return done;
}

std::vector<Field> daemon_fields() {
  return {{"socket", "Socket", "of the daemon"},
          {"pid", "Process", "its number", Field::Kind::number},
          {"version", "Version", "of the daemon"},
          {"fabric", "Fabric", "what carries its messages"},
          {"sessions", "Sessions", "that it has now", Field::Kind::number}};
}

int list_daemons(const Options& options) {
  Table table{"daemons", daemon_fields(), {}};
  for (const std::string& socket : rpc::live_sockets("urtrsd")) {
    Row row{{{"socket", socket}}, {}};
    if (auto client = rpc::Client::connect(socket)) {
      if (const auto answer = client->call("server.show", json::object(), std::chrono::seconds(3))) {
        const json& shown = expected_answer(*answer);
        row.values["pid"] = number(shown, "pid");
        row.values["version"] = shown.value("version", "");
        row.values["fabric"] = shown.value("fabric", "");
        row.values["sessions"] = shown.at("sessions").size();
      }
    }
    table.rows.push_back(std::move(row));
  }
  return print(table, options);
}

}  // namespace rtrs::admin
