// All facts about a device that urtrs-mapd keeps mapped, one row each.
#pragma once
#include <cstdint>
#include <string>

#include "core/wire/rnbd_messages.hpp"
#include "tools/lib/text/fact.hpp"

namespace rtrs::mapping {

struct MappedDevice {
  std::string session;      // session name on this host
  std::string server_name;  // session name at the server
  std::string device;
  wire::rnbd::AccessMode mode = wire::rnbd::AccessMode::read_only;
  std::string state;
  std::uint64_t size_bytes = 0, users = 0;
  std::string uri, socket;
  int error = 0;         // errno of the last refusal; 0: none
  std::string sentence;  // reason why there is no connection; may be empty
};

std::span<const tools::Fact<MappedDevice>> mapped_device_facts();

}  // namespace rtrs::mapping
