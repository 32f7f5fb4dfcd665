// Replays a subset of the recorded inputs on RNBD device state machines, as ClientPlayer does for a session.
// The replaced identifiers are handles, tokens, tickets of IOs, operations, and device ids.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/rnbd/client_devices.hpp"
#include "core/rnbd/server_devices.hpp"
#include "tools/lib/trace/minimize/machine_trace.hpp"

namespace rtrs::tools {

class ClientDevicesPlayer {
 public:
  using Input = ClientDevicesInput;
  using Actions = std::vector<ClientDevicesAction>;
  explicit ClientDevicesPlayer(const ClientDevicesInputs& trace) : trace_(&trace) {}

  std::optional<Input> prepare(const Input&, std::uint32_t number, const InputMeta&);
  void step(const Input&, Actions&);
  const char* broken_invariant() const { return machine_.broken_invariant(); }
  std::uint64_t fingerprint() const { return machine_.fingerprint(); }
  // Translates an action of the run that `from` plays to the identifiers of this run. Returns nullopt if its
  // device does not exist here.
  std::optional<ClientDevicesAction> renamed(const ClientDevicesAction&,
                                             const ClientDevicesPlayer& from) const;

 private:
  struct StartedOperation {
    rnbd::DeviceHandle device = 0;
    rnbd::IoTicket ticket;
  };
  bool can(trace::LinkUp&, const InputMeta&) const { return !machine_.link_up(); }
  bool can(trace::LinkDown&, const InputMeta&) const { return machine_.link_up(); }
  bool can(trace::MapRequested&, const InputMeta&) const { return true; }
  bool can(trace::UnmapRequested& input, const InputMeta& meta) const { return rename(input.device, meta); }
  bool can(trace::RemapRequested& input, const InputMeta& meta) const { return rename(input.device, meta); }
  bool can(trace::ResizeRequested& input, const InputMeta& meta) const { return rename(input.device, meta); }
  bool can(trace::MessageDone&, const InputMeta&) const;
  bool can(trace::IoBegun&, const InputMeta&) const;
  bool can(trace::IoDone&, const InputMeta&);
  bool can(trace::RetryDue&, const InputMeta&) const { return machine_.retry_wanted(); }
  bool can(trace::ReopenDue&, const InputMeta&) const { return machine_.reopen_wanted(); }
  bool rename(rnbd::DeviceHandle& device, const InputMeta&) const;
  template <class RnbdInput>
  void feed(const RnbdInput& input, Actions& actions);

  const ClientDevicesInputs* trace_;
  rnbd::ClientDevices machine_;
  std::uint32_t number_ = 0;  // index of the current input
  // Handle, by index of the input that mapped the device.
  std::map<std::uint32_t, rnbd::DeviceHandle> handles_;
  std::map<std::uint64_t, trace::SendMessage> sent_;  // unanswered messages, by token
  std::map<std::uint32_t, StartedOperation> begun_;   // IOs, by index of their IoBegun input
  std::uint64_t last_token_ = 0;
};

class ServerDevicesPlayer {
 public:
  using Input = ServerDevicesInput;
  using Actions = std::vector<ServerDevicesAction>;
  explicit ServerDevicesPlayer(const ServerDevicesInputs& trace);

  std::optional<Input> prepare(const Input&, std::uint32_t number, const InputMeta&);
  void step(const Input&, Actions&);
  const char* broken_invariant() const { return machine_.broken_invariant(); }
  std::uint64_t fingerprint() const { return machine_.fingerprint(); }
  // See ClientDevicesPlayer::renamed().
  std::optional<ServerDevicesAction> renamed(const ServerDevicesAction&,
                                             const ServerDevicesPlayer& from) const;

 private:
  template <class Request>
  bool can_request(Request&) const;
  bool can(trace::DeviceRequest& input, const InputMeta&) const { return can_request(input); }
  bool can(trace::LongDeviceRequest& input, const InputMeta&) const { return can_request(input); }
  template <class Result>
  bool can(Result& input, const InputMeta& meta) const {
    return rename_operation(input.operation, meta) && machine_.awaits(input);
  }
  bool can(trace::SyncFailed&, const InputMeta&) const { return true; }
  bool can(trace::DeviceForceClosed& input, const InputMeta&) const { return rename(input.device_id); }
  bool can(trace::SessionClosed&, const InputMeta&) const { return !closed_; }
  bool rename(std::uint32_t& device_id) const;
  bool rename_operation(std::uint16_t& operation, const InputMeta&) const;
  template <class RnbdInput>
  void feed(const RnbdInput& input, Actions& actions);
  void observe(const Actions&);

  const ServerDevicesInputs* trace_;
  rnbd::ServerDevices machine_;
  std::uint32_t owner_ = 0;                            // index of the input of the current request
  bool closed_ = false;                                // the session is closed
  std::set<std::uint32_t> given_;                      // device ids that the recorded machine assigned
  std::map<std::uint32_t, std::uint32_t> called_;      // device id in this run, by recorded id
  std::map<std::uint64_t, std::uint32_t> requests_;    // index of the input of each request
  std::map<std::uint32_t, std::uint16_t> operations_;  // operation, by index of the request's input
};

}  // namespace rtrs::tools
