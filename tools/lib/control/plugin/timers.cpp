#include "tools/lib/control/plugin/timers.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace rtrs::plugin {

std::vector<control::ClientTimer> timers_of(const Settings& settings) {
  const ClientConfig& protocol = settings.protocol;
  const auto given = [&settings](std::string_view key) {
    return std::any_of(settings.given.begin(), settings.given.end(), [key](const std::string& one) {
      return one.size() > key.size() && one.starts_with(key) && one[key.size()] == '=';
    });
  };
  const auto origin_of = [&given](const char* key) { return given(key) ? "option" : "default"; };
  const char* const dead =
      given("heartbeat_interval") || given("heartbeat_missed") ? "from the heartbeat" : "default";
  const bool lowered = !given("reconnect_min") && protocol.reconnect_min != ClientConfig{}.reconnect_min;
  return {
      {"connect_timeout", settings.connect_timeout, origin_of("connect_timeout")},
      {"heartbeat_interval", protocol.heartbeat.interval, origin_of("heartbeat_interval")},
      {"dead_peer_time", dead_peer_time(protocol.heartbeat), dead},
      {"reconnect_min", protocol.reconnect_min, lowered ? "from reconnect_max" : origin_of("reconnect_min")},
      {"reconnect_max", protocol.reconnect_max, origin_of("reconnect_max")},
      {"queue_timeout", protocol.queue_timeout, origin_of("queue_timeout")},
      {"request_timeout", protocol.request_timeout, origin_of("request_timeout")},
      {"fence_timeout", protocol.fence_timeout, "default"},
      {"close_timeout", protocol.close_timeout, "default"},
  };
}

}  // namespace rtrs::plugin
