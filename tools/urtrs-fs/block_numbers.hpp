// Assigns the numbers N for the names rnbd<N> of block devices in the tree. Each client counts its devices
// from 0, so the numbers of clients are not unique. Pure.
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
  // A device, identified by the socket of its client and by the number that this client gave to it.
  using Device = std::pair<std::string, unsigned>;

  // Sets the devices that exist now. A device keeps its number as long as it exists. A new device gets the
  // lowest free number.
  void set(const std::set<Device>& devices);
  // Returns the devices of one client.
  std::set<Device> devices_of(const std::string& client) const;
  std::optional<unsigned> number_of(const Device&) const;
  std::optional<Device> device_of(unsigned number) const;

 private:
  std::map<unsigned, Device> devices_;  // keyed by number in this tree
};

std::string block_name(unsigned number);  // returns for example "rnbd7"
std::optional<unsigned> block_number(
    std::string_view name);  // number of a name such as "rnbd7"; nullopt for other names

// The parts of a path to a block device or to something below it, such as "devices/virtual/block/rnbd7" or
// "block/rnbd7/rnbd/state".
struct BlockPath {
  std::string before;  // for example "block/"
  unsigned number = 0;
  std::string behind;  // for example "/rnbd/state"
};
std::optional<BlockPath> block_path(std::string_view path);

}  // namespace rtrs::fs_tool
