// Which faults a run does without, by name: to find out which of them a failure needs.
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
  std::vector<Label> calm;                // nothing but calm choices under these
  std::array<bool, kFaultClasses> off{};  // classes that never strike
  bool operators = false, slow_storage = false, storage_errors = false;  // true: none
  bool block_device = false;  // true: requests go to the session itself
  bool keys = false;          // true: nobody has any
  bool names = false;         // true: each path leads to one address
};
// `names`: labels of choices, classes of faults, and "operator", "storage_slow", "storage_error",
// "block_device", "keys" and "names", separated by commas. A name with two meanings is taken out in both.
// nullopt for an unknown name, with the reason in `why`.
std::optional<FaultFilter> without(std::string_view names, std::string& why);
// All classes but these, none of the others unless named; a block device stays where there is one.
std::optional<FaultFilter> only(std::string_view names, std::string& why);
// All but the labels: those are CalmedChoice's.
void take_out(const FaultFilter&, Scenario&);

}  // namespace rtrs::sim
