#include "sim/world/named_fabric.hpp"

#include <algorithm>

#include "core/base/assert.hpp"

namespace rtrs::sim {
namespace {

std::vector<std::string> addresses_of(const std::string& name) {
  std::vector<std::string> result;
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('|', begin), name.size());
    result.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return result;
}

}  // namespace

void NamedFabric::connect(ConKey key, const PathAddress& path, const ConnectionParams& params,
                          std::span<const std::byte> private_data) {
  PathAddress target = path;
  if (key.con == 0) {
    const std::vector<std::string> all = addresses_of(path.destination);
    target.destination = all[params.address % all.size()];
    if (pins_.size() <= key.path) pins_.resize(key.path + 1U);
    pins_[key.path] = {key.epoch, target.destination};
    if (all.size() > 1) found_.push_back({key, static_cast<std::uint16_t>(all.size())});
  } else {
    RTRS_ASSERT(key.path < pins_.size() && pins_[key.path].epoch == key.epoch);
    target.destination = pins_[key.path].destination;
  }
  inner_.connect(key, target, params, private_data);
}

void NamedFabric::disconnect(ConKey key) {
  std::erase_if(found_, [&](const event::AddressesFound& one) { return one.key == key; });
  inner_.disconnect(key);
}

std::size_t NamedFabric::poll(Nanos now, std::span<FabricEvent> events) noexcept {
  const std::size_t count = std::min(found_.size(), events.size());
  std::copy_n(found_.begin(), count, events.begin());
  found_.erase(found_.begin(), found_.begin() + static_cast<std::ptrdiff_t>(count));
  return count + inner_.poll(now, events.subspan(count));
}

}  // namespace rtrs::sim
