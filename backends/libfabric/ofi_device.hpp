// An opened provider: fabric, domain and capabilities.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "backends/libfabric/ofi.hpp"
#include "backends/libfabric/ofi_handles.hpp"
#include "core/fabric/capabilities.hpp"

namespace rtrs::ofi {

struct Device {
  InfoHandle info;
  FabricHandle fabric;
  // The listener has its own fabric object, because providers lock per fabric object, and a client can block
  // the listener while the listener reads from it.
  FabricHandle listen_fabric;
  DomainHandle domain;
  std::string name;  // "libfabric/tcp"
  Capabilities capabilities;
  std::size_t inject_size = 0;
  bool local_keys = false;         // memory to send from must be registered
  bool provider_keys = false;      // the provider chooses remote keys
  bool virtual_addresses = false;  // remote addresses are pointers, not offsets

  // Logs the missing feature on failure.
  static Result<std::unique_ptr<Device>> open(const OfiOptions&);

  // Key for registrations that no peer uses; never equal to a remote key, which has 32 bits.
  std::uint64_t local_key() const noexcept { return ++local_keys_used_; }

 private:
  mutable std::uint64_t local_keys_used_ = std::uint64_t{1} << 32;
};

// Calls options.log if there is one.
void say(const OfiOptions&, LogLevel, const std::string&);

}  // namespace rtrs::ofi
