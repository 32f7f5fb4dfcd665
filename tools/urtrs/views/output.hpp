// What the commands of urtrs print, and their exit codes.
#pragma once
#include <stdexcept>
#include <string>

#include "tools/lib/control/rpc/client.hpp"
#include "tools/urtrs/command/arguments.hpp"
#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

enum ExitCode : int { done = 0, failed = 1, usage = 2, no_daemon = 3, timed_out = 4 };

// The signal that asked this process to end; 0: none has.
void catch_signals();
int interrupted() noexcept;

// Each prints, on standard error or as JSON on standard output, and answers the exit code.
int fail(const Mistake& wrong, bool as_json);
// Says nothing where a signal ended the wait.
int fail(const rpc::Error& error, bool as_json);
int say_no_daemon(const rpc::Error& error, bool as_json);
int say_unexpected(const std::string& what, bool as_json);

// The warnings that a daemon or client has in its answer, on standard error; JSON has them in the answer.
void print_warnings(const nlohmann::json& shown, const Options& options);

int print(const Table& table, const Options& options);
void print(const nlohmann::json& answer);

}  // namespace rtrs::admin
