// A tree of attributes like sysfs: folders, symbolic links, and files with one value. Nodes are created when
// they are accessed, from a snapshot of the state. So only the nodes that are read cost time.
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
  // Handles a write. Returns 0 or a positive errno.
  using Write = std::function<int(std::string_view text)>;

  static Node folder() { return Node(Kind::folder); }
  // Makes a file. Its mode is 0644, or 0444 (read-only) without `write`.
  static Node file(Read read, Write write = {});
  static Node file(std::string content);
  static Node link(std::string target);
  // Makes a file that returns a usage text when read, as in sysfs. Writing "1" calls `act`; any other text
  // fails with EINVAL.
  static Node action(const std::string& name, std::function<int()> act);

  // For folders only. Ignores the new node if the name exists already.
  Node& add(std::string name, Make make);
  Node& add(std::string name, Node node);

  Kind kind() const noexcept { return kind_; }
  unsigned mode() const noexcept;  // permission bits
  const std::map<std::string, Make, std::less<>>& entries() const noexcept { return entries_; }
  const std::string& target() const noexcept { return target_; }
  // For files only. Returns at most 4,096 bytes, as in sysfs.
  std::string read() const;
  // Returns 0 or a positive errno; EACCES for a read-only file.
  int write(std::string_view text) const;

  // Returns the node at `path` below this folder, or nullopt. Does not follow links. "" and "/" mean this
  // folder.
  std::optional<Node> find(std::string_view path) const;

 private:
  explicit Node(Kind kind) : kind_(kind) {}
  Kind kind_;
  std::map<std::string, Make, std::less<>> entries_;
  std::string target_;
  Read read_;
  Write write_;
};

// Returns true if `written` equals `word`, ignoring one newline at the end of `written`, which `echo` adds.
bool is_written(std::string_view written, std::string_view word) noexcept;

}  // namespace rtrs::attributes
