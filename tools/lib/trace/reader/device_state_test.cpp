// Tests the saved state of RNBD device state machines, as bytes and as text.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/record/state.hpp"
#include "core/rnbd/test_client.hpp"
#include "core/rnbd/test_server_session.hpp"

namespace rtrs::trace::device_state_test {
namespace {

using rnbd::ClientDevices;
using rnbd::ServerDevices;

template <class Machine>
std::vector<std::uint8_t> saved(const Machine& machine) {
  std::vector<std::uint8_t> bytes(state::bound(machine));
  bytes.resize(static_cast<std::size_t>(state::save(bytes.data(), machine) - bytes.data()));
  return bytes;
}

// The saved bytes restore the state machine, and no truncated prefix of these bytes is accepted.
template <class Machine>
void expect_round_trip(const Machine& machine) {
  const std::vector<std::uint8_t> bytes = saved(machine);
  const std::uint8_t* const end = bytes.data() + bytes.size();
  const auto back = std::make_unique<Machine>();
  ASSERT_EQ(state::load(bytes.data(), end, *back), end);
  EXPECT_TRUE(*back == machine);
  EXPECT_EQ(back->fingerprint(), machine.fingerprint());
  EXPECT_EQ(state_layout(*back), state_layout(machine));
  for (const std::uint8_t* cut = bytes.data(); cut != end; ++cut)
    EXPECT_EQ(state::load(bytes.data(), cut, *back), nullptr) << cut - bytes.data();
}

bool has_value(const StateText& text, std::string_view value) {
  return std::any_of(text.begin(), text.end(), [&](const auto& field) { return field.second == value; });
}

TEST(DeviceState, ClientStateRoundTrip) {
  rnbd::test::Client client;
  const rnbd::DeviceHandle first = client.opened("first", 7);
  client.begin(first);
  client.map(std::string(254, 'n'));
  expect_round_trip(client.devices);
}

TEST(DeviceState, ServerStateRoundTrip) {
  const auto session = std::make_unique<rnbd::test::Session>();
  session->io(session->opened("first"), wire::rnbd::Opcode::write);
  expect_round_trip(session->devices);
}

TEST(DeviceState, TextContainsDeviceNames) {
  rnbd::test::Client client;
  client.map("shelf/one");
  EXPECT_TRUE(has_value(state_text(client.devices), "shelf/one"));
}

TEST(DeviceState, ControlCharactersInNamesAreReplaced) {
  rnbd::test::Client client;
  client.map("a\x1b[2Jb\x7f");
  EXPECT_TRUE(has_value(state_text(client.devices), "a?[2Jb?"));
}

TEST(DeviceState, InvalidNameIsRefused) {
  const auto load = [](std::vector<std::uint8_t> bytes) {
    wire::Name name;
    return state::load(bytes.data(), bytes.data() + bytes.size(), name) != nullptr;
  };
  EXPECT_TRUE(load({2, 'a', 'b'}));
  EXPECT_TRUE(load({0}));
  EXPECT_FALSE(load({3, 'a', 'b'}));
  EXPECT_FALSE(load({2, 'a', 0}));
  // Length (2 bytes), then a name that is one byte too long.
  std::vector<std::uint8_t> long_name(2 + 255, 'x');
  long_name[0] = 0xff;
  long_name[1] = 0x01;
  EXPECT_FALSE(load(long_name));
}

}  // namespace
}  // namespace rtrs::trace::device_state_test
