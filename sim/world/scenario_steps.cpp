// Validates script steps: a script with an invalid step would test nothing.
#include <string>

#include "sim/world/disk_load.hpp"
#include "sim/world/endpoints.hpp"
#include "sim/world/scenario_fields.hpp"

namespace rtrs::sim {

namespace {

// Valid range of a step's `number`.
struct Numbers {
  std::uint64_t low = 0, high = ~std::uint32_t{0};
};

Numbers numbers_of(const Step& step) {
  switch (step.verb) {
    case Step::Verb::connections:
    case Step::Verb::submitted:
    case Step::Verb::delivered:
    case Step::Verb::completed:
    case Step::Verb::errors:
    case Step::Verb::held:
    case Step::Verb::storage:
    case Step::Verb::storage_fails:
      return {.low = 1};
    case Step::Verb::crash:
    case Step::Verb::fresh_keys:
    case Step::Verb::map:
    case Step::Verb::forbid:
      return {0, 1};
    case Step::Verb::policy:
      return {0, static_cast<std::uint64_t>(MultipathPolicy::min_latency)};
    case Step::Verb::depth:
      return {1, kMostDepth};
    case Step::Verb::write:
    case Step::Verb::read:
      return {1, kLongestRequest};
    case Step::Verb::disk_write:
    case Step::Verb::disk_read:
    case Step::Verb::disk_discard:
      return {1, kSectorsOfADisk};
    case Step::Verb::resize:
      return {kSmallestDisk, kLargestDisk};
    default:
      return {};
  }
}

bool may_target_server(Step::Verb verb) {
  return verb == Step::Verb::crash || verb == Step::Verb::restart || verb == Step::Verb::pause ||
         verb == Step::Verb::lie || verb == Step::Verb::inject || verb == Step::Verb::shortage;
}

std::string one_of(std::string_view what, std::uint64_t low, std::uint64_t high, std::string_view option) {
  return " is none of the " + std::string(what) + " " + std::to_string(low) + " to " + std::to_string(high) +
         " (set " + std::string(option) + "=)";
}

// Checks that the client, path, direction and connection of the step exist. Returns the error; empty if
// valid.
std::string target_error(const Step& step, const Scenario& world) {
  if (!word_of(step, "client").empty()) {
    if (step.client > world.clients) return one_of("clients", 1, world.clients, "clients");
    if (step.client == 0 && !may_target_server(step.verb))
      return " needs a client number of 1 or more; 0 is the server";
  }
  const unsigned paths = world.paths + (world.other_server ? 1 : 0);
  if (!word_of(step, "path").empty() && step.path >= paths) return one_of("paths", 0, paths - 1, "paths");
  if (!word_of(step, "ways").empty() && (step.ways < 1 || step.ways > 3))
    return " has invalid ways: 1 is to the server, 2 to the client, 3 both";
  const bool is_request = step.verb == Step::Verb::write || step.verb == Step::Verb::read;
  if (!word_of(step, "con").empty() && !is_request && !is_of_disk(step) && step.con >= world.client.con_num)
    return one_of("connections", 0, world.client.con_num - 1, "client.con_num");
  if (step.verb == Step::Verb::lie && world.liar != step.client)
    return " needs a liar: set liar=" + std::to_string(step.client);
  return {};
}

std::string out_of_range(const Step& step, const Scenario& world) {
  const Numbers numbers = numbers_of(step);
  const std::string_view word = word_of(step, "number");
  if (!word.empty() && (step.number < numbers.low || step.number > numbers.high))
    return " needs " + std::string(word) + "= from " + std::to_string(numbers.low) + " on" +
           (numbers.high == Numbers{}.high ? "" : ", up to " + std::to_string(numbers.high));
  if (step.verb == Step::Verb::rate && step.time > 1'000'000) return " needs per_million= of at most 1000000";
  const bool waits_for_clock =
      step.verb == Step::Verb::pass || step.verb == Step::Verb::until || step.verb == Step::Verb::pause;
  if (waits_for_clock && step.time == 0) return " needs time=";
  const bool counts = step.verb == Step::Verb::lie || step.verb == Step::Verb::inject;
  if (counts && step.count == 0) return " needs count= of at least 1";
  if (word_of(step, "time") != "sector") return {};
  const std::uint64_t unit = world.workload.block_device && !is_of_disk(step) ? kSectorsPerBlock : 1;
  const std::uint64_t sectors = is_of_disk(step) ? kSectorsOfADisk : world.storage.sectors;
  if (step.time > sectors || (step.time + step.number) * unit > sectors)
    return " ends after the last sector, which is " + std::to_string(sectors - 1) +
           (is_of_disk(step) ? "" : " (set storage.sectors=)") +
           (unit == 1 ? ""
                      : "; a sector is one of " + std::to_string(unit) + " here (workload.block_device)");
  return {};
}

// Checks that the step fits the kind of storage: disks, or the single storage of a session.
std::string storage_kind_error(const Step& step, const Scenario& world) {
  if (world.play.adds_disks && step.verb != Step::Verb::rate)
    return " is not allowed in a scenario of block devices";
  const std::uint32_t disks = world.workload.disks;
  if (is_of_disk(step)) {
    if (disks == 0)
      return " needs disks of the load: set workload.disks= (other steps apply after a line 'disks')";
    return step.con < disks ? "" : one_of("disks", 0, disks - 1, "workload.disks");
  }
  const bool is_of_storage = step.verb == Step::Verb::write || step.verb == Step::Verb::read ||
                             step.verb == Step::Verb::storage || step.verb == Step::Verb::storage_fails;
  return is_of_storage && disks != 0 ? " has no effect because requests use disks (workload.disks)" : "";
}

}  // namespace

std::string problem_of(const Step& step, const Scenario& world) {
  std::string why = target_error(step, world);
  if (why.empty()) why = storage_kind_error(step, world);
  if (why.empty()) why = out_of_range(step, world);
  return why.empty() ? why : "'" + to_text(step) + "'" + why;
}

}  // namespace rtrs::sim
