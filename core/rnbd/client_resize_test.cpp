// Tests a device size that a client operator has set.
#include <gtest/gtest.h>

#include "core/rnbd/test_client.hpp"

namespace rtrs::rnbd::client_resize_test {
namespace {

using namespace test;

TEST(ClientResize, ResizeLastsUntilTheNextOpen) {
  Client client;
  const DeviceHandle handle = client.opened("a", 0);
  const std::size_t told = client.news.size();
  client.step(ResizeRequested{handle, 2048});
  ASSERT_EQ(client.news.size(), told + 1);
  EXPECT_EQ(client.last_news().state, DeviceState::open);
  EXPECT_EQ(client.last_news().geometry.nsectors, 2048U);
  EXPECT_EQ(client.devices.geometry(handle)->nsectors, 2048U);
  EXPECT_EQ(client.devices.gate(handle), Gate::go) << "IO continues";
  client.step(LinkDown{});
  client.step(LinkUp{});
  client.answer_info();
  client.answer_open(disk(0));
  EXPECT_EQ(client.devices.geometry(handle)->nsectors, 1024U);
}

TEST(ClientResize, InvalidResizeIsIgnored) {
  Client client;
  const DeviceHandle handle = client.opened("a", 0);
  const std::size_t told = client.news.size();
  client.step(ResizeRequested{handle, wire::rnbd::kMaxSectors});
  client.step(ResizeRequested{handle + 1, 2048});
  EXPECT_EQ(client.news.size(), told);
  EXPECT_EQ(client.devices.geometry(handle)->nsectors, 1024U);
  client.step(LinkDown{});
  const std::size_t down = client.news.size();
  client.step(ResizeRequested{handle, 2048});
  EXPECT_EQ(client.news.size(), down) << "the device is not open";
  EXPECT_EQ(client.devices.geometry(handle)->nsectors, 1024U);
}

}  // namespace
}  // namespace rtrs::rnbd::client_resize_test
