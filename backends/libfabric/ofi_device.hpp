// An opened provider: fabric, domain and what it can do.
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
  // Listens through a fabric object of its own: providers lock per object, and a listener can be held up by
  // the client it reads from.
  FabricHandle listen_fabric;
  DomainHandle domain;
  std::string name;  // "libfabric/tcp"
  Capabilities capabilities;
  std::size_t inject_size = 0;
  bool local_keys = false;         // memory to send from needs a registration
  bool provider_keys = false;      // the provider chooses remote keys
  bool virtual_addresses = false;  // remote addresses are pointers, not offsets

  // Errors are logged with what is missing.
  static Result<std::unique_ptr<Device>> open(const OfiOptions&);

  // For registrations that no peer names; never the value of a remote key, which has 32 bits.
  std::uint64_t local_key() const noexcept { return ++local_keys_used_; }

 private:
  mutable std::uint64_t local_keys_used_ = std::uint64_t{1} << 32;
};

// Calls options.log if there is one.
void say(const OfiOptions&, LogLevel, const std::string&);

}  // namespace rtrs::ofi
