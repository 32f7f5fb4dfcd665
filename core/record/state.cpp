#include "core/record/state.hpp"

#include <map>

namespace rtrs::trace {

std::vector<std::string> differences(const StateText& a, const StateText& b) {
  const std::map<std::string, std::string> of_a(a.begin(), a.end());
  const std::map<std::string, std::string> of_b(b.begin(), b.end());
  std::vector<std::string> lines;
  // Fields of `a` in their order, then fields that only `b` has.
  for (const auto& [name, value] : a) {
    const auto other = of_b.find(name);
    if (other == of_b.end()) {
      lines.push_back(name + ": " + value + " -> -");
    } else if (other->second != value) {
      lines.push_back(name + ": " + value + " -> " + other->second);
    }
  }
  for (const auto& [name, value] : b) {
    if (!of_a.contains(name)) lines.push_back(name + ": - -> " + value);
  }
  return lines;
}

StateDifference first_difference(const StateText& a, const StateText& b) {
  for (std::size_t i = 0; i < a.size() || i < b.size(); ++i) {
    const bool in_a = i < a.size();
    const bool in_b = i < b.size();
    if (in_a && in_b && a[i] == b[i]) continue;
    return {in_a ? a[i].first + '=' + a[i].second : "has no further fields",
            in_b ? b[i].first + '=' + b[i].second : "has no further fields"};
  }
  return {};
}

}  // namespace rtrs::trace
