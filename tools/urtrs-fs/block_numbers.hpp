// Unique numbers N for the names rnbd<N> of the block devices of all clients in the tree, because each client
// numbers its own devices from 0. Pure.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace rtrs::fs_tool {

class BlockNumbers {
 public:
  // The socket of a client, and the number that this client gave to the device.
  using Device = std::pair<std::string, unsigned>;

  // Sets the current devices. A device keeps its number as long as it exists; a new one gets the lowest free
  // number.
  void set(const std::set<Device>& devices);
  // Devices of one client.
  std::set<Device> devices_of(const std::string& client) const;
  std::optional<unsigned> number_of(const Device&) const;
  std::optional<Device> device_of(unsigned number) const;

 private:
  std::map<unsigned, Device> devices_;  // keyed by number in this tree
};

std::string block_name(unsigned number);  // for example "rnbd7"
std::optional<unsigned> block_number(
    std::string_view name);  // number of a name such as "rnbd7"; nullopt for other names

// Parts of a path to or below a block device, such as "block/rnbd7/rnbd/state" or
// "devices/virtual/block/rnbd7".
struct BlockPath {
  std::string before;  // "block/"
  unsigned number = 0;
  std::string behind;  // "/rnbd/state"
};
std::optional<BlockPath> block_path(std::string_view path);

}  // namespace rtrs::fs_tool
