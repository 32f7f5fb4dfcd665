#include "backends/platform/address/address_list.hpp"

#include <algorithm>
#include <array>

namespace rtrs::net {
namespace {

bool has(const std::vector<SocketAddress>& list, const SocketAddress& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

}  // namespace

std::vector<SocketAddress> in_turn(const std::vector<SocketAddress>& found) {
  // [0]: addresses of the same family as the first address, [1]: all others.
  std::array<std::vector<SocketAddress>, 2> by_family;
  for (const SocketAddress& one : found) {
    std::vector<SocketAddress>& family = by_family[one.family() == found.front().family() ? 0 : 1];
    if (!has(family, one)) family.push_back(one);
  }
  std::vector<SocketAddress> result;
  for (std::size_t i = 0; i < std::max(by_family[0].size(), by_family[1].size()); ++i)
    for (const std::vector<SocketAddress>& family : by_family)
      if (i < family.size() && !has(result, family[i])) result.push_back(family[i]);
  if (result.size() > kMaxAddresses) result.resize(kMaxAddresses);
  return result;
}

std::vector<SocketAddress> keep_known_order(const std::vector<SocketAddress>& known,
                                            std::vector<SocketAddress> found) {
  const auto place = [&](const SocketAddress& one) {
    return std::find(known.begin(), known.end(), one) - known.begin();
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const SocketAddress& a, const SocketAddress& b) { return place(a) < place(b); });
  return found;
}

}  // namespace rtrs::net
