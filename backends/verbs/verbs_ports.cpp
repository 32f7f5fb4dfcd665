// Handles ports that go down. A device retransmits for a while before it fails a connection with outstanding
// work, and never reports a connection without work. Therefore a connection whose port stays down is ended at
// the time at which the device would fail it. If the port is up again earlier, the connection continues.
#include <algorithm>

#include "backends/verbs/verbs_fabric.hpp"

namespace rtrs::verbs {

bool FabricImpl::uses_port(const Connection& connection, const Device& device,
                           std::uint8_t port) const noexcept {
  return connection.device() == &device && connection.stage() == Connection::Stage::up &&
         connection.id != nullptr && connection.id->port_num == port;
}

void FabricImpl::port_changed(Device& device, std::uint8_t port, bool up) {
  const auto over = std::count_if(connections_.begin(), connections_.end(),
                                  [&](const auto& entry) { return uses_port(*entry.second, device, port); });
  std::erase_if(device.down, [port](const DownPort& one) { return one.number == port; });
  std::string text = device.name + " port " + std::to_string(port) + (up ? " is up" : " is down");
  if (!up) {
    const Nanos time = patience(device.timers(), device.told).least;
    const bool ends = time != kNever && over != 0;
    device.down.push_back({port, ends ? now_ + time : kNever});
    if (ends)
      text +=
          "; its " + std::to_string(over) + " connection(s) end when it stays so for " + seconds_text(time);
    else if (over != 0)
      text += "; its " + std::to_string(over) + " connection(s) wait, because the device never gives up";
  }
  log(over != 0 ? LogLevel::warning : LogLevel::info, text);
  set_timer();
}

void FabricImpl::end_down_ports() {
  for (const auto& device : devices_) {
    if (device == nullptr || device->gone) continue;
    for (DownPort& port : device->down) {
      if (port.ends > now_) continue;
      port.ends = kNever;
      log(LogLevel::warning, device->name + " port " + std::to_string(port.number) +
                                 " has stayed down: the connections over it end");
      for (auto& [key, connection] : connections_) {
        if (!uses_port(*connection, *device, port.number)) continue;
        connection->set_ending(Reason::transport_error);
        activate(*connection);
      }
    }
  }
}

}  // namespace rtrs::verbs
