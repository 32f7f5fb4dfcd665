// The page of a simulated run: the sequence diagram of its traces, with what only the simulator knows.
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/lib/trace/sequence/page.hpp"
#include "tools/urtrs-sim/artifacts.hpp"

namespace rtrs::sim_tool {

// Maximum number of steps of a page, because larger pages are slow in a browser.
inline constexpr std::size_t kMostSteps = 20'000;

// Returns the page. `marks`: all findings of `check`. Marks the event at which an oracle failed. `command`:
// see PageFacts. Throws std::runtime_error if the traces are empty.
std::string run_page(const std::vector<std::string>& traces,
                     const std::vector<tools::sequence::WantedMark>& marks, const RunNotes& notes,
                     const std::string& command);

// Judges the traces PREFIX.*.rtrc and writes their page. `traces_stay`: the page may name the traces. Returns
// false after printing an error.
bool write_run_page(const std::string& prefix, bool traces_stay, const RunNotes& notes,
                    const std::string& file);

// Returns the failure in the answer of `urtrs-sim run`, as far as an oracle failed.
RunNotes notes_of(const nlohmann::ordered_json& run);

}  // namespace rtrs::sim_tool
