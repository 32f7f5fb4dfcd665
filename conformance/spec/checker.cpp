#include "conformance/spec/checker.hpp"

namespace rtrs::spec {

namespace {

enum class Side { unknown, client, server, registry };

// Side of a state machine whose beginning was not seen, deduced from an event that only one side has.
Side side_of(Kind kind) noexcept {
  switch (kind) {
    case Kind::BeginClient:
    case Kind::PathAdded:
    case Kind::AddressesFound:
    case Kind::Connected:
    case Kind::Submitted:
    case Kind::InfoAccepted:
    case Kind::FenceAnswered:
    case Kind::KeyedResponseReceived:
    case Kind::Connect:
    case Kind::PostRequest:
    case Kind::Complete:
      return Side::client;
    case Kind::BeginServerSession:
    case Kind::ConnectRequested:
    case Kind::InfoRequested:
    case Kind::RequestArrived:
    case Kind::Responded:
    case Kind::FenceRequested:
    case Kind::Accept:
    case Kind::Deliver:
    case Kind::PostResponse:
      return Side::server;
    case Kind::BeginServerRegistry:
    case Kind::SessionSought:
    case Kind::NameClaimed:
      return Side::registry;
    default:
      return Side::unknown;
  }
}

}  // namespace

std::unique_ptr<Checker::Machine> Checker::make(unsigned machine, const Event& event) const {
  const bool begins = class_of(event.kind) == EventClass::begin;
  const Settings* settings = begins ? &event.settings : nullptr;
  switch (side_of(event.kind)) {
    case Side::client:
      return std::make_unique<Machine>(std::in_place_type<ClientSpec>, findings_, machine, settings);
    case Side::server:
      return std::make_unique<Machine>(std::in_place_type<ServerSpec>, findings_, machine, settings);
    case Side::registry:
      return std::make_unique<Machine>(std::in_place_type<RegistrySpec>, findings_, machine, begins);
    case Side::unknown:
      break;
  }
  return nullptr;
}

Checker::Machine* Checker::machine_of(unsigned machine, const Event& event) {
  std::unique_ptr<Machine>& known = machines_[machine];
  if (known == nullptr) {
    known = make(machine, event);
    if (known != nullptr) ++coverage_.without_beginning;
  }
  return known.get();
}

// Captures have frames of several clocks, and no machines.
void Checker::in_order(unsigned machine, std::uint64_t seq, Time now) {
  if (now < last_ && coverage_.machines != 0)
    findings_.add(Rule::time_order, seq, now, machine,
                  "the time is " + std::to_string(last_ - now) + " ns before that of the record before",
                  "the same time or a later one");
  last_ = now;
}

void Checker::on(unsigned machine, const Event& event) {
  in_order(machine, event.seq, event.now);
  const EventClass category = class_of(event.kind);
  if (category == EventClass::begin) begun_.insert(machine);
  told_.on(machine, event);
  sent_.on(machine, event);
  handed_.on(machine, event);
  if (category == EventClass::wire) {
    ++coverage_.wire;
    wire_.on(machine, event);
    return;
  }
  if (!actions_) {
    if (category == EventClass::begin) wire_.begin(machine, event);
    return;
  }
  if (category == EventClass::begin) {
    if (event.kind == Kind::End) end_devices(machine);
    wire_.begin(machine, event);
    const auto former = machines_.find(machine);
    if (former != machines_.end() && former->second != nullptr && event.kind == Kind::End)
      std::visit([](auto& one) { one.finish(); }, *former->second);
    machines_[machine] = event.kind == Kind::End ? nullptr : make(machine, event);
    if (event.kind != Kind::End) ++coverage_.machines;
    return;
  }
  if (Machine* known = machine_of(machine, event)) {
    ++coverage_.events;
    std::visit([&event](auto& one) { one.on(event); }, *known);
  }
}

void Checker::on(unsigned machine, const DeviceEvent& event) {
  // The program tells of a failed sync without a time; the driver takes the time of the last poll.
  if (event.kind != DeviceKind::SyncFailed) in_order(machine, event.seq, event.now);
  if (!actions_) return;
  told_.on(event);
  handed_.on(machine, event);
  const bool begins = class_of(event.kind) == EventClass::begin;
  const auto known = devices_.find(machine);
  if (begins || known == devices_.end()) {
    ++(begins ? coverage_.machines : coverage_.without_beginning);
    devices_.erase(machine);
    const DeviceEvent* const begin = begins ? &event : nullptr;
    const bool server = event.kind == DeviceKind::BeginServerDevices ||
                        (event.kind >= DeviceKind::DeviceRequest && event.kind <= DeviceKind::SessionDrained);
    if (server)
      devices_.emplace(
          std::piecewise_construct, std::forward_as_tuple(machine),
          std::forward_as_tuple(std::in_place_type<ServerDevicesSpec>, findings_, machine, begin));
    else
      devices_.emplace(
          std::piecewise_construct, std::forward_as_tuple(machine),
          std::forward_as_tuple(std::in_place_type<ClientDevicesSpec>, findings_, machine, begin));
    if (begins) return;
  }
  ++coverage_.events;
  std::visit([&event](auto& one) { one.on(event); }, devices_.at(machine));
}

void Checker::end_devices(unsigned machine) {
  const auto found = devices_.find(machine);
  if (found == devices_.end()) return;
  std::visit([](auto& one) { one.finish(); }, found->second);
  devices_.erase(found);
}

void Checker::finish(bool whole) {
  for (auto& [number, machine] : devices_)
    if (whole) std::visit([](auto& one) { one.finish(); }, machine);
  for (auto& [number, machine] : machines_)
    if (whole && machine != nullptr) std::visit([](auto& one) { one.finish(); }, *machine);
  if (whole) told_.finish();
  sent_.finish(whole);
  wire_.finish();
}

}  // namespace rtrs::spec
