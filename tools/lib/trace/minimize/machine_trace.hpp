// The inputs of one machine of a trace, with what has to be known of each to feed it again in a shorter run.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <tl/expected.hpp>

#include "core/proto/actions.hpp"
#include "core/proto/config.hpp"
#include "core/proto/inputs.hpp"
#include "core/record/kinds.hpp"
#include "tools/lib/trace/minimize/device_inputs.hpp"
#include "tools/lib/trace/reader/reader.hpp"

namespace rtrs::tools {

// Which request an input belongs to, and how old its key was: names that stay true when other inputs are
// gone, while permits, epochs and serials become others.
struct InputMeta {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t request = kNone;  // the input that began the request
  std::uint32_t age = 0;          // attempts of the path since that of the key
  std::uint64_t record = 0;       // number in the file
  // What the recorded machine did then: from here in MachineInputs::actions up to those of the next input.
  std::size_t first_action = 0;
  std::optional<std::uint64_t> state;  // its fingerprint after it, where it was recorded
  // Devices: the number of the action that it answers; the id of a device that the answer to it gave, or 0.
  static constexpr std::size_t kNothing = ~std::size_t{0};
  std::size_t about = kNothing;
  std::uint32_t gives = 0;
};

template <class Config, class Input, class RecordedAction>
struct MachineInputs {
  Config config;
  std::uint16_t session = 0;  // servers
  std::vector<Input> inputs;
  std::vector<InputMeta> metas;
  std::vector<RecordedAction> actions;
};
struct NoConfig {};
using ClientInputs = MachineInputs<ClientConfig, ClientInput, ClientAction>;
using ServerInputs = MachineInputs<ServerConfig, ServerInput, ServerAction>;
using ClientDevicesInputs = MachineInputs<NoConfig, ClientDevicesInput, ClientDevicesAction>;
using ServerDevicesInputs = MachineInputs<rnbd::ServerOptions, ServerDevicesInput, ServerDevicesAction>;

struct MachineTrace {
  InstanceId instance = 0;
  Nanos begin = 0;
  trace::Origin origin;
  std::variant<ClientInputs, ServerInputs, ClientDevicesInputs, ServerDevicesInputs> machine;
  std::size_t size() const {
    return std::visit([](const auto& one) { return one.inputs.size(); }, machine);
  }
};

struct LoadedTrace {
  // Sessions and their devices in the order they began; registries are left out.
  std::vector<MachineTrace> machines;
  std::uint64_t records = 0;
  std::string damage;  // where and why no more of it can be read; empty: it is whole
};
// The byte where the reader stopped, and why.
std::string damage_text(const trace::Reader&);
// The error says why the trace cannot be made smaller: a machine that no core can be made from, too, as for
// replay, and a damaged trace without a sound record.
tl::expected<LoadedTrace, std::string> load_machines(trace::Source&);

}  // namespace rtrs::tools
