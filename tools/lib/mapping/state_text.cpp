#include "tools/lib/mapping/state_text.hpp"

#include <fmt/format.h>

#include <initializer_list>
#include <nlohmann/json.hpp>

namespace rtrs::mapping {

using nlohmann::json;

namespace {

constexpr int kMostDepth = 8;  // objects and arrays in each other

// Thrown within this file only.
struct Wrong {
  std::string why;
};

const json& member(const json& object, const char* name, const char* where) {
  const auto found = object.find(name);
  if (found == object.end()) throw Wrong{fmt::format("\"{}\" is missing in {}", name, where)};
  return *found;
}

void only(const json& object, const char* where, std::initializer_list<std::string_view> names) {
  if (!object.is_object()) throw Wrong{fmt::format("{} is no object", where)};
  for (const auto& item : object.items())
    if (std::find(names.begin(), names.end(), item.key()) == names.end())
      throw Wrong{fmt::format("{} has no member \"{}\"", where, item.key())};
}

std::string text(const json& object, const char* name, const char* where) {
  const json& value = member(object, name, where);
  if (!value.is_string()) throw Wrong{fmt::format("\"{}\" of {} is no text", name, where)};
  return value.get<std::string>();
}

const json& list(const json& object, const char* name, const char* where) {
  const json& value = member(object, name, where);
  if (!value.is_array()) throw Wrong{fmt::format("\"{}\" of {} is no list", name, where)};
  return value;
}

void take_device(const json& item, SessionWish& session) {
  only(item, "a device", {"device", "access_mode"});
  const std::string name = text(item, "device", "a device");
  const auto mode = parse_mode(text(item, "access_mode", "a device"));
  if (!mode) throw Wrong{"the access mode of a device is ro, rw or migration"};
  // Before it is kept: a list may have millions.
  if (session.devices.size() == kMostDevices)
    throw Wrong{fmt::format("a session has more than {} devices", kMostDevices)};
  if (!session.devices.emplace(name, DeviceWish{*mode}).second)
    throw Wrong{fmt::format("the device \"{}\" is there twice", name)};
}

void take_session(const json& item, Wishes& wishes) {
  only(item, "a session", {"session", "paths", "port", "fabric", "devices"});
  const std::string name = text(item, "session", "a session");
  SessionWish one;
  for (const json& path : list(item, "paths", "a session")) {
    if (!path.is_string()) throw Wrong{"a path is no text"};
    one.paths.push_back(path.get<std::string>());
  }
  const json& port = member(item, "port", "a session");
  if (!port.is_number_unsigned() || port.get<std::uint64_t>() > 65535)
    throw Wrong{"the port of a session is no number from 1 to 65535"};
  one.port = port.get<std::uint16_t>();
  one.fabric = text(item, "fabric", "a session");
  for (const json& device : list(item, "devices", "a session")) take_device(device, one);
  if (wishes.size() == kMostSessions)
    throw Wrong{fmt::format("there are more than {} sessions", kMostSessions)};
  if (!wishes.emplace(name, std::move(one)).second)
    throw Wrong{fmt::format("the session \"{}\" is there twice", name)};
}

Wishes take(const json& whole) {
  only(whole, "the file", {"schema_version", "sessions"});
  Wishes wishes;
  for (const json& session : list(whole, "sessions", "the file")) take_session(session, wishes);
  if (auto wrong = check(wishes)) throw Wrong{std::move(wrong->why)};
  return wishes;
}

tl::unexpected<BadState> bad(std::string why, bool newer = false) {
  return tl::unexpected(BadState{newer, std::move(why)});
}

}  // namespace

std::string state_text(const Wishes& wishes) {
  json sessions = json::array();
  for (const auto& [name, session] : wishes) {
    json devices = json::array();
    for (const auto& [device, wish] : session.devices)
      devices.push_back({{"device", device}, {"access_mode", wire::rnbd::to_string(wish.mode)}});
    sessions.push_back({{"session", name},
                        {"paths", session.paths},
                        {"port", session.port},
                        {"fabric", session.fabric},
                        {"devices", std::move(devices)}});
  }
  const json whole{{"schema_version", kStateVersion}, {"sessions", std::move(sessions)}};
  return whole.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

tl::expected<Wishes, BadState> parse_state(std::string_view text) {
  if (text.size() > kMostStateBytes) return bad(fmt::format("it has more than {} bytes", kMostStateBytes));
  bool too_deep = false;
  const auto watch = [&too_deep](int depth, json::parse_event_t, json&) {
    too_deep = too_deep || depth > kMostDepth;
    return !too_deep;
  };
  const json whole = json::parse(text, watch, false);
  if (too_deep || whole.is_discarded()) return bad("it is not JSON, or nested too deeply");
  if (!whole.is_object()) return bad("it is no object");
  const auto version = whole.find("schema_version");
  if (version == whole.end() || !version->is_number_unsigned() || *version == 0)
    return bad("\"schema_version\" is missing or no number from 1 on");
  if (version->get<std::uint64_t>() > kStateVersion)
    return bad(
        fmt::format("its schema_version is {}, and this program knows {}", version->dump(), kStateVersion),
        true);
  try {
    return take(whole);
  } catch (const Wrong& wrong) {
    return bad(wrong.why);
  }
}

}  // namespace rtrs::mapping
