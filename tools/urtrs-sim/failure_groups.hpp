// Failures of many seeds, grouped by the broken rule and the place: the text of the failure without its
// numbers. Groups of parts of a range add up to the groups of the whole range, in any order.
#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <vector>

namespace rtrs::sim_tool {

inline constexpr const char* kReplayRule = "O17 replay";  // the replay of a trace differs from its run

struct FoundFailure {
  std::uint64_t seed = 0;
  std::string world;  // id of the directed scenario, such as "BD24"; empty: the world of the seed
  std::string rule;  // id of the oracle and, if there is one, of the rule of the specification; or "signal 6"
  std::string seen;
};

class FailureGroups {
 public:
  struct Key {
    std::string rule, place, world;
    bool operator<(const Key& other) const {
      return std::tie(rule, place, world) < std::tie(other.rule, other.place, other.world);
    }
  };
  struct Group {
    std::uint64_t failures = 0;
    std::vector<std::uint64_t> seeds;  // the lowest seeds that fail, at most kMostSeeds, ascending
    std::string seen;                  // text of the failure of the lowest seed
  };
  static constexpr std::size_t kMostSeeds = 8;
  // Only the first groups in the order of their keys are kept. Any other choice could make the groups of a
  // range depend on how the range was divided.
  static constexpr std::size_t kMostGroups = 500;
  static constexpr std::size_t kMostText = 400;  // bytes of a text

  void add(const FoundFailure& failure);
  // Returns false if a number became too large.
  bool add(const FailureGroups& other);

  std::uint64_t total() const noexcept { return total_; }  // includes the failures of groups not kept
  const std::map<Key, Group>& groups() const noexcept { return groups_; }

  // {"total": 3, "groups": [{"rule": ..., "place": ..., "failures": 3, "seeds": [...], "seen": ...}]}
  nlohmann::ordered_json json() const;
  // Reads the output of json(). Returns false if `from` is something else, or names a seed outside of
  // first..end.
  bool read(const nlohmann::ordered_json& from, std::uint64_t first, std::uint64_t end);
  // Prints each group with the command that repeats its lowest seed. `options`: fabric and faults for that
  // command, such as " --fabric tcp".
  void print(const std::string& options, const std::string& comment) const;

 private:
  bool put(const Key& key, const Group& group);

  std::map<Key, Group> groups_;
  std::uint64_t total_ = 0;
};

// Returns the command that repeats the failure, such as "urtrs-sim run --scenario BD24 --seed 8".
std::string run_command(const std::string& rule, const std::string& world, std::uint64_t seed,
                        const std::string& options);

}  // namespace rtrs::sim_tool
