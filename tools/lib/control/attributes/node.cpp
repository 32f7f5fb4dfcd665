#include "tools/lib/control/attributes/node.hpp"

#include <cerrno>
#include <utility>

namespace rtrs::attributes {

namespace {
constexpr std::size_t kMaxBytes = 4096;  // one page: limit of sysfs for an attribute
}

Node Node::file(Read read, Write write) {
  Node node(Kind::file);
  node.read_ = std::move(read);
  node.write_ = std::move(write);
  return node;
}

Node Node::file(std::string content) {
  return file([content = std::move(content)] { return content; });
}

Node Node::link(std::string target) {
  Node node(Kind::link);
  node.target_ = std::move(target);
  return node;
}

Node Node::action(const std::string& name, std::function<int()> act) {
  return file(
      [usage = "Usage: echo 1 > " + name + "\n"] { return usage; },
      [act = std::move(act)](std::string_view text) { return is_written(text, "1") ? act() : EINVAL; });
}

Node& Node::add(std::string name, Make make) {
  entries_.emplace(std::move(name), std::move(make));
  return *this;
}

Node& Node::add(std::string name, Node node) {
  return add(std::move(name), [node = std::move(node)] { return node; });
}

unsigned Node::mode() const noexcept {
  switch (kind_) {
    case Kind::folder:
      return 0755;
    case Kind::link:
      return 0777;
    case Kind::file:
      return write_ ? 0644 : 0444;
  }
  return 0;
}

std::string Node::read() const {
  std::string text = read_ ? read_() : std::string();
  if (text.size() > kMaxBytes) text.resize(kMaxBytes);
  return text;
}

int Node::write(std::string_view text) const {
  if (!write_) return EACCES;
  return text.size() > kMaxBytes ? EINVAL : write_(text);
}

std::optional<Node> Node::find(std::string_view path) const {
  Node here = *this;
  while (!path.empty()) {
    const std::size_t end = path.find('/');
    const std::string_view name = path.substr(0, end);
    path = end == std::string_view::npos ? std::string_view() : path.substr(end + 1);
    if (name.empty()) continue;
    const auto entry = here.entries_.find(name);
    if (entry == here.entries_.end()) return std::nullopt;
    // The result is stored first, because assigning it directly to `here` would destroy the running function.
    Node next = entry->second();
    here = std::move(next);
  }
  return here;
}

bool is_written(std::string_view written, std::string_view word) noexcept {
  if (!written.empty() && written.back() == '\n') written.remove_suffix(1);
  return written == word;
}

}  // namespace rtrs::attributes
