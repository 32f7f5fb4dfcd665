// Commands of urtrs that run until they are stopped (top, monitor), and the list of daemons.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/lib/control/rpc/client.hpp"
#include "tools/urtrs/command/arguments.hpp"
#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

// The next three functions return the exit code.
int top(rpc::Client& client, const Options& options);
int monitor(rpc::Client& client, const Options& options);
int list_daemons(const Options& options);
// Sleeps; a signal ends the sleep early.
void rest(double seconds);

// The next functions return the fields of events and of daemons.
std::vector<Field> event_fields();
std::vector<Field> daemon_fields();
// Formats an event as one line.
std::string words_of(const nlohmann::json& event);

}  // namespace rtrs::admin
