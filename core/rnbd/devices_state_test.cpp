// ClientDevices and ServerDevices as values: compared, copied, hashed.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "core/rnbd/test_client.hpp"
#include "core/rnbd/test_server_session.hpp"

namespace rtrs::rnbd {
namespace {

using test::Client;
using test::Session;
using wire::rnbd::AccessMode;
using wire::rnbd::Opcode;

// A Machine in memory that held `filler` before: what no member initialises keeps it.
template <class Machine>
class Placed {
 public:
  explicit Placed(int filler) {
    std::memset(memory_.data(), filler, memory_.size());
    machine_ = new (memory_.data()) Machine;
  }
  Machine* operator->() noexcept { return machine_; }

 private:
  static_assert(alignof(Machine) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
  std::vector<std::byte> memory_ = std::vector<std::byte>(sizeof(Machine));
  Machine* machine_;
};

TEST(DevicesState, CopyOfAClientGoesItsOwnWay) {
  Client client;
  const DeviceHandle handle = client.opened("a", 7);
  ClientDevices copy = client.devices;
  EXPECT_TRUE(copy == client.devices);
  EXPECT_EQ(copy.fingerprint(), client.devices.fingerprint());
  client.begin(handle);
  EXPECT_FALSE(copy == client.devices);
  EXPECT_NE(copy.fingerprint(), client.devices.fingerprint());
  static_cast<void>(copy.begin_io(handle, IoTicket{}));
  EXPECT_TRUE(copy == client.devices);
  EXPECT_EQ(copy.fingerprint(), client.devices.fingerprint());
}

TEST(DevicesState, CopyOfAServerGoesItsOwnWay) {
  const auto session = std::make_unique<Session>();
  const std::uint32_t id = session->opened("a");
  const auto copy = std::make_unique<Session>(*session);
  EXPECT_TRUE(copy->devices == session->devices);
  EXPECT_EQ(copy->devices.fingerprint(), session->devices.fingerprint());
  session->io(id, Opcode::write);
  EXPECT_FALSE(copy->devices == session->devices);
  EXPECT_NE(copy->devices.fingerprint(), session->devices.fingerprint());
  copy->io(id, Opcode::write);
  EXPECT_TRUE(copy->devices == session->devices);
  EXPECT_EQ(copy->devices.fingerprint(), session->devices.fingerprint());
}

TEST(DevicesState, NamesAndModesCount) {
  Client one, other, third;
  one.map("a");
  other.map("b");
  third.map("a", AccessMode::read_only);
  EXPECT_FALSE(one.devices == other.devices);
  EXPECT_NE(one.devices.fingerprint(), other.devices.fingerprint());
  EXPECT_FALSE(one.devices == third.devices);
  EXPECT_NE(one.devices.fingerprint(), third.devices.fingerprint());
}

TEST(DevicesState, OptionsOfAServerCount) {
  const ServerDevices one(ServerOptions{1, 4});
  const ServerDevices other(ServerOptions{2, 4});
  EXPECT_FALSE(one == other);
  EXPECT_NE(one.fingerprint(), other.fingerprint());
}

TEST(DevicesState, PaddingAndUnusedPlacesOfAClientDoNotCount) {
  Placed<ClientDevices> one(0xaa);
  Placed<ClientDevices> other(0x55);
  ClientActions actions;
  for (auto* placed : {&one, &other}) {
    actions.clear();
    EXPECT_EQ((*placed)->on(MapRequested{"disk", AccessMode::read_write}, actions).error, 0);
    (*placed)->on(LinkUp{true}, actions);
  }
  EXPECT_TRUE(*one.operator->() == *other.operator->());
  EXPECT_EQ(one->fingerprint(), other->fingerprint());
}

TEST(DevicesState, PaddingAndUnusedPlacesOfAServerDoNotCount) {
  Placed<ServerDevices> one(0xaa);
  Placed<ServerDevices> other(0x55);
  const auto actions = std::make_unique<ServerActions>();
  const auto open = test::open_message("disk", AccessMode::read_write);
  for (auto* placed : {&one, &other}) {
    actions->clear();
    (*placed)->on(RequestArrived{1, wire::Direction::read, wire::rnbd::kOpenRspBytes, open}, *actions);
  }
  EXPECT_TRUE(*one.operator->() == *other.operator->());
  EXPECT_EQ(one->fingerprint(), other->fingerprint());
}

}  // namespace
}  // namespace rtrs::rnbd
