#include "tools/urtrs-perf/fabric.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <cstdio>

#include "tools/lib/control/fabric/open_fabric.hpp"

namespace rtrs::perf {

std::unique_ptr<Fabric> open_fabric(const Options& options) {
  tools::FabricChoice choice;
  static_cast<options::FabricOptions&>(choice) = options;
  choice.client = !options.addresses.empty();
  // A warning that is repeated is printed only once, because each attempt to connect fails in the same way.
  choice.log = [last = std::string()](tools::LogLevel level, const std::string& text) mutable {
    const bool tells = level == tools::LogLevel::warning || level == tools::LogLevel::unmet;
    if (tells && text != last) fmt::print(stderr, "urtrs-perf: {}\n", text);
    if (tells) last = text;
  };
  auto opened = tools::open_fabric(choice);
  if (opened) return std::move(*opened);
  fmt::print(stderr, "urtrs-perf: {}\n", opened.error());
  return nullptr;
}

bool pin(const Options& options) {
  if (!options.cpu) return true;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (*options.cpu < CPU_SETSIZE) CPU_SET(*options.cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) == 0) return true;
  fmt::print(stderr, "urtrs-perf: cannot run on processor {}\n", *options.cpu);
  return false;
}

}  // namespace rtrs::perf
