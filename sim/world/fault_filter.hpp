// Leaves out faults of a run by name, to find out which of them a failure needs.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/choices/choice.hpp"
#include "sim/faults/faults.hpp"

namespace rtrs::sim {

struct Scenario;

struct FaultFilter {
  std::vector<Label> calm;                // labels under which all choices are calm
  std::array<bool, kFaultClasses> off{};  // true: faults of this class never occur
  bool operators = false, slow_storage = false, storage_errors = false;  // true: leave these out
  bool block_device = false;  // true: requests go directly to the session
  bool keys = false;          // true: no keys
  bool names = false;         // true: each path leads to one address
};
// `names`: labels of choices, classes of faults, and "operator", "storage_slow", "storage_error",
// "block_device", "keys" and "names", separated by commas. A name with two meanings applies to both. Returns
// nullopt for an unknown name, with the reason in `why`.
std::optional<FaultFilter> without(std::string_view names, std::string& why);
// Returns a filter that leaves out all classes and options except the named ones, and keeps a block device.
std::optional<FaultFilter> only(std::string_view names, std::string& why);
// Applies the filter to the scenario, except for labels, which PartlyZeroChoice applies.
void take_out(const FaultFilter&, Scenario&);

}  // namespace rtrs::sim
