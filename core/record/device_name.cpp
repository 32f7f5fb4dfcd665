#include "core/record/device_name.hpp"

#include "core/record/format.hpp"

namespace rtrs::trace {

NameText name_text(std::string_view name) noexcept {
  constexpr char kDigits[] = "0123456789abcdef";
  name = name.substr(0, wire::kMaxNameBytes + 1);
  const bool readable = is_utf8(name);
  NameText text;
  const auto add = [&text](char c) { text.units[text.length++] = c; };
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (!readable && byte >= 0x80) {
      add('\\');
      add('x');
      add(kDigits[byte >> 4]);
      add(kDigits[byte & 15]);
    } else {
      if (c == '\\') add(c);
      add(c);
    }
  }
  return text;
}

}  // namespace rtrs::trace
