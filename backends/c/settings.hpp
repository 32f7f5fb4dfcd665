// Settings of a session by name, and the fabric that they select.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "backends/tls/tls.hpp"
#include "core/fabric/fabric.hpp"
#include "core/proto/config.hpp"

namespace rtrs::c {

struct Settings {
  std::string fabric = "tcp";
  bool crc = false;
  bool host_names = true;
  std::string rdma_device;
  tls::Credentials tls;
  ClientConfig protocol;
};

// Returns an empty string, or the error: no such setting, or an invalid value.
[[nodiscard]] std::string set(Settings&, std::string_view name, const std::string& value);

struct OpenFailed {
  int error = 0;  // Linux errno, positive
  std::string sentence;
};
tl::expected<std::unique_ptr<Fabric>, OpenFailed> open_fabric(const Settings&);

}  // namespace rtrs::c
