#include "backends/platform/address/destinations.hpp"

#include <algorithm>
#include <utility>

namespace rtrs::net {

Destinations::Destinations(Parse parse, FindHost find, NameBounds bounds)
    : parse_(std::move(parse)), names_(std::move(find), bounds) {}

std::vector<SocketAddress> Destinations::resolve(std::string_view text, std::uint16_t port) const {
  if (const Result<SocketAddress> one = parse_(text, port)) return {*one};
  return names_.asks() ? net::resolve(text, port) : std::vector<SocketAddress>{};
}

bool Destinations::ask(ConKey key, const PathAddress& path, unsigned address) {
  if (names_.wait_fd() < 0 || pinned(key) != nullptr) return false;
  if (!names_.ask(++next_ticket_, {path.destination, path.source})) return false;
  asked_[next_ticket_] = {key, path, address};
  return true;
}

void Destinations::forget(ConKey key) noexcept {
  std::erase_if(asked_, [&](const auto& entry) {
    if (entry.second.key != key) return false;
    names_.forget(entry.first);
    return true;
  });
}

std::vector<Destinations::Ready> Destinations::take() {
  std::vector<Ready> ready;
  for (const std::uint64_t ticket : names_.take()) {
    auto node = asked_.extract(ticket);
    if (!node.empty()) ready.push_back(std::move(node.mapped()));
  }
  return ready;
}

const Destinations::Route* Destinations::pinned(ConKey key) const noexcept {
  const auto pin = pins_.find(key.path);
  return key.con != 0 && pin != pins_.end() && pin->second.epoch == key.epoch ? &pin->second.route : nullptr;
}

std::vector<SocketAddress> Destinations::addresses(std::string_view text, std::uint16_t port) const {
  if (const Result<SocketAddress> one = parse_(text, port)) return {*one};
  return names_.addresses(text, port);
}

tl::expected<Destinations::Route, Destinations::Failure> Destinations::find(const PathAddress& path,
                                                                            unsigned address) const {
  std::vector<SocketAddress> to = addresses(path.destination, path.port);
  if (to.empty())
    return tl::unexpected(Failure{Reason::name_unresolved, names_.is_silent(path.destination),
                                  names_.unresolved_reason(path.destination)});
  Route route;
  if (!path.source.empty()) {
    const std::vector<SocketAddress> from = addresses(path.source, 0);
    const auto same_family = [](const SocketAddress& one) {
      return [family = one.family()](const SocketAddress& other) { return other.family() == family; };
    };
    // A connection needs two addresses of the same family: drops destinations whose family the source lacks.
    std::erase_if(to, [&](const SocketAddress& one) {
      return std::none_of(from.begin(), from.end(), same_family(one));
    });
    if (to.empty())
      return tl::unexpected(Failure{Reason::source_unavailable, from.empty() && names_.is_silent(path.source),
                                    "\"" + path.source + "\" is not a source address for it"});
    route.to = to[address % to.size()];
    route.from = *std::find_if(from.begin(), from.end(), same_family(route.to));
  } else {
    route.to = to[address % to.size()];
  }
  route.count = static_cast<std::uint16_t>(to.size());
  return route;
}

tl::expected<Destinations::Route, Destinations::Failure> Destinations::route(ConKey key,
                                                                             const PathAddress& path,
                                                                             unsigned address) {
  if (const Route* const known = pinned(key)) return *known;
  auto route = find(path, address);
  if (route && key.con == 0) pins_[key.path] = {key.epoch, *route};
  return route;
}

}  // namespace rtrs::net
