// Numbers of block devices that are unique among all clients: rnbd<N> in the tree, where each client numbers
// its own from 0. No lock, no socket.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace rtrs::admin {

class BlockNumbers {
 public:
  // Whose device, and its number there.
  using Device = std::pair<std::string, unsigned>;

  // These are there now. A device keeps its number as long as it is; a new one gets the lowest free number.
  void set(const std::set<Device>& devices);
  // Those of this client.
  std::set<Device> devices_of(const std::string& client) const;
  std::optional<unsigned> number_of(const Device&) const;
  std::optional<Device> device_of(unsigned number) const;

 private:
  std::map<unsigned, Device> devices_;  // by number
};

std::string block_name(unsigned number);                      // "rnbd7"
std::optional<unsigned> block_number(std::string_view name);  // of "rnbd7"; nothing: it is no such name

// A path of a block device or below it, "block/rnbd7/rnbd/state" or "devices/virtual/block/rnbd7".
struct BlockPath {
  std::string before;  // "block/"
  unsigned number = 0;
  std::string behind;  // "/rnbd/state"
};
std::optional<BlockPath> block_path(std::string_view path);

}  // namespace rtrs::admin
