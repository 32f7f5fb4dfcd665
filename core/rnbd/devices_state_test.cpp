// Tests that ClientDevices and ServerDevices are values: how they are compared, copied and hashed.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/reflect.hpp"
#include "core/base/test_members.hpp"
#include "core/rnbd/test_client.hpp"
#include "core/rnbd/test_server_session.hpp"

namespace rtrs::rnbd::devices_state_test {
namespace {

using test::Client;
using test::Session;
using wire::rnbd::AccessMode;
using wire::rnbd::Opcode;

// Collects the names of the structs in a machine that do not list all of their members as fields. The members
// of the state machine itself, which is not an aggregate, are checked by the property tests.
class Incomplete {
 public:
  template <class T>
  void look(const std::string& name) {
    std::size_t listed = 0;
    T value{};
    T::visit_fields(value, [&]<class Field>(const char* field, Field&) {
      ++listed;
      enter<Field>(name + '.' + field);
    });
    if constexpr (std::is_aggregate_v<T>) {
      ++structs;
      // Members that equality ignores are not fields; kNoFields is their number.
      if constexpr (requires { T::kNoFields; }) listed += T::kNoFields;
      if (listed != rtrs::test::members<T>()) names += name + ' ';
    }
  }

  std::string names;
  unsigned structs = 0;

 private:
  template <class Field>
  void enter(const std::string& name) {
    if constexpr (Reflected<Field>) {
      look<Field>(name);
    } else if constexpr (requires(Field & list) { *list.begin(); }) {
      enter<std::remove_cvref_t<decltype(*std::declval<Field&>().begin())>>(name);
    }
  }
};

TEST(DevicesState, EveryMemberOfEveryStructIsAField) {
  Incomplete incomplete;
  incomplete.look<ClientDevices>("ClientDevices");
  incomplete.look<ServerDevices>("ServerDevices");
  EXPECT_EQ(incomplete.names, "");
  // The structs are the devices and geometries of both state machines, and the options, operation and IO of
  // the server.
  EXPECT_EQ(incomplete.structs, 7U);
}

// Creates a Machine in memory filled with `filler`, so that uninitialised members keep that value.
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

TEST(DevicesState, CopyOfAClientIsIndependent) {
  Client client;
  const DeviceHandle handle = client.opened("a", 7);
  ClientDevices copy = client.devices;
  EXPECT_TRUE(copy == client.devices);
  EXPECT_EQ(copy.fingerprint(), client.devices.fingerprint());
  client.begin(handle);
  EXPECT_FALSE(copy == client.devices);
  EXPECT_NE(copy.fingerprint(), client.devices.fingerprint());
  static_cast<void>(copy.begin_io({handle}));
  EXPECT_TRUE(copy == client.devices);
  EXPECT_EQ(copy.fingerprint(), client.devices.fingerprint());
}

TEST(DevicesState, CopyOfAServerIsIndependent) {
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

TEST(DevicesState, NamesAndModesArePartOfTheState) {
  Client one, other, third;
  one.map("a");
  other.map("b");
  third.map("a", AccessMode::read_only);
  EXPECT_FALSE(one.devices == other.devices);
  EXPECT_NE(one.devices.fingerprint(), other.devices.fingerprint());
  EXPECT_FALSE(one.devices == third.devices);
  EXPECT_NE(one.devices.fingerprint(), third.devices.fingerprint());
}

TEST(DevicesState, ServerOptionsArePartOfTheState) {
  const ServerDevices one(ServerOptions{1, 4});
  const ServerDevices other(ServerOptions{2, 4});
  EXPECT_FALSE(one == other);
  EXPECT_NE(one.fingerprint(), other.fingerprint());
}

TEST(DevicesState, PaddingAndUnusedSlotsOfAClientAreNotState) {
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

TEST(DevicesState, PaddingAndUnusedSlotsOfAServerAreNotState) {
  Placed<ServerDevices> one(0xaa);
  Placed<ServerDevices> other(0x55);
  const auto actions = std::make_unique<ServerActions>();
  const auto open = test::open_message("disk", AccessMode::read_write);
  for (auto* placed : {&one, &other}) {
    actions->clear();
    (*placed)->on(DeviceRequest{1, wire::rnbd::kOpenRspBytes, Direction::read, open}, *actions);
  }
  EXPECT_TRUE(*one.operator->() == *other.operator->());
  EXPECT_EQ(one->fingerprint(), other->fingerprint());
}

}  // namespace
}  // namespace rtrs::rnbd::devices_state_test
