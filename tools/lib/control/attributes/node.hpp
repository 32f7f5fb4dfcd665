// A tree of attributes as sysfs shows it: folders, symbolic links, and files that hold one value. A node is
// made when somebody looks at it, from a model of the moment, so a tree costs what is looked at.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace rtrs::attributes {

class Node {
 public:
  enum class Kind : std::uint8_t { folder, file, link };
  using Make = std::function<Node()>;
  using Read = std::function<std::string()>;
  // Takes what was written; 0 or a positive errno.
  using Write = std::function<int(std::string_view text)>;

  static Node folder() { return Node(Kind::folder); }
  // Without `write` it is read-only (mode 0444, otherwise 0644).
  static Node file(Read read, Write write = {});
  static Node file(std::string content);
  static Node link(std::string target);
  // Reading it says how to use it, as in sysfs; writing "1" acts, anything else is EINVAL.
  static Node action(const std::string& name, std::function<int()> act);

  // Folders only. A later node of the same name is ignored.
  Node& add(std::string name, Make make);
  Node& add(std::string name, Node node);

  Kind kind() const noexcept { return kind_; }
  unsigned mode() const noexcept;  // permission bits
  const std::map<std::string, Make, std::less<>>& entries() const noexcept { return entries_; }
  const std::string& target() const noexcept { return target_; }
  // Files only. At most 4,096 bytes, as in sysfs.
  std::string read() const;
  // EACCES for a read-only file.
  int write(std::string_view text) const;

  // Below this folder; links are not followed. "" and "/" are the folder itself. Nothing: no such node.
  std::optional<Node> find(std::string_view path) const;

 private:
  explicit Node(Kind kind) : kind_(kind) {}
  Kind kind_;
  std::map<std::string, Make, std::less<>> entries_;
  std::string target_;
  Read read_;
  Write write_;
};

// Equal but for one newline at the end of `written`, which the shell's echo leaves there.
bool is_written(std::string_view written, std::string_view word) noexcept;

}  // namespace rtrs::attributes
