// Commands of urtrs that go on: top and monitor; and what runs here.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/lib/control/rpc/client.hpp"
#include "tools/urtrs/command/arguments.hpp"
#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

// Each answers the exit code.
int top(rpc::Client& client, const Options& options);
int monitor(rpc::Client& client, const Options& options);
int list_daemons(const Options& options);
// Waits, but not once a signal asks this process to end.
void rest(double seconds);

// The columns of events and of daemons.
std::vector<Field> event_fields();
std::vector<Field> daemon_fields();
// An event as a line for people.
std::string words_of(const nlohmann::json& event);

}  // namespace rtrs::admin
