// Helpers for tests of the probe: a fake host, and functions that check lines.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <string>

#include "sim/net/adapters/mock_hca.hpp"
#include "tools/lib/control/rdma_probe/probe.hpp"

namespace rtrs::probe {

using Grade = Line::Grade;

// A fake host whose files and links are set by the test.
class PlayedSystem : public System {
 public:
  std::optional<std::string> read(const std::string& file) const override {
    const auto found = files.find(file);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  }
  std::vector<std::string> names_in(const std::string& folder) const override {
    std::set<std::string> names;
    for (const auto& [file, text] : files)
      if (file.rfind(folder + "/", 0) == 0) {
        const std::string rest = file.substr(folder.size() + 1);
        names.insert(rest.substr(0, rest.find('/')));
      }
    return {names.begin(), names.end()};
  }
  std::string target(const std::string& link) const override {
    const auto found = links.find(link);
    return found == links.end() ? "" : found->second;
  }
  std::string kernel() const override { return "6.12 x86_64"; }
  std::string rdma_core() const override { return "44.0"; }
  std::optional<std::uint64_t> memlock_bytes() const override { return memlock; }

  std::map<std::string, std::string> files, links;
  std::optional<std::uint64_t> memlock;
};

inline const Line* find(const Lines& lines, const std::string& check, Line::Part part = Line::Part::test) {
  const auto found = std::find_if(lines.begin(), lines.end(),
                                  [&](const Line& one) { return one.check == check && one.part == part; });
  return found == lines.end() ? nullptr : &*found;
}

inline std::string text_of(const Lines& lines) {
  std::string text;
  for (const Line& one : lines)
    text += std::string(to_string(one.grade)) + " " + one.check + ": " + one.what + "\n";
  return text;
}

inline void expect(const Lines& lines, const std::string& check, Grade grade,
                   const std::string& part_of_what = {}, Line::Part part = Line::Part::test) {
  const Line* const line = find(lines, check, part);
  ASSERT_NE(line, nullptr) << "nothing is said of " << check << "\n" << text_of(lines);
  EXPECT_EQ(to_string(line->grade), std::string(to_string(grade))) << check << ": " << line->what;
  EXPECT_NE(line->what.find(part_of_what), std::string::npos) << check << ": " << line->what;
}
inline void expect_report(const Lines& lines, const std::string& check, Grade grade,
                          const std::string& what) {
  expect(lines, check, grade, what, Line::Part::report);
}

inline Pace short_pace() {
  Pace pace;
  pace.measures = std::chrono::milliseconds(1);
  return pace;
}

}  // namespace rtrs::probe
