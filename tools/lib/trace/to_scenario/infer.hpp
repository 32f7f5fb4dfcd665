// Makes a directed world whose client has the history of a recorded client: same configuration, same requests
// at the same times, same path losses and reconnects. Facts that the trace of one side does not contain
// (which link was cut, storage delays, positions of requests) are guessed. If the client had block devices,
// the world has them, too (device_story.hpp).
#pragma once
#include <string>
#include <vector>

#include "sim/world/scenario.hpp"
#include "tools/lib/trace/hangs/unanswered.hpp"
#include "tools/lib/trace/minimize/machine_trace.hpp"

namespace rtrs::tools {

struct Guess {
  std::string words;  // description of the guess
  sim::Scenario scenario;
};
// Returns the guesses, the most faithful one first; empty if the client never connected. `devices`: device
// state machine of the session, or nullptr.
std::vector<Guess> infer(const ClientInputs&, const ClientDevicesInputs* devices = nullptr);

// Returns worlds in which the unanswered requests of the client wait as long as in the trace: storage never
// completes them, the server does not run, or no connection delivers. The most likely cause is first. The
// requests go to the session itself. A world fails if its last step, which waits for all requests, does not
// come. Empty if the client never connected or has no unanswered request.
std::vector<Guess> infer_hang(const ClientInputs&, InstanceId instance,
                              const std::vector<trace::Unanswered>& unanswered);

}  // namespace rtrs::tools
