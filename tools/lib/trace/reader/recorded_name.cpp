#include "tools/lib/trace/reader/recorded_name.hpp"

#include <string_view>

namespace rtrs::trace {

std::string recorded_name(const NameText& recorded) {
  const std::string_view text = recorded.view();
  const auto digit = [](char c) -> unsigned {
    return static_cast<unsigned>(c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : 0);
  };
  std::string name;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && at + 3 < text.size() && text[at + 1] == 'x') {
      name += static_cast<char>(digit(text[at + 2]) << 4 | digit(text[at + 3]));
      at += 3;
    } else {
      if (text[at] == '\\' && at + 1 < text.size()) ++at;
      name += text[at];
    }
  }
  return name;
}

}  // namespace rtrs::trace
