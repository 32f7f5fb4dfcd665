#include "tools/urtrs-mapd/log.hpp"

#include <cstdio>
#include <cstdlib>

#include "tools/lib/text/printable.hpp"

namespace rtrs::mapd {

void log(int severity, const std::string& line) {
  static const bool journal = std::getenv("JOURNAL_STREAM") != nullptr;
  const std::string text = tools::printable(line);
  if (journal)
    std::fprintf(stderr, "<%d>%s\n", severity, text.c_str());
  else
    std::fprintf(stderr, "urtrs-mapd: %s\n", text.c_str());
}

}  // namespace rtrs::mapd
