#include "tools/urtrs-mapd/log.hpp"

#include <chrono>
#include <cstdio>

#include "tools/lib/text/log_stamp.hpp"
#include "tools/lib/text/printable.hpp"

namespace rtrs::mapd {

namespace {
bool times = false;
}  // namespace

void log_times() {
  times = true;
}

void log(int severity, const std::string& line) {
  static const bool journal = tools::journal_reads_stderr();
  const std::string text = tools::printable(line);
  if (journal)
    std::fprintf(stderr, "<%d>%s\n", severity, text.c_str());
  else
    std::fprintf(stderr, "%surtrs-mapd: %s\n",
                 times ? tools::log_stamp(std::chrono::system_clock::now()).c_str() : "", text.c_str());
}

}  // namespace rtrs::mapd
