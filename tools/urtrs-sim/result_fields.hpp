// Reads results and ledgers, which may come from anywhere.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tools/urtrs-sim/sweep_result.hpp"

namespace rtrs::sim_tool {

// Fields of an object of JSON. After the first error, `good` is false and later calls return empty values.
class Fields {
 public:
  explicit Fields(const nlohmann::ordered_json& from) : from_(from) {}

  bool good = true;

  std::string text(const char* key) {
    good = good && from_.contains(key) && from_[key].is_string();
    return good ? from_[key].get<std::string>() : std::string();
  }
  // Text that the commands which this program prints may contain.
  std::string words(const char* key) {
    const std::string all = text(key);
    constexpr const char* kAllowed =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-+.,()~";
    good = good && all.size() <= 1000 && all.find_first_not_of(kAllowed) == std::string::npos;
    return all;
  }
  // One such word that is no option, or nothing.
  std::string word(const char* key) {
    const std::string all = words(key);
    good = good && all.find(' ') == std::string::npos && all[0] != '-';
    return all;
  }
  // Options that decide what a seed plays: " --fabric tcp --without crash".
  std::string worlds(const char* key) {
    const std::string all = words(key);
    std::istringstream words(all);
    std::string known;
    for (std::string option, value; words >> option >> value;)
      if ((option == "--fabric" || option == "--without" || option == "--only-faults") && value[0] != '-')
        known.append(" ").append(option).append(" ").append(value);
    good = good && known == all;
    return all;
  }
  void counts(const char* key, SweepResult::Counts& to) {
    good = good && from_.contains(key) && from_[key].is_object() && from_[key].size() <= kMostNames;
    if (!good) return;
    for (const auto& [name, count] : from_[key].items()) {
      if (!(good = count.is_number_unsigned())) return;
      to.emplace_back(name, count.get<std::uint64_t>());
    }
  }
  void reached(const char* key, const SeedRange& range, std::vector<Reached>& to) {
    good = good && from_.contains(key) && from_[key].is_array() && from_[key].size() <= kMostNames;
    if (!good) return;
    for (const nlohmann::ordered_json& one : from_[key]) {
      const auto read = reached_of(one, range);
      if (!(good = read.has_value())) return;
      to.push_back(*read);
    }
  }
  std::uint64_t number(const char* key) {
    good = good && from_.contains(key) && from_[key].is_number_unsigned();
    return good ? from_[key].get<std::uint64_t>() : 0;
  }
  std::uint64_t hash(const char* key) {
    const std::string hex = text(key);
    good = good && hex.size() == 16 && hex.find_first_not_of("0123456789abcdef") == std::string::npos;
    return good ? std::strtoull(hex.c_str(), nullptr, 16) : 0;
  }
  const nlohmann::ordered_json& operator[](const char* key) {
    static const nlohmann::ordered_json none;
    return from_.contains(key) ? from_[key] : none;
  }

 private:
  static std::optional<Reached> reached_of(const nlohmann::ordered_json& one, const SeedRange& range) {
    if (!one.is_object() || !one.contains("name") || !one["name"].is_string() || !one.contains("seeds") ||
        !one["seeds"].is_number_unsigned())
      return std::nullopt;
    Reached read{one["name"].get<std::string>(), one["seeds"].get<std::uint64_t>(), Reached::kNever};
    if (read.seeds > range.size() || (read.seeds != 0) != one.contains("first")) return std::nullopt;
    if (read.seeds == 0) return read;
    if (!one["first"].is_number_unsigned()) return std::nullopt;
    read.first = one["first"].get<std::uint64_t>();
    if (read.first < range.first || read.first >= range.end) return std::nullopt;
    return read;
  }

  static constexpr std::size_t kMostNames = 4096;
  const nlohmann::ordered_json& from_;
};

}  // namespace rtrs::sim_tool
