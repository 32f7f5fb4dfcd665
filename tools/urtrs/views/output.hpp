// Output and exit codes of the commands.
#pragma once
#include <stdexcept>
#include <string>

#include "tools/lib/control/rpc/client.hpp"
#include "tools/urtrs/command/arguments.hpp"
#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

enum ExitCode : int { done = 0, failed = 1, usage = 2, no_daemon = 3, timed_out = 4 };

// Records signals. interrupted() returns the signal that requested the end of this process; 0: none.
void catch_signals();
int interrupted() noexcept;

// Each prints an error on standard error, or as JSON on standard output, and returns the exit code.
int fail(const Mistake& wrong, bool as_json);
// Prints nothing if a signal interrupted the call.
int fail(const rpc::Error& error, bool as_json);
int say_no_daemon(const rpc::Error& error, bool as_json);
int say_unexpected(const std::string& what, bool as_json);

// Prints the warnings of a reply on standard error. Not for JSON output, which contains them.
void print_warnings(const nlohmann::json& shown, const Options& options);

int print(const Table& table, const Options& options);
void print(const nlohmann::json& answer);

}  // namespace rtrs::admin
