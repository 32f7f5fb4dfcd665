// Prints the output and the errors of commands, and determines the exit code.
#pragma once
#include <stdexcept>
#include <string>

#include "tools/lib/control/rpc/client.hpp"
#include "tools/urtrs/command/arguments.hpp"
#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

enum ExitCode : int { done = 0, failed = 1, usage = 2, no_daemon = 3, timed_out = 4 };

// Makes the process record signals. interrupted() returns the signal that asked the process to end, or 0.
void catch_signals();
int interrupted() noexcept;

// Both functions print an error, on standard error or as JSON on standard output, and return the exit code.
int fail(const Mistake& wrong, bool as_json);
// Prints nothing if a signal has interrupted the call.
int fail(const rpc::Error& error, bool as_json);
int say_no_daemon(const rpc::Error& error, bool as_json);
int say_unexpected(const std::string& what, bool as_json);

// Prints the warnings of a reply on standard error. Does nothing for JSON output, because that contains the
// warnings.
void print_warnings(const nlohmann::json& shown, const Options& options);

int print(const Table& table, const Options& options);
void print(const nlohmann::json& answer);

}  // namespace rtrs::admin
