#include "tools/urtrs-sim/examples.hpp"

#include <string>
#include <string_view>
#include <utility>

namespace rtrs::sim_tool {

namespace {

// Examples by command. The help of the program has the first of each.
constexpr std::pair<const char*, const char*> kExamples[] = {
    {"sweep",
     "  urtrs-sim sweep --seeds 0..20000\n"
     "  urtrs-sim sweep --seeds 0..2000 --fabric verbs-mock\n"
     "  urtrs-sim sweep --seeds 0..1000000 --state sweep.state\n"
     "  urtrs-sim sweep --seeds 0..100 --histories histories\n"
     "  urtrs-sim sweep --seeds 0..1000 --result 0.json\n"},
    {"run",
     "  urtrs-sim run --seed 4711 --verbose\n"
     "  urtrs-sim run --seed 4711 --without crash,ghosts\n"
     "  urtrs-sim run --scenario L01 --seed 3\n"
     "  urtrs-sim run --choices small.choices --artifacts found\n"},
    {"shrink",
     "  urtrs-sim shrink --seed 4711 --out small.choices\n"
     "  urtrs-sim shrink --file mine.scenarios --seed 17\n"},
    {"blame",
     "  urtrs-sim blame --seed 4711 --page why.html\n"
     "  urtrs-sim blame --choices small.choices\n"},
    {"scenarios",
     "  urtrs-sim scenarios --only L01,L02 --seeds 0..200 --no-fence\n"
     "  urtrs-sim scenarios --file mine.scenarios --seeds 0..200\n"},
    {"explore",
     "  urtrs-sim explore\n"
     "  urtrs-sim explore --config small --fence off --out lost.json\n"
     "  urtrs-sim explore --replay lost.json\n"},
    {"merge", "  urtrs-sim merge 0.json --out all.json\n"},
    {"ledger",
     "  urtrs-sim ledger add all.json --html ledger.html\n"
     "  urtrs-sim sweep --seeds 0..20000 --ledger ledger.jsonl\n"
     "  urtrs-sim ledger fix 1\n"},
    {"coverage", "  urtrs-sim coverage --seeds 0..5000\n"},
    {"hash", "  urtrs-sim hash --seeds 0..100\n"},
    {"list", "  urtrs-sim list\n  urtrs-sim list --steps\n"},
};

constexpr const char* kExitCodes =
    "Exit codes: 0 every rule held, 1 a rule was broken, 2 usage, 4 no progress (explore: no room), 5 one "
    "seed gave two different runs, or a trace differs from its run, 130 and 143 stopped by a signal: the "
    "summary covers what was played.";

std::string footer_of(const std::string& examples) {
  return "Examples:\n" + examples + "\n" + kExitCodes;
}

}  // namespace

void set_footers(CLI::App& app) {
  std::string all;
  for (const auto& [command, examples] : kExamples) {
    app.get_subcommand(command)->footer(footer_of(examples));
    all.append(examples, std::string_view(examples).find('\n') + 1);
  }
  app.footer(footer_of(all));
}

}  // namespace rtrs::sim_tool
