// What happened to the block devices of a recorded client, as steps of a directed world: mapped and unmapped,
// read and written, refused, resized, taken away. A trace of the client does not tell where on a device an IO
// was, how long storage took and when the server's operator acted: that is guessed.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/world/script.hpp"
#include "tools/lib/trace/minimize/machine_trace.hpp"

namespace rtrs::tools {

// A step at a time of the trace.
struct Timed {
  Nanos time;
  sim::Step step;
};

struct DeviceStory {
  std::vector<Timed> steps;
  std::uint32_t disks = 0;  // 0: none was ever mapped
  Nanos slowest = 0;        // of the messages that were answered
};
// The devices of this session.
DeviceStory device_story(const ClientDevicesInputs&, const ClientInputs& session);

}  // namespace rtrs::tools
