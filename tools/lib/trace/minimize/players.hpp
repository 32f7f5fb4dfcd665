// Creates the player for each kind of machine.
#pragma once
#include "tools/lib/trace/minimize/client_player.hpp"
#include "tools/lib/trace/minimize/devices_player.hpp"
#include "tools/lib/trace/minimize/server_player.hpp"

namespace rtrs::tools {

inline ClientPlayer player_of(const ClientInputs& trace) {
  return ClientPlayer(trace);
}
inline ServerPlayer player_of(const ServerInputs& trace) {
  return ServerPlayer(trace);
}
inline ClientDevicesPlayer player_of(const ClientDevicesInputs& trace) {
  return ClientDevicesPlayer(trace);
}
inline ServerDevicesPlayer player_of(const ServerDevicesInputs& trace) {
  return ServerDevicesPlayer(trace);
}

}  // namespace rtrs::tools
