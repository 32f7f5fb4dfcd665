// `ledger`, and the cases that `sweep --ledger` runs first.
#pragma once
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace rtrs::sim_tool {

struct LedgerCommand {
  std::string file = "ledger.jsonl";
  std::string html;                // the page to write; empty: none
  std::vector<std::string> words;  // "add" and results, "fix" and cases, or nothing
};
// Prints or changes the ledger. Returns the exit code.
int keep_ledger(const LedgerCommand& command);

// Runs all cases of the ledger and prints those that fail. Returns kOk, or kViolated if one fails.
int run_cases(const std::string& file);

CLI::App* ledger_options(CLI::App& app, LedgerCommand& command);

}  // namespace rtrs::sim_tool
