// All facts about the sessions, paths and open devices of a server, one row each.
#pragma once
#include "tools/lib/control/attributes/server_tree.hpp"
#include "tools/lib/text/fact.hpp"

namespace rtrs::attributes {

struct ServerPathAt {
  const ServerPathStatus& path;
  const HeartbeatConfig& heartbeat;
  Nanos now;
  bool buckets;  // the histograms of service times are also shown
};

struct OpenDeviceAt {
  const OpenDevice& device;
  const OpenDevice::Use& use;
};

struct ExportModel {
  std::string name;
  std::string path;                // file, or URI of an NBD server
  std::uint64_t memory_bytes = 0;  // > 0: a memory device of this size
  std::uint32_t delay_ms = 0;
  bool read_only = false;
  bool force = false;   // writers are allowed even if this host uses the device
  bool lost = false;    // the connection to its NBD server is lost
  std::string missing;  // reason why the device is not served; empty if it is served
};

std::span<const tools::Fact<ServerSessionStatus>> server_session_facts();
std::span<const tools::Fact<ServerPathAt>> server_path_facts();
std::span<const tools::Fact<OpenDeviceAt>> open_device_facts();
std::span<const tools::Fact<ExportModel>> export_facts();

std::string pathname_of(std::string_view described);  // returns "SRC@DST" from path_ends()

}  // namespace rtrs::attributes
