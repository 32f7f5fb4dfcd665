#include "tools/lib/text/terminal/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace rtrs::tools {

bool is_terminal(std::FILE* stream) {
  const char* const term = std::getenv("TERM");
  return ::isatty(::fileno(stream)) == 1 && (term == nullptr || term != std::string_view("dumb"));
}

std::size_t columns_of(std::FILE* stream) {
  winsize size{};
  return ::isatty(::fileno(stream)) == 1 && ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0 ? size.ws_col
                                                                                              : 0;
}

bool wants_color(std::FILE* stream) {
  const char* const no_color = std::getenv("NO_COLOR");
  return is_terminal(stream) && (no_color == nullptr || *no_color == 0);
}

}  // namespace rtrs::tools
