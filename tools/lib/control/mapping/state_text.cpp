#include "tools/lib/control/mapping/state_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "tools/lib/control/mapping/json_line.hpp"
#include "tools/lib/text/json_depth.hpp"
#include "tools/lib/text/json_text.hpp"

namespace rtrs::mapping {

using nlohmann::json;

namespace {

constexpr int kMostDepth = 8;  // maximum nesting depth of objects and arrays

// Exception for an invalid file, used only in this source file.
struct Wrong {
  std::string why;
  JsonPlace place;
};

// A part of the file, with its position.
struct Part {
  const json& value;
  const char* name;  // name of the part in error messages
  JsonPlace place;

  [[noreturn]] void wrong(std::string why, const std::string& member = {}) const {
    JsonPlace where = place;
    if (!member.empty()) where.push_back(member);
    throw Wrong{std::move(why), std::move(where)};
  }
  Part item(const char* list, std::size_t index, const char* called) const {
    Part one{value.at(list)[index], called, place};
    one.place.insert(one.place.end(), {list, std::to_string(index)});
    return one;
  }
};

const json& member(const Part& part, const char* name) {
  const auto found = part.value.find(name);
  if (found == part.value.end()) part.wrong(fmt::format("\"{}\" is missing in {}", name, part.name));
  return *found;
}

void only(const Part& part, std::initializer_list<std::string_view> names) {
  if (!part.value.is_object()) part.wrong(fmt::format("{} is not an object", part.name));
  for (const auto& item : part.value.items())
    if (std::find(names.begin(), names.end(), item.key()) == names.end())
      part.wrong(
          fmt::format("{} has no member \"{}\", only {}", part.name, item.key(), fmt::join(names, ", ")),
          item.key());
}

std::string text(const Part& part, const char* name) {
  const json& value = member(part, name);
  if (!value.is_string()) part.wrong(fmt::format("\"{}\" of {} is not a string", name, part.name), name);
  return value.get<std::string>();
}

const json& list(const Part& part, const char* name) {
  const json& value = member(part, name);
  if (!value.is_array()) part.wrong(fmt::format("\"{}\" of {} is not a list", name, part.name), name);
  return value;
}

void take_device(const Part& part, const std::string& session_name, SessionWish& session) {
  only(part, {"device", "access_mode"});
  const std::string name = text(part, "device");
  const auto mode = parse_mode(text(part, "access_mode"));
  if (!mode) part.wrong("the access mode of a device must be ro, rw or migration", "access_mode");
  // Checks the number of devices before each device is stored, because the list in the file may have millions
  // of items.
  if (session.devices.size() == kMaxDevices)
    part.wrong(fmt::format("a session has more than {} devices", kMaxDevices));
  if (const auto wrong = check_device_name(name))
    part.wrong(fmt::format("session \"{}\": {}", session_name, wrong->why), "device");
  if (!session.devices.emplace(name, DeviceWish{*mode}).second)
    part.wrong(fmt::format("duplicate device \"{}\"", name), "device");
}

void take_credentials(const Part& part, SessionWish& session) {
  const auto found = part.value.find("credentials");
  if (found == part.value.end()) return;
  if (!found->is_object()) part.wrong("\"credentials\" of a session is not an object", "credentials");
  for (const auto& item : found->items()) {
    if (!item.value().is_string())
      part.wrong(fmt::format("\"{}\" of the credentials is not a string", item.key()), "credentials");
    session.credentials.emplace(item.key(), item.value().get<std::string>());
  }
}

void take_session(const Part& part, Wishes& wishes) {
  only(part, {"session", "name", "paths", "port", "fabric", "credentials", "devices"});
  const std::string name = text(part, "session");
  if (const auto wrong = check_session_name(name)) part.wrong(wrong->why, "session");
  SessionWish one;
  for (const json& path : list(part, "paths")) {
    if (!path.is_string()) part.wrong("a path is not a string", "paths");
    one.paths.push_back(path.get<std::string>());
  }
  const json& port = member(part, "port");
  if (!port.is_number_unsigned() || port.get<std::uint64_t>() > 65535)
    part.wrong("the port of a session is not a number from 1 to 65535", "port");
  one.port = port.get<std::uint16_t>();
  one.fabric = text(part, "fabric");
  if (part.value.contains("name")) {
    one.name = text(part, "name");
    if (one.name.empty()) part.wrong("the name of a session at its server is empty", "name");
  }
  take_credentials(part, one);
  if (const auto wrong = check_session(one))
    part.wrong(fmt::format("session \"{}\": {}", name, wrong->why), wrong->member);
  for (std::size_t i = 0; i < list(part, "devices").size(); ++i)
    take_device(part.item("devices", i, "a device"), name, one);
  if (wishes.size() == kMostSessions)
    part.wrong(fmt::format("there are more than {} sessions", kMostSessions));
  if (!wishes.emplace(name, std::move(one)).second)
    part.wrong(fmt::format("duplicate session \"{}\"", name), "session");
}

Wishes take(const json& file) {
  const Part whole{file, "the file", {}};
  only(whole, {"schema_version", "sessions"});
  Wishes wishes;
  for (std::size_t i = 0; i < list(whole, "sessions").size(); ++i)
    take_session(whole.item("sessions", i, "a session"), wishes);
  return wishes;
}

tl::unexpected<StateFileError> bad(std::string why, std::size_t line = 0, bool newer = false) {
  return tl::unexpected(StateFileError{newer, line, std::move(why)});
}

}  // namespace

std::string state_text(const Wishes& wishes) {
  json sessions = json::array();
  int version = 1;
  for (const auto& [name, session] : wishes) {
    json devices = json::array();
    for (const auto& [device, wish] : session.devices)
      devices.push_back({{"device", device}, {"access_mode", wire::rnbd::to_string(wish.mode)}});
    sessions.push_back({{"session", name},
                        {"paths", session.paths},
                        {"port", session.port},
                        {"fabric", session.fabric},
                        {"devices", std::move(devices)}});
    if (!session.credentials.empty()) {
      sessions.back()["credentials"] = session.credentials;
      version = std::max(version, 2);
    }
    if (!session.name.empty()) {
      sessions.back()["name"] = session.name;
      version = kStateVersion;
    }
  }
  const json whole{{"schema_version", version}, {"sessions", std::move(sessions)}};
  return tools::json_text(whole, 2) + "\n";
}

tl::expected<Wishes, StateFileError> parse_state(std::string_view text) {
  if (text.size() > kMaxStateBytes) return bad(fmt::format("it has more than {} bytes", kMaxStateBytes));
  if (tools::is_nested_deeper(text, kMostDepth)) return bad("it is nested too deeply");
  const json whole = json::parse(text, nullptr, false);
  if (whole.is_discarded()) return bad("it is not JSON", line_of_mistake(text));
  if (!whole.is_object()) return bad("it is not a JSON object");
  const auto version = whole.find("schema_version");
  if (version == whole.end() || !version->is_number_unsigned() || *version == 0)
    return bad("\"schema_version\" is missing, or not a number of 1 or more",
               line_of(text, {"schema_version"}));
  if (version->get<std::uint64_t>() > kStateVersion)
    return bad(
        fmt::format("its schema_version is {}, but this program supports {}", version->dump(), kStateVersion),
        0, true);
  try {
    return take(whole);
  } catch (const Wrong& wrong) {
    return bad(wrong.why, line_of(text, wrong.place));
  }
}

}  // namespace rtrs::mapping
