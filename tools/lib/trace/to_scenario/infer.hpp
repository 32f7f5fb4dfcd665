// A directed world that does to its clients what a recorded client went through: its configuration, its
// requests at their times, its paths lost and found again. What a trace of one side does not tell (which link
// was cut, what storage did, where on the device a request was) is guessed. Where the client had block
// devices, the world has them too (device_story.hpp).
#pragma once
#include <string>
#include <vector>

#include "sim/world/scenario.hpp"
#include "tools/lib/trace/minimize/machine_trace.hpp"

namespace rtrs::tools {

struct Guess {
  std::string words;  // what was guessed
  sim::Scenario scenario;
};
// The most faithful first; empty when the client never connected. `devices`: of the session; null: it had
// none.
std::vector<Guess> infer(const ClientInputs&, const ClientDevicesInputs* devices = nullptr);

}  // namespace rtrs::tools
