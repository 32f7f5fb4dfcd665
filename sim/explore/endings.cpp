#include "sim/explore/endings.hpp"

#include <algorithm>

namespace rtrs::explore {

namespace {

void put(std::vector<std::uint8_t>& bytes, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<std::uint8_t>(value | 0x80));
  bytes.push_back(static_cast<std::uint8_t>(value));
}
std::uint64_t get(const std::uint8_t*& at) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const std::uint8_t byte = *at++;
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
}
// Encodes the difference of two ids as a number that is small if the ids are close.
std::uint64_t folded(StateId to, StateId from) {
  const std::int64_t by = static_cast<std::int64_t>(to) - from;
  return by < 0 ? static_cast<std::uint64_t>(-by) * 2 - 1 : static_cast<std::uint64_t>(by) * 2;
}
StateId unfolded(std::uint64_t value, StateId from) {
  const auto by = static_cast<StateId>((value + 1) / 2);
  return value % 2 != 0 ? from - by : from + by;
}

}  // namespace

void EdgeLog::add(StateId from, std::span<const StateId> to) {
  constexpr std::size_t kLongest = 5;  // bytes of a number
  if (to.empty()) return;
  const std::size_t most = (2 + to.size()) * kLongest;
  if (parts_.empty() || parts_.back().bytes.size() + most > kPart) {
    parts_.emplace_back();
    parts_.back().bytes.reserve(std::max(kPart, most));
  }
  Part& part = parts_.back();
  put(part.bytes, folded(from, part.last));
  put(part.bytes, to.size());
  for (const StateId one : to) put(part.bytes, folded(one, from));
  part.last = from;
}

// Starts with the last part, because most edges lead to states that were found later, so that the last part
// is complete first.
bool EdgeLog::spread(std::vector<bool>& marked) {
  bool any = false;
  for (auto part = parts_.rbegin(); part != parts_.rend(); ++part) {
    if (part->marked) continue;
    part->marked = true;
    StateId from = 0;
    const std::uint8_t* at = part->bytes.data();
    const std::uint8_t* const end = at + part->bytes.size();
    while (at != end) {
      from = unfolded(get(at), from);
      bool reaches = false;
      for (std::uint64_t edges = get(at); edges > 0; --edges)
        reaches = marked[unfolded(get(at), from)] || reaches;
      any = any || (reaches && !marked[from]);
      marked[from] = marked[from] || reaches;
      part->marked = part->marked && marked[from];
    }
  }
  return any;
}

std::vector<StateId> find_dead_ends(std::vector<EdgeLog> edges, const std::vector<StateId>& goals,
                                    std::size_t states) {
  std::vector<bool> ends(states);
  for (const StateId goal : goals) ends[goal] = true;
  for (bool more = true; more;) {
    more = false;
    for (EdgeLog& log : edges) more = log.spread(ends) || more;
  }
  std::vector<StateId> never;
  for (std::size_t id = 0; id < states; ++id)
    if (!ends[id]) never.push_back(static_cast<StateId>(id));
  return never;
}

}  // namespace rtrs::explore
