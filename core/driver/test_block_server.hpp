// A block server on a fabric without a network; the caller stores the actions that it gets.
#pragma once
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "core/driver/block_server.hpp"
#include "core/driver/test_block_client.hpp"

namespace rtrs::test {

inline ServerConfig block_server_config() {
  ServerConfig config;
  config.queue_depth = kTestDepth;
  config.chunk_size = kTestChunk;
  config.max_sessions = 4;
  config.extensions = wire::Extensions::none;
  config.send_invalidate = false;
  return config;
}

class BlockServerTest : public testing::Test {
 protected:
  BlockServerTest() { EXPECT_EQ(server.listen(fabric, now, {}), Errc::ok); }

  // Polls the server until it is idle; stores its actions.
  void turn() {
    std::array<block::Action, 3> out;
    do {
      const std::size_t count = server.poll(fabric, ++now, std::span(out).first(max_per_poll));
      for (const block::Action& action : std::span(out).first(count))
        std::visit([this](const auto& one) { this->take(one); }, action);
    } while (server.next_deadline() <= now || !fabric.events.empty());
  }
  RawClient connect() {
    return RawClient(fabric, ++clients, [this] { turn(); });
  }
  // Opens a device and answers the open; returns the device id.
  std::uint32_t opened(RawClient& client, std::string_view name) {
    client.open(0, name);
    turn();
    EXPECT_EQ(client.answer(0), 0);
    return client.device_id(0);
  }
  block::ExportOpened good(std::string_view name) {
    block::ExportOpened result;
    result.handle = ++last_handle;
    result.export_id = static_cast<std::uint64_t>(name[0]);
    result.geometry.nsectors = 1024;
    return result;
  }
  bool done(block::OpId id, int error = 0, bool sync_failed = false) {
    return server.storage_done(fabric, now, id, error, sync_failed);
  }

  void take(const block::StartStorage& one) { storage.push_back(one); }
  void take(const block::OpenExport& one) {
    if (defers_opens) return opens.push_back(one);
    EXPECT_TRUE(server.export_opened(fabric, now, one.id, good(one.name)));
  }
  void take(const block::CloseExport& one) { closed.push_back(one.handle); }
  void take(const block::MeasureExport& one) { measures.push_back(one); }
  void take(const block::CacheDamaged& one) { damaged.push_back(one); }
  void take(const block::SessionOpened& one) { sessions.push_back(one); }
  void take(const block::SessionRefused&) { FAIL() << "memory is not exhausted"; }
  void take(const block::SessionClosed& one) { ended.push_back(one); }

  ServerSideFabric fabric;
  BlockServer server{clamp_to(block_server_config(), fabric.capabilities()), 5, nullptr};
  Nanos now = 1;
  std::size_t max_per_poll = 3;  // actions that one poll may hand out
  std::uint8_t clients = 0;
  std::uint64_t last_handle = 0;
  bool defers_opens = false;
  std::vector<block::StartStorage> storage;
  std::vector<block::OpenExport> opens;
  std::vector<std::uint64_t> closed;
  std::vector<block::MeasureExport> measures;
  std::vector<block::CacheDamaged> damaged;
  std::vector<block::SessionOpened> sessions;
  std::vector<block::SessionClosed> ended;
};

}  // namespace rtrs::test
