#include "tools/nbdkit/exports.hpp"

#include <algorithm>
#include <cerrno>

#include "core/rnbd/geometry.hpp"

namespace rtrs::nbdkit {

using wire::rnbd::AccessMode;

Export& Exports::add(std::string_view name) {
  const auto found = std::ranges::find(all_, name, &Export::name);
  if (found != all_.end()) return *found;
  Export& made = all_.emplace_back();
  made.name = name;
  return made;
}

Export& Exports::keep(std::string_view name) {
  Export& one = add(name);
  one.kept = true;
  return one;
}

Export& Exports::join(std::string_view name) {
  Export& one = add(name);
  ++one.users;
  return one;
}

void Exports::leave(Export& one, Nanos now) {
  if (--one.users == 0) one.unused_since = now;
  drop_if_unused(one);
}

bool Exports::drop_if_unused(Export& one) {
  if (one.users != 0 || one.kept || one.state != Export::State::idle) return false;
  all_.remove_if([&one](const Export& other) { return &other == &one; });
  return true;
}

AccessMode Exports::mode_for(const Export& one, const Wish& wish) {
  return one.reads_only && wish.or_read_only ? AccessMode::read_only : wish.mode;
}

Exports::Step Exports::next(const Export& one, Wish& wish) const {
  switch (one.state) {
    case Export::State::open: {
      const bool too_little = !rnbd::is_writable(one.mode) && rnbd::is_writable(mode_for(one, wish));
      // The device can be reopened in the wanted mode only if no other connection uses it.
      return too_little && one.users == 1 ? Step::unmap : Step::serve;
    }
    case Export::State::opening:
      wish.opening = one.openings;
      return Step::wait;
    case Export::State::closing:
      return Step::wait;
    case Export::State::idle:
      break;
  }
  const bool failed = one.error != 0 && wish.opening != 0 && wish.opening == one.openings;
  const bool another_mode = rnbd::is_writable(one.mode) && !rnbd::is_writable(mode_for(one, wish));
  return failed && !another_mode ? Step::fail : Step::map;
}

void Exports::began(Export& one, rnbd::DeviceHandle handle, AccessMode mode) {
  one.number = free_number();
  one.state = Export::State::opening;
  one.handle = handle;
  one.mode = mode;
  one.error = one.refusal = 0;
  ++one.openings;
}

unsigned Exports::free_number() const {
  unsigned number = 0;
  while (std::ranges::any_of(
      all_, [number](const Export& one) { return one.state != Export::State::idle && one.number == number; }))
    ++number;
  return number;
}

Export* Exports::find(rnbd::DeviceHandle handle) {
  const auto found = std::ranges::find_if(
      all_, [handle](const Export& one) { return one.state != Export::State::idle && one.handle == handle; });
  return found != all_.end() ? &*found : nullptr;
}

void Exports::on_changed(Export& one, const rnbd::DeviceChanged& change) {
  switch (change.state) {
    case rnbd::DeviceState::open:
      if (one.state == Export::State::opening) one.state = Export::State::open;
      one.geometry = change.geometry;
      one.refusal = 0;
      break;
    case rnbd::DeviceState::closed:
      if (change.peer_errno != 0) one.refusal = change.peer_errno;
      break;
    case rnbd::DeviceState::unmapped:
      one.state = Export::State::idle;
      one.error = change.peer_errno;
      if (rnbd::is_writable(one.mode) && (one.error == EROFS || one.error == EACCES)) one.reads_only = true;
      break;
    case rnbd::DeviceState::init:
    case rnbd::DeviceState::unmapping:
      break;
  }
}

Export* Exports::unused(Nanos now) {
  const auto found = std::ranges::find_if(all_, [now](const Export& one) {
    if (one.users != 0 || one.kept) return false;
    return one.state == Export::State::opening ||
           (one.state == Export::State::open && now >= one.unused_since + kGrace);
  });
  return found != all_.end() ? &*found : nullptr;
}

}  // namespace rtrs::nbdkit
