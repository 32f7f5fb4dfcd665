// Inputs of one recorded state machine, with the meta data needed to replay a subset.
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

// Describes the request to which an input belongs, and the age of the connection attempt in its key. These
// facts stay valid if other inputs are left out, unlike permits, epochs and serials.
struct InputMeta {
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t request = kNone;  // index of the input that began the request
  std::uint32_t age = 0;          // number of attempts of the path that are newer than the attempt in the key
  std::uint64_t record = 0;       // number of the record in the file
  // Index in MachineInputs::actions of the first recorded action of this input. Its actions end before
  // first_action of the next input.
  std::size_t first_action = 0;
  std::optional<std::uint64_t> state;  // fingerprint of the machine after the input, if recorded
  // Members for device state machines only. `about`: index of the action that the input answers. `gives`:
  // device id in the response to the input; 0: none.
  static constexpr std::size_t kNothing = ~std::size_t{0};
  std::size_t about = kNothing;
  std::uint32_t gives = 0;
};

template <class Config, class Input, class RecordedAction>
struct MachineInputs {
  Config config;
  std::uint16_t session = 0;  // number of the session; servers only
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
  // Sessions and device state machines, in the order in which they began. Registries are not included.
  std::vector<MachineTrace> machines;
  std::uint64_t records = 0;
  std::string damage;  // position and reason at which reading stopped; empty: complete
};
// Returns the byte position at which the reader stopped, and why.
std::string damage_text(const trace::Reader&);
// Loads the state machines of a trace. The error says why the trace cannot be minimized, for example because
// a machine has an invalid configuration, or because a damaged trace has no readable record.
tl::expected<LoadedTrace, std::string> load_machines(trace::Source&);

}  // namespace rtrs::tools
