#include "tools/lib/trace/replay/replay_machines.hpp"

#include <bit>

#include "core/proto/client_session.hpp"
#include "core/proto/limits.hpp"
#include "core/proto/send_queue.hpp"
#include "core/proto/server_registry.hpp"
#include "core/proto/server_session.hpp"
#include "tools/lib/trace/replay/replay_adapter.hpp"
#include "tools/lib/trace/replay/replay_devices.hpp"

namespace rtrs::trace {
namespace {

constexpr unsigned kMinSendDepth = 8;

const char* problem_of(const ClientConfig& config) {
  if (config.con_num < 2 || config.con_num > kMaxCons) return "config.con_num is out of range";
  if (config.max_depth < 1 || config.max_depth > kMaxPermits) return "config.max_depth is out of range";
  if (config.send_depth < kMinSendDepth) return "config.send_depth is out of range";
  return nullptr;
}

const char* problem_of(const ServerConfig& config) {
  if (config.queue_depth < 1 || config.queue_depth > kMaxPermits) return "config.queue_depth is out of range";
  if (config.chunk_size < 8192 || !std::has_single_bit(config.chunk_size)) {
    return "config.chunk_size is out of range";
  }
  if (config.send_depth < kMinSendDepth) return "config.send_depth is out of range";
  return nullptr;
}

std::unique_ptr<ReplayMachine> make(const Record& record, const FieldMap& map, std::string& why) {
  const auto refused = [&why](const char* problem) {
    if (problem != nullptr) why = problem;
    return problem != nullptr;
  };
  switch (record.event->id) {
    case kKindOf<BeginClient>: {
      const auto begin = get_struct<BeginClient>(record, map);
      if (refused(problem_of(begin))) return nullptr;
      return std::make_unique<ReplayAdapter<ClientSession, ClientInput, ClientActions>>(begin.config);
    }
    case kKindOf<BeginServerSession>: {
      const auto begin = get_struct<BeginServerSession>(record, map);
      if (refused(problem_of(begin))) return nullptr;
      return std::make_unique<ReplayAdapter<ServerSession, ServerInput, ServerActions>>(begin.config,
                                                                                        begin.session);
    }
    case kKindOf<BeginServerRegistry>: {
      const auto begin = get_struct<BeginServerRegistry>(record, map);
      return std::make_unique<ReplayAdapter<ServerRegistry, RegistryInput, RegistryActions>>(begin.config);
    }
    case kKindOf<BeginClientDevices>:
      return make_client_devices();
    case kKindOf<BeginServerDevices>: {
      const auto begin = get_struct<BeginServerDevices>(record, map);
      if (refused(problem_of(begin))) return nullptr;
      return make_server_devices(begin.options);
    }
    default:
      return nullptr;
  }
}

std::unique_ptr<ReplayMachine> blank(MachineKind kind) {
  switch (kind) {
    case MachineKind::client_session:
      return std::make_unique<ReplayAdapter<ClientSession, ClientInput, ClientActions>>(ClientConfig{});
    case MachineKind::server_session:
      return std::make_unique<ReplayAdapter<ServerSession, ServerInput, ServerActions>>(ServerConfig{},
                                                                                        std::uint16_t{0});
    case MachineKind::server_registry:
      return std::make_unique<ReplayAdapter<ServerRegistry, RegistryInput, RegistryActions>>(ServerConfig{});
    case MachineKind::client_devices:
      return make_client_devices();
    case MachineKind::server_devices:
      return make_server_devices({});
  }
  return nullptr;
}

}  // namespace

const char* problem_of(const BeginClient& begin) {
  return problem_of(begin.config);
}

const char* problem_of(const BeginServerSession& begin) {
  if (const char* problem = problem_of(begin.config)) return problem;
  return begin.session < kMaxSessions ? nullptr : "session is out of range";
}

const char* problem_of(const BeginServerDevices& begin) {
  const std::uint32_t generations = begin.options.generations;
  return generations != 0 && generations <= rnbd::kMaxGenerations ? nullptr
                                                                  : "options.generations is out of range";
}

BlankFactory blank_core_machines() {
  return &blank;
}

MachineFactory core_machines() {
  return &make;
}

}  // namespace rtrs::trace
