#include "sim/explore/renaming.hpp"

#include <algorithm>
#include <type_traits>

#include "core/base/assert.hpp"
#include "core/wire/messages.hpp"
#include "sim/explore/field_name.hpp"

namespace rtrs::explore {

using sim::MachineWorld;

Renaming::Renaming(const MachineWorld& world)
    : world_(world),
      client_(world.client()),
      tagged_(has(world.config().client.extensions & world.config().server.extensions,
                  wire::Extensions::generation)) {
  remember_client();
  MachineWorld::visit_fields(world, [this](const char*, const auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, std::vector<Connection>>) {
      name_connections(field);
      remember(field);
    } else if constexpr (std::is_same_v<Field, std::vector<ServerSession>>) {
      for (const ServerSession& session : field) remember(session);
    }
  });
}

void Renaming::name_connections(const std::vector<Connection>& connections) {
  RTRS_ASSERT(connections.size() < kMostNames);
  for (const Connection& one : connections) {
    std::size_t at = named_++;
    for (; at > 0 && one.client_key < order_[at - 1]->client_key; --at) order_[at] = order_[at - 1];
    order_[at] = &one;
  }
  for (std::size_t i = 0; i < named_; ++i) names_[i] = order_[i]->id;
  connections_ = named_;
}

std::uint32_t Renaming::name_of(std::uint32_t id) {
  if (id == 0) return 0;
  const auto end = names_.begin() + static_cast<std::ptrdiff_t>(named_);
  const auto found = std::find(names_.begin(), end, id);
  if (found != end) return static_cast<std::uint32_t>(found - names_.begin()) + 1;
  RTRS_ASSERT(named_ < kMostNames);
  names_[named_++] = id;
  return static_cast<std::uint32_t>(named_);
}

void Renaming::remember(unsigned path, std::uint32_t epoch) {
  if (path >= kMostPaths) return;
  auto& known = epochs_[path];
  const auto number = static_cast<std::uint16_t>(epoch);
  if (std::find(known.begin(), known.end(), number) == known.end()) known.push_back(number);
}

void Renaming::remember_client() {
  const unsigned paths = world_.config().paths;
  for (unsigned path = 0; path < paths; ++path) remember(path, client_.path(path).epoch());
  ClientSession::visit_fields(client_, [this, paths](FieldName name, const auto& field) RTRS_INLINED {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (requires { field[0].asked_over; }) {
      for (unsigned path = 0; path < paths; ++path) {
        remember(path, field[path].upto_epoch);
        remember(field[path].asked_over.path, field[path].asked_over.epoch);
      }
    } else if constexpr (std::is_same_v<Field, std::uint32_t>) {
      if (name == "next_fence_serial_") next_serial_ = field;
    }
  });
}

void Renaming::remember(const std::vector<Connection>& connections) {
  for (const Connection& one : connections) {
    remember(one.client_key.path, one.client_key.epoch);
    for (const auto& message : one.to_server)
      if (is_attempt(message)) remember(message.path, message.recon);
  }
}

void Renaming::remember(const ServerSession& session) {
  ServerSession::visit_fields(session, [this](const char*, const auto& field) {
    if constexpr (requires { field.chunks; })
      for (const ServerPath& path : field.paths)
        if (path.state != PathState::absent) remember(path_of(path), path.recon_cnt);
  });
}

std::size_t Renaming::age(unsigned path, std::uint32_t epoch) const {
  if (path >= kMostPaths) return epoch;
  const auto& known = epochs_[path];
  const auto number = static_cast<std::uint16_t>(epoch);
  RTRS_ASSERT(std::find(known.begin(), known.end(), number) != known.end());
  return static_cast<std::size_t>(std::count_if(
      known.begin(), known.end(), [number](std::uint16_t other) { return newer_attempt(other, number); }));
}

std::uint8_t Renaming::generation(std::uint16_t permit, std::uint8_t value) const noexcept {
  if (!tagged_ || !client_.opened()) return value;
  return static_cast<std::uint8_t>(client_.permit(permit).generation - value);
}

}  // namespace rtrs::explore
