#include "tools/lib/text/help_text.hpp"

namespace rtrs::tools {

namespace {

std::string wrapped_line(std::string_view line, std::size_t indent) {
  if (indent + line.size() <= kHelpWidth || line.front() == ' ') return std::string(line);
  std::string text;
  std::size_t column = indent;
  while (!line.empty()) {
    const std::size_t end = line.find(' ');
    const std::string_view word = line.substr(0, end);
    if (column > indent && column + 1 + word.size() > kHelpWidth) {
      text += "\n" + std::string(indent, ' ');
      column = indent;
    }
    if (column > indent) {
      text += ' ';
      ++column;
    }
    text += word;
    column += word.size();
    line.remove_prefix(end == std::string_view::npos ? line.size() : end + 1);
  }
  return text;
}

}  // namespace

std::string wrapped(std::string_view text, std::size_t indent) {
  std::string result;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    result += wrapped_line(text.substr(0, end), indent);
    if (end == std::string_view::npos) break;
    result += '\n';
    text.remove_prefix(end + 1);
  }
  return result;
}

std::string help_entry(std::string_view name, std::string_view meaning, std::size_t column) {
  std::string text = "  " + std::string(name);
  if (meaning.empty()) return text + "\n";
  // Two spaces at least between name and meaning.
  if (text.size() + 2 > column)
    text += "\n" + std::string(column, ' ');
  else
    text.resize(column, ' ');
  return text + wrapped(meaning, column) + "\n";
}

}  // namespace rtrs::tools
