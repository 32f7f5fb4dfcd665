#include "tools/urtrs-perf/fabric.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <cstdio>

namespace rtrs::perf {

std::unique_ptr<ofi::OfiFabric> open_fabric(const Options& options) {
  ofi::OfiOptions fabric;
  fabric.provider = options.provider;
  fabric.log = [](ofi::LogLevel level, const std::string& text) {
    if (level >= ofi::LogLevel::warning) fmt::print(stderr, "urtrs-perf: {}\n", text);
  };
  auto opened = ofi::open_ofi_fabric(fabric);
  if (opened) return std::move(*opened);
  fmt::print(stderr,
             "urtrs-perf: cannot use libfabric provider \"{}\": {}; 'fi_info -l' lists the providers of this "
             "machine\n",
             options.provider, to_string(opened.error()));
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
