#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "backends/options/connection.hpp"
#include "backends/options/process.hpp"

namespace rtrs::options::option_table_test {
namespace {

TEST(OptionTable, DefaultOfEveryRowIsTheDefaultOfItsField) {
  for (const Option<Connection>& option : connection_options()) {
    FabricOptions fabric;
    ClientConfig protocol;
    if (option.initial.empty()) continue;
    EXPECT_EQ(set(option, Connection{fabric, protocol}, option.initial), "");
    EXPECT_TRUE(fabric == FabricOptions{}) << option.name;
    EXPECT_TRUE(protocol == ClientConfig{}) << option.name;
  }
}

TEST(OptionTable, DefaultOfEveryProcessOptionIsTheDefaultOfItsField) {
  for (const Option<ProcessOptions*>& option : kProcessOptions<ProcessOptions>) {
    ProcessOptions process;
    EXPECT_FALSE(option.help.empty()) << option.name;
    if (option.initial.empty()) continue;
    EXPECT_EQ(set(option, &process, option.initial), "");
    EXPECT_TRUE(process == ProcessOptions{}) << option.name;
  }
}

TEST(OptionTable, NamesAreUniqueAndEveryRowHasAHelpText) {
  for (const Option<Connection>& option : connection_options()) {
    EXPECT_EQ(find(connection_options(), option.name), &option);
    EXPECT_FALSE(option.help.empty()) << option.name;
  }
}

TEST(OptionTable, InvalidValueIsNotStored) {
  for (const Option<Connection>& option : connection_options()) {
    FabricOptions fabric;
    ClientConfig protocol;
    EXPECT_NE(set(option, Connection{fabric, protocol}, ""), "") << option.name;
    EXPECT_TRUE(fabric == FabricOptions{} && protocol == ClientConfig{}) << option.name;
  }
}

TEST(OptionTable, EachSideHasItsOwnOptionsAndThoseOfBoth) {
  for (const Option<Connection>& option : all_options()) {
    EXPECT_EQ(find(connection_options(), option.name) != nullptr, option.side != Side::server) << option.name;
    EXPECT_EQ(find(server_options(), option.name) != nullptr, option.side != Side::client) << option.name;
  }
}

// Returns two accepted values, of which at least one is not the default.
std::vector<std::string> two_values(const Option<Connection>& option) {
  const Rule& rule = option.rule;
  switch (rule.kind) {
    case Kind::toggle:
      return {"on", "off"};
    case Kind::word:
      return {choices(rule).front(), choices(rule).back()};
    case Kind::number:
      return {std::to_string(rule.least), std::to_string(rule.most)};
    case Kind::time:
      return {written(rule, {.text = {}, .number = std::max<std::int64_t>(rule.least, 1'000'000)}), "1h"};
    default:
      return {"one", "two"};
  }
}

TEST(OptionTable, EveryRowHasAFieldOfItsOwn) {
  for (const Option<Connection>& option : all_options()) {
    FabricOptions fabric;
    ClientConfig protocol;
    const Connection connection{fabric, protocol};
    for (const std::string& value : two_values(option)) {
      std::vector<std::string> others;
      for (const Option<Connection>& other : all_options()) others.push_back(show(other, connection));
      EXPECT_EQ(set(option, connection, value), "") << option.name;
      std::size_t at = 0;
      for (const Option<Connection>& other : all_options()) {
        const std::string& before = others[at++];
        if (&other != &option) {
          EXPECT_EQ(show(other, connection), before) << option.name << " changes " << other.name;
        } else if (std::get_if<Store<Connection>>(&option.field) == nullptr) {
          EXPECT_EQ(show(other, connection), value);
        }
      }
    }
  }
}

TEST(OptionTable, ValuesBeyondTheRangeAreRejected) {
  for (const Option<Connection>& option : connection_options()) {
    const Rule& rule = option.rule;
    FabricOptions fabric;
    ClientConfig protocol;
    const Connection connection{fabric, protocol};
    if (rule.kind != Kind::number && (rule.kind != Kind::time || rule.most == 0)) continue;
    for (const std::int64_t outside : {rule.least - 1, rule.most + 1})
      EXPECT_NE(set(option, connection, written(rule, {.text = {}, .number = outside})), "") << option.name;
    EXPECT_TRUE(fabric == FabricOptions{} && protocol == ClientConfig{}) << option.name;
  }
}

TEST(OptionTable, PoliciesHaveShortNames) {
  const Option<Connection>& policy = *find(connection_options(), "policy");
  const std::map<std::string, MultipathPolicy> names{
      {"round-robin", MultipathPolicy::round_robin},   {"rr", MultipathPolicy::round_robin},
      {"min-inflight", MultipathPolicy::min_inflight}, {"mi", MultipathPolicy::min_inflight},
      {"min-latency", MultipathPolicy::min_latency},   {"ml", MultipathPolicy::min_latency}};
  for (const auto& [name, value] : names) {
    FabricOptions fabric;
    ClientConfig protocol;
    EXPECT_EQ(set(policy, Connection{fabric, protocol}, name), "");
    EXPECT_EQ(protocol.policy, value) << name;
  }
}

TEST(OptionTable, SendQueueHasRoomForTwoEntriesPerRequest) {
  FabricOptions fabric;
  ClientConfig protocol;
  const Connection connection{fabric, protocol};
  const Option<Connection>& depth = *find(connection_options(), "queue_depth");
  EXPECT_EQ(set(depth, connection, "1"), "");
  EXPECT_EQ(protocol.send_depth, 64);
  EXPECT_EQ(set(depth, connection, "1024"), "");
  EXPECT_EQ(protocol.send_depth, 2048);
}

}  // namespace
}  // namespace rtrs::options::option_table_test
