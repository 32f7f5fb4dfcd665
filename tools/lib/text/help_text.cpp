#include "tools/lib/text/help_text.hpp"

#include <algorithm>

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

// Returns true if `line`, the first line of a help entry, lists `topic` as an option or parameter name.
bool names_option(std::string_view line, std::string_view topic) {
  line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
  line = line.substr(0, line.find("  "));
  if (line.empty() || (line.front() != '-' && line.find('=') == std::string_view::npos)) return false;
  while (!line.empty()) {
    const std::size_t comma = std::min(line.size(), line.find(','));
    const std::string_view name = line.substr(0, std::min(comma, line.find_first_of("=[ ")));
    if (name == topic || (name.substr(0, 2) == "--" && name.substr(2) == topic)) return true;
    line.remove_prefix(std::min(line.size(), comma + 1));
    line.remove_prefix(std::min(line.size(), line.find_first_not_of(' ')));
  }
  return false;
}

std::size_t indent_of(std::string_view line) {
  return std::min(line.size(), line.find_first_not_of(' '));
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
  // At least two spaces separate the name from the meaning.
  if (text.size() + 2 > column)
    text += "\n" + std::string(column, ' ');
  else
    text.resize(column, ' ');
  return text + wrapped(meaning, column) + "\n";
}

std::string help_entries_about(std::string_view help, std::string_view topic) {
  std::string found;
  std::size_t indent = 0;
  bool within = false;
  while (!help.empty()) {
    const std::size_t end = std::min(help.size(), help.find('\n'));
    const std::string_view line = help.substr(0, end);
    help.remove_prefix(std::min(help.size(), end + 1));
    within = within && !line.empty() && indent_of(line) > indent;
    if (!within && names_option(line, topic)) {
      within = true;
      indent = indent_of(line);
    }
    if (within) found += std::string(line) + "\n";
  }
  return found;
}

}  // namespace rtrs::tools
