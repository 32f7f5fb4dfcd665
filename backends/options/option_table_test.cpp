#include <gtest/gtest.h>

#include "backends/options/connection.hpp"

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
