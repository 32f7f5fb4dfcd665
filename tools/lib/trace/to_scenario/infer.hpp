// Makes a directed world whose client has the history of a recorded client: same configuration, same requests
// at the same times, same path losses and reconnects. Facts that the trace of one side does not contain
// (which link was cut, storage delays, positions of requests) are guessed. If the client had block devices,
// the world has them, too (device_story.hpp).
#pragma once
#include <string>
#include <vector>

#include "sim/world/scenario.hpp"
#include "tools/lib/trace/minimize/machine_trace.hpp"

namespace rtrs::tools {

struct Guess {
  std::string words;  // description of the guess
  sim::Scenario scenario;
};
// Returns the guesses, the most faithful one first; empty if the client never connected. `devices`: device
// state machine of the session, or nullptr.
std::vector<Guess> infer(const ClientInputs&, const ClientDevicesInputs* devices = nullptr);

}  // namespace rtrs::tools
