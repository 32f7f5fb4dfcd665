#include "tools/lib/control/rpc/places.hpp"

#include <tuple>

namespace rtrs::rpc {

std::optional<std::size_t> gives_way(std::span<const Place> places, Rank newcomer) {
  const auto order = [](const Place& one) { return std::tuple(one.busy, one.rank, one.last_use); };
  std::optional<std::size_t> chosen;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool may = places[i].busy ? places[i].rank < newcomer : places[i].rank <= newcomer;
    if (may && (!chosen || order(places[i]) < order(places[*chosen]))) chosen = i;
  }
  return chosen;
}

}  // namespace rtrs::rpc
