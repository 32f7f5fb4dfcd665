// A directed world that does to its clients what a recorded client went through: its configuration, its
// requests at their times, its paths lost and found again. What a trace of one side does not tell (which link
// was cut, what storage did, where on the device a request was) is guessed.
#pragma once
#include <string>
#include <vector>

#include "sim/cluster/scenario.hpp"
#include "tools/lib/minimize/machine_trace.hpp"

namespace rtrs::tools {

struct Guess {
  std::string words;  // what was guessed
  sim::Scenario scenario;
};
// The most faithful first; empty when the client never connected.
std::vector<Guess> infer(const MachineInputs<ClientConfig, ClientInput>&);

}  // namespace rtrs::tools
