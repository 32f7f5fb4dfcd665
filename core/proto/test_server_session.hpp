// Fixture for tests of ServerSession: feeds inputs and keeps the actions of the last step.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <variant>
#include <vector>

#include "core/proto/server_session.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/linux_errno.hpp"
#include "core/wire/messages.hpp"

namespace rtrs {

class ServerSessionTest : public testing::Test {
 protected:
  static constexpr std::uint16_t kIndex = 3;

  ServerSessionTest() {
    config.queue_depth = 8;
    config.chunk_size = 8192;
    config.send_depth = 16;
    remake();
  }
  // Creates the session again. Call after changing `config`.
  void remake() { session = std::make_unique<ServerSession>(config, kIndex); }

  template <class Input>
  void feed(Input input) {
    input.now = now;
    ServerActions out;
    session->on(input, out);
    actions.assign(out.begin(), out.end());
  }
  // Runs batches until none is left, and keeps all their actions.
  void settle() {
    std::vector<ServerAction> all = actions;
    while (session->wants_to_continue()) {
      feed(Continued{});
      all.insert(all.end(), actions.begin(), actions.end());
    }
    actions = all;
  }
  template <class A>
  std::vector<A> all() const {
    std::vector<A> found;
    for (const ServerAction& action : actions) {
      if (const A* one = action_if<A>(action)) found.push_back(*one);
    }
    return found;
  }
  template <class A>
  A only() const {
    const auto found = all<A>();
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? A{} : found.front();
  }
  template <class A>
  bool none() const {
    return all<A>().empty();
  }

  static wire::Uuid uuid(std::uint8_t n) {
    wire::Uuid value;
    value.bytes.fill(n);
    return value;
  }
  // Returns a connect request with a new key. `path` selects its uuid and its address pair.
  ConnectRequested request(std::uint8_t path, std::uint16_t cid, std::uint16_t recon = 1) {
    ConnectRequested in{};
    in.sess_uuid = uuid(path);
    in.key =
        ConKey{static_cast<std::uint16_t>(session->assign(in.sess_uuid) % kMaxPaths), cid, ++epoch, kIndex};
    in.request = epoch;
    in.address_pair = path;
    in.cid_num = 2;
    in.recon_cnt = recon;
    in.extensions = extensions;
    in.first_conn = true;
    return in;
  }
  ConKey connect(std::uint8_t path, std::uint16_t cid, std::uint16_t recon = 1) {
    const ConnectRequested in = request(path, cid, recon);
    feed(in);
    EXPECT_EQ(only<Accept>().key, in.key);
    return in.key;
  }
  struct Keys {
    ConKey service;
    ConKey io;
  };
  Keys bring_up(std::uint8_t path, std::uint16_t recon = 1) {
    const ConKey service = connect(path, 0, recon);
    const ConKey io = connect(path, 1, recon);
    feed(InfoRequested{0, service, 0});
    EXPECT_EQ(only<SendInfoRsp>().key, service);
    return {service, io};
  }
  // Connects a path with `cons` connections. Returns the key of its service connection.
  ConKey connect_wide(std::uint8_t path, std::uint16_t cons) {
    ConKey service{};
    for (std::uint16_t cid = 0; cid < cons; ++cid) {
      ConnectRequested in = request(path, cid);
      in.cid_num = cons;
      if (cid == 0) service = in.key;
      feed(in);
      EXPECT_EQ(all<Accept>().size(), 1U);
    }
    return service;
  }
  ConKey bring_up_wide(std::uint8_t path, std::uint16_t cons) {
    const ConKey service = connect_wide(path, cons);
    feed(InfoRequested{0, service, 0});
    settle();
    EXPECT_EQ(only<SendInfoRsp>().key, service);
    return service;
  }
  void expect_rejected(const ConnectRequested& in, Reason reason, int peer_errno) {
    feed(in);
    const Reject reject = only<Reject>();
    EXPECT_EQ(reject.request, in.request);
    EXPECT_EQ(to_string(reject.reason), std::string(to_string(reason)));
    EXPECT_EQ(reject.peer_errno, peer_errno);
    EXPECT_TRUE(none<Accept>());
  }
  RequestArrived read(ConKey key, std::uint16_t chunk) const {
    RequestArrived in{};
    in.key = key;
    in.chunk = chunk;
    in.data_len = 4096;
    in.direction = Direction::read;
    in.need_invalidate = in.has_descriptor = true;
    return in;
  }
  RequestArrived write(ConKey key, std::uint16_t chunk) const {
    RequestArrived in{};
    in.key = key;
    in.chunk = chunk;
    in.data_len = 4096;
    in.direction = Direction::write;
    return in;
  }
  // Feeds a request that must be delivered at once.
  Deliver serve(const RequestArrived& in) {
    feed(in);
    const auto delivered = only<Deliver>();
    EXPECT_EQ(delivered.key, in.key);
    EXPECT_EQ(delivered.chunk, in.chunk);
    return delivered;
  }
  void respond(const Deliver& to, std::uint16_t peer_errno = 0) {
    feed(Responded{0, to.chunk, to.serial, peer_errno});
  }
  void expect_closing(ConKey key, Reason reason) const {
    const auto changed = all<PathChanged>();
    ASSERT_FALSE(changed.empty());
    EXPECT_EQ(changed.front().path, key.path);
    EXPECT_EQ(changed.front().state, PathState::closing);
    EXPECT_EQ(to_string(changed.front().reason), std::string(to_string(reason)));
    EXPECT_EQ(state(key), PathState::closing);
  }
  void close_connections(const Keys& keys) {
    feed(ConnectionClosed{0, keys.service});
    feed(ConnectionClosed{0, keys.io});
  }
  PathState state(ConKey key) const { return session->path_state(key.path); }

  ServerConfig config;
  std::unique_ptr<ServerSession> session;
  std::vector<ServerAction> actions;
  Nanos now = seconds(1);
  std::uint32_t epoch = 0;
  wire::Extensions extensions = wire::Extensions::fence | wire::Extensions::generation;
};

}  // namespace rtrs
