#include "sim/world/fault_filter.hpp"

#include <algorithm>

#include "sim/world/scenario.hpp"

namespace rtrs::sim {
namespace {

// Calls `named` with each name of the list until it returns false. Then returns false with the error in
// `why`.
template <class Named>
bool for_each_name(std::string_view names, std::string& why, Named&& named) {
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    if (named(name)) continue;
    why = "unknown fault '" + std::string(name) + "'; `urtrs-sim list` prints all names";
    return false;
  }
  return true;
}

// Returns the switch of a fault class or of another option; nullptr if there is none.
bool* switch_of(FaultFilter& filter, std::string_view name) {
  for (unsigned fault = 0; fault < kFaultClasses; ++fault)
    if (name == to_string(static_cast<FaultClass>(fault))) return &filter.off[fault];
  if (name == "operator") return &filter.operators;
  if (name == "storage_slow") return &filter.slow_storage;
  if (name == "storage_error") return &filter.storage_errors;
  if (name == "block_device") return &filter.block_device;
  if (name == "keys") return &filter.keys;
  if (name == "names") return &filter.names;
  return nullptr;
}

}  // namespace

std::optional<FaultFilter> without(std::string_view names, std::string& why) {
  FaultFilter filter;
  const bool known = for_each_name(names, why, [&](std::string_view name) {
    bool* off = switch_of(filter, name);
    if (off != nullptr) *off = true;
    bool is_label = false;
    for (std::size_t at = 1; at < kLabels; ++at) {
      const auto label = static_cast<Label>(at);
      if (name != to_string(label)) continue;
      filter.calm.push_back(label);
      is_label = true;
    }
    return off != nullptr || is_label;
  });
  return known ? std::optional(filter) : std::nullopt;
}

std::optional<FaultFilter> only(std::string_view names, std::string& why) {
  FaultFilter filter;
  filter.off.fill(true);
  filter.operators = filter.slow_storage = filter.storage_errors = true;
  const bool known = for_each_name(names, why, [&](std::string_view name) {
    bool* off = switch_of(filter, name);
    if (off != nullptr) *off = false;
    return off != nullptr;
  });
  return known ? std::optional(filter) : std::nullopt;
}

void take_out(const FaultFilter& filter, Scenario& scenario) {
  for (unsigned fault = 0; fault < kFaultClasses; ++fault)
    if (filter.off[fault]) scenario.faults.weight[fault] = 0;
  if (filter.operators) scenario.admin_gap = scenario.recover_gap = kNever;
  if (filter.slow_storage) scenario.storage.slow_rate = 0;
  if (filter.storage_errors) scenario.storage.error_rate = 0;
  if (filter.block_device) remove_block_device(scenario);
  if (filter.keys) scenario.keys = false;
  if (filter.names) scenario.names = {};
}

}  // namespace rtrs::sim
