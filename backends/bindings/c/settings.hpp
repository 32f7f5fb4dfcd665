// Sets the settings of a session by name, and opens the fabric that they select.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "backends/options/connection.hpp"
#include "core/fabric/fabric.hpp"
#include "core/proto/config.hpp"

namespace rtrs::c {

struct Settings {
  options::FabricOptions fabric;
  bool host_names = true;
  ClientConfig protocol;
};

// Returns an error message; empty if the value was stored. `name` is a name from
// options::connection_options() or from an earlier release.
[[nodiscard]] std::string set(Settings&, std::string_view name, const std::string& value);

struct OpenFailed {
  int error = 0;  // Linux errno, positive
  std::string sentence;
};
tl::expected<std::unique_ptr<Fabric>, OpenFailed> open_fabric(const Settings&);

}  // namespace rtrs::c
