// Converts the history of a recorded client's block devices to steps of a directed world: map, unmap, read,
// write, refuse, resize, remove. A client's trace shows neither the positions of IOs, nor the duration of
// storage operations, nor when the server's operator acted, so these are guessed.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/world/script.hpp"
#include "tools/lib/trace/minimize/machine_trace.hpp"

namespace rtrs::tools {

// A step of the world, with its time in the trace.
struct Timed {
  Nanos time;
  sim::Step step;
};

struct DeviceStory {
  std::vector<Timed> steps;
  std::uint32_t disks = 0;  // number of disks; 0: no device was ever mapped
  Nanos slowest = 0;        // longest time from a message to its response
};
// `devices` must belong to `session`.
DeviceStory device_story(const ClientDevicesInputs&, const ClientInputs& session);

}  // namespace rtrs::tools
