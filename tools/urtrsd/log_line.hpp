// What a line of the log looks like: text or JSON, with or without the priority of systemd. Pure.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace rtrs::daemon {

enum class LogFormat : std::uint8_t { as_text, as_json };

// What a line is about, for programs. In a line of text it stands in the text.
struct LogFields {
  std::string session{};  // its name
  std::string path{};     // SRC@DST
  std::string reason{};   // the code of a Reason
  int error = 0;          // errno; 0: none
};

// Text and fields as one string, for the queue to the thread that writes; parts_of() takes it apart again.
std::string with_fields(std::string text, const LogFields& fields);
struct LogParts {
  std::string_view text;
  std::string_view fields;  // the members of a JSON object; empty: none
};
LogParts parts_of(std::string_view payload) noexcept;

// One object without a newline: time (UTC), level, message, and the fields that there are.
std::string json_line(std::chrono::system_clock::time_point time, std::string_view level,
                      std::string_view payload);

// "<4>", which systemd takes off again: of sd-daemon(3), by the level's name.
std::string_view priority_of(std::string_view level) noexcept;

}  // namespace rtrs::daemon
