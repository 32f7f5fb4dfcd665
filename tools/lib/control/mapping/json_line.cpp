#include "tools/lib/control/mapping/json_line.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace rtrs::mapping {

namespace {

std::size_t line_at(std::string_view text, std::size_t at) {
  return 1 + static_cast<std::size_t>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

// Finds the value at `place`. The text must be valid JSON.
class Walk {
 public:
  Walk(std::string_view text, const JsonPlace& place) : text_(text), place_(place) {}

  std::size_t nearest() {
    for (at_ = 0; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == '{' || c == '[') {
        value();
        open_.push_back({c == '{', 0, {}, c == '{'});
      } else if (c == '}' || c == ']') {
        if (!open_.empty()) open_.pop_back();
      } else if (c == ',' && !open_.empty()) {
        ++open_.back().index;
        open_.back().key_next = open_.back().object;
      } else if (c == '"') {
        string();
      } else if (c != ':' && !is_blank(c)) {
        value();
        while (at_ + 1 < text_.size() && !is_end(text_[at_ + 1])) ++at_;
      }
    }
    return line_at(text_, best_at_);
  }

 private:
  struct Open {
    bool object = false;
    std::size_t index = 0;
    std::string_view key;
    bool key_next = false;
  };

  static bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
  static bool is_end(char c) { return is_blank(c) || c == ',' || c == '}' || c == ']'; }

  void string() {
    const std::size_t begin = at_ + 1;
    const bool is_key = !open_.empty() && open_.back().key_next;
    if (!is_key) value();
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_)
      if (text_[at_] == '\\') ++at_;
    if (!is_key) return;
    open_.back().key = text_.substr(begin, std::min(at_, text_.size()) - begin);
    open_.back().key_next = false;
  }

  // Called at the first byte of each value. Records the position if the value is at `place` or encloses the
  // value at `place`.
  void value() {
    if (open_.size() > place_.size() || open_.size() < best_depth_) return;
    for (std::size_t i = 0; i < open_.size(); ++i)
      if (open_[i].object ? open_[i].key != place_[i] : std::to_string(open_[i].index) != place_[i]) return;
    best_depth_ = open_.size();
    best_at_ = at_;
  }

  std::string_view text_;
  const JsonPlace& place_;
  std::vector<Open> open_;
  std::size_t at_ = 0;
  std::size_t best_at_ = 0;
  std::size_t best_depth_ = 0;
};

}  // namespace

std::size_t line_of(std::string_view text, const JsonPlace& place) {
  return Walk(text, place).nearest();
}

std::size_t line_of_mistake(std::string_view text) {
  using nlohmann::json;
  std::size_t byte = 0;
  try {
    // Only the position of the error is needed, so the callback discards all values.
    const json nothing = json::parse(text, [](int, json::parse_event_t, json&) { return false; });
    if (!nothing.is_discarded()) return 1;
  } catch (const json::parse_error& error) {
    byte = error.byte;
  }
  return line_at(text, std::min(byte == 0 ? 0 : byte - 1, text.size()));
}

}  // namespace rtrs::mapping
