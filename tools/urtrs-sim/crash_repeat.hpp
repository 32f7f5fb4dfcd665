// Runs a seed again whose worker process ended, to tell a crash of the seed from a process that something
// else killed.
#pragma once
#include <cstdint>
#include <optional>

#include "tools/urtrs-sim/failure_groups.hpp"
#include "tools/urtrs-sim/sweep_worker.hpp"

namespace rtrs::sim_tool {

// `status`: result of waitpid() for the worker. Returns the failure if the seed ends a second process in the
// same world and with the same status; nullopt otherwise, also if it does not end within 20 s.
std::optional<FoundFailure> repeat_crash(const SweepOptions& options, const Worker& worker, int status);

}  // namespace rtrs::sim_tool
