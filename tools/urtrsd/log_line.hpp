// Format of a log line: text or JSON, with or without the systemd priority. Pure.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace rtrs::daemon {

enum class LogFormat : std::uint8_t { as_text, as_json };

// Subject of a log line, as separate fields for the JSON format. Text lines contain the same facts in their
// text.
struct LogFields {
  std::string session{};  // session name
  std::string path{};     // SRC@DST
  std::string reason{};   // code of a Reason
  int error = 0;          // errno; 0: none
};

// Joins the text and the fields to one string, which passes through the queue of the log thread. parts_of()
// splits it again.
std::string with_fields(std::string text, const LogFields& fields);
struct LogParts {
  std::string_view text;
  std::string_view fields;  // members of a JSON object; empty: none
};
LogParts parts_of(std::string_view payload) noexcept;

// Returns a JSON object without a newline: time (UTC), level, message, and the fields that are set.
std::string json_line(std::chrono::system_clock::time_point time, std::string_view level,
                      std::string_view payload);

// Formats the identity as a part of a log line; empty for a client without identity.
std::string identity_field(const std::string& identity);

// Returns the priority prefix of sd-daemon(3) for a level name, such as "<4>". systemd removes the prefix.
std::string_view priority_of(std::string_view level) noexcept;

}  // namespace rtrs::daemon
