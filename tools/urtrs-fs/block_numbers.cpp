#include "tools/urtrs-fs/block_numbers.hpp"

#include <algorithm>
#include <charconv>

namespace rtrs::fs_tool {

namespace {
constexpr std::string_view kPrefix = "rnbd";
constexpr std::string_view kFolders[] = {"block/", "devices/virtual/block/"};
}  // namespace

void BlockNumbers::set(const std::set<Device>& devices) {
  std::erase_if(devices_, [&](const auto& one) { return !devices.contains(one.second); });
  for (const Device& device : devices) {
    if (number_of(device)) continue;
    unsigned number = 0;
    while (devices_.contains(number)) ++number;
    devices_.emplace(number, device);
  }
}

std::set<BlockNumbers::Device> BlockNumbers::devices_of(const std::string& client) const {
  std::set<Device> all;
  for (const auto& [number, device] : devices_)
    if (device.first == client) all.insert(device);
  return all;
}

std::optional<unsigned> BlockNumbers::number_of(const Device& device) const {
  const auto found =
      std::find_if(devices_.begin(), devices_.end(), [&](const auto& one) { return one.second == device; });
  return found == devices_.end() ? std::nullopt : std::optional(found->first);
}

std::optional<BlockNumbers::Device> BlockNumbers::device_of(unsigned number) const {
  const auto found = devices_.find(number);
  return found == devices_.end() ? std::nullopt : std::optional(found->second);
}

std::string block_name(unsigned number) {
  return std::string(kPrefix) + std::to_string(number);
}

std::optional<unsigned> block_number(std::string_view name) {
  if (name.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  unsigned number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  // Only the name that block_name() returns is valid, so "rnbd01" is not.
  return block_name(number) == name ? std::optional(number) : std::nullopt;
}

std::optional<BlockPath> block_path(std::string_view path) {
  for (const std::string_view folder : kFolders) {
    if (path.substr(0, folder.size()) != folder) continue;
    const std::string_view rest = path.substr(folder.size());
    const std::string_view name = rest.substr(0, rest.find('/'));
    if (const auto number = block_number(name))
      return BlockPath{std::string(folder), *number, std::string(rest.substr(name.size()))};
  }
  return std::nullopt;
}

}  // namespace rtrs::fs_tool
