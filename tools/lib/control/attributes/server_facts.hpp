// All facts about the sessions, paths and open devices of a server, one row each.
#pragma once
#include "tools/lib/control/attributes/server_tree.hpp"
#include "tools/lib/text/fact.hpp"

namespace rtrs::attributes {

struct ServerPathAt {
  const ServerPathStatus& path;
  const HeartbeatConfig& heartbeat;
  Nanos now;
  bool buckets;  // also the histograms of service times
};

struct OpenDeviceAt {
  const OpenDevice& device;
  const OpenDevice::Use& use;
};

std::span<const tools::Fact<ServerSessionStatus>> server_session_facts();
std::span<const tools::Fact<ServerPathAt>> server_path_facts();
std::span<const tools::Fact<OpenDeviceAt>> open_device_facts();

std::string pathname_of(std::string_view described);  // SRC@DST of path_ends()

}  // namespace rtrs::attributes
