#include "tools/urtrsd/log_line.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/lib/text/json_text.hpp"

namespace rtrs::daemon {

using nlohmann::ordered_json;

std::string with_fields(std::string text, const LogFields& fields) {
  // A NUL separates the text from the fields, so the text must not contain one.
  std::replace(text.begin(), text.end(), '\0', '?');
  ordered_json members = ordered_json::object();
  if (!fields.session.empty()) members["session"] = fields.session;
  if (!fields.path.empty()) members["path"] = fields.path;
  if (!fields.reason.empty()) members["reason"] = fields.reason;
  if (fields.error != 0) members["errno"] = fields.error;
  if (members.empty()) return text;
  text += '\0';
  return text + tools::json_text(members);
}

std::string identity_field(const std::string& identity) {
  return identity.empty() ? identity : " identity=" + identity;
}

LogParts parts_of(std::string_view payload) noexcept {
  const std::size_t end = payload.find('\0');
  return end == std::string_view::npos ? LogParts{payload, {}}
                                       : LogParts{payload.substr(0, end), payload.substr(end + 1)};
}

std::string json_line(std::chrono::system_clock::time_point time, std::string_view level,
                      std::string_view payload) {
  const LogParts parts = parts_of(payload);
  const auto whole = std::chrono::floor<std::chrono::seconds>(time);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time - whole).count();
  ordered_json line{{"time", fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                                         fmt::gmtime(std::chrono::system_clock::to_time_t(whole)), ms)},
                    {"level", level},
                    {"message", parts.text}};
  const ordered_json fields = ordered_json::parse(parts.fields, nullptr, false);
  if (fields.is_object()) line.update(fields);
  // Names sent by a peer may be invalid UTF-8; json_text() accepts that.
  return tools::json_text(line);
}

std::string_view priority_of(std::string_view level) noexcept {
  if (level == "critical") return "<2>";
  if (level == "error") return "<3>";
  if (level == "warning") return "<4>";
  return level == "info" ? "<6>" : "<7>";
}

}  // namespace rtrs::daemon
