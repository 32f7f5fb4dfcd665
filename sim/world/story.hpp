// End-to-end tests in a few lines: clients, a server, and steps as text.
//
//   const WorldResult result = play_story({.clients = 2}, R"(
//     cut client=1 path=0
//     lost client=1 path=0
//   )");
//   EXPECT_FALSE(result.failed) << result.failure.text;
//
// sim/world/script.hpp and `urtrs-sim list --steps` describe the steps. After the last step all faults end,
// and World judges the rest of the run: every path reconnects in time, every request ends, nothing leaks.
#pragma once
#include <cstdint>
#include <string_view>

#include "sim/world/world_run.hpp"

namespace rtrs::sim {

// A calm directed scenario: two paths of three connections, one heartbeat per second, eight permits, some
// load. `choice` only determines the seed of the clients.
Scenario base_scenario(ChoiceSource& choice);
// Sets the script and the time limits that follow from it. Call it last, because these limits depend on all
// options.
void set_script(Scenario&, Script);

struct Story {
  std::uint32_t clients = 1;
  std::uint32_t paths = 2;     // number of paths per client
  std::uint32_t requests = 0;  // number of requests per client, in addition to the steps
  std::uint64_t seed = 1;      // determines the random delays and orders
  bool over_tcp = false;       // true: the TCP fabric; false: simulated queue pairs
};

// Plays one step per line of `steps`. An invalid line fails the run.
WorldResult play_story(const Story&, std::string_view steps);

}  // namespace rtrs::sim
