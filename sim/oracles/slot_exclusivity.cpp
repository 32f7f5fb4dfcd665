#include "sim/oracles/slot_exclusivity.hpp"

#include <algorithm>
#include <functional>
#include <string>

#include "sim/oracles/digest.hpp"

namespace rtrs::sim {

namespace {
bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<const std::byte*> before;
  return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) &&
         before(b.data(), a.data() + a.size());
}
}  // namespace

SlotExclusivity::User* SlotExclusivity::find(std::span<const std::byte> bytes) {
  for (User& user : users_)
    if (user.bytes.data() == bytes.data()) return &user;
  return nullptr;
}

void SlotExclusivity::begin(std::span<const std::byte> bytes, std::uint32_t io, Nanos now) {
  for (const User& user : users_)
    if (overlap(user.bytes, bytes))
      judge_.fail(Oracle::slot_exclusivity, now,
                  "request " + std::to_string(io) + " handed to storage while request " +
                      std::to_string(user.io) + " still uses the chunk");
  users_.push_back(User{bytes, io, digest_of(bytes)});
}

void SlotExclusivity::filled(std::span<const std::byte> bytes) {
  if (User* user = find(bytes)) user->digest = digest_of(bytes);
}

void SlotExclusivity::check(std::span<const std::byte> bytes, std::uint32_t io, Nanos now) {
  const User* user = find(bytes);
  if (user != nullptr && user->digest != digest_of(bytes))
    judge_.fail(Oracle::slot_exclusivity, now,
                "the chunk of request " + std::to_string(io) + " changed while storage used it");
}

void SlotExclusivity::end(std::span<const std::byte> bytes) {
  std::erase_if(users_, [&](const User& user) { return user.bytes.data() == bytes.data(); });
}

}  // namespace rtrs::sim
