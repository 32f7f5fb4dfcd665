// A client session and a scripted server side. Feeds inputs and keeps the actions of the last step.
#pragma once
#include <gtest/gtest.h>

#include <variant>
#include <vector>

#include "core/proto/client_session.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"

namespace rtrs {

inline ClientConfig small_config() {
  ClientConfig config;
  config.con_num = 2;
  config.max_depth = 4;
  config.send_depth = 32;
  return config;
}

class ClientSessionFixture : public testing::Test {
 protected:
  explicit ClientSessionFixture(const ClientConfig& config = small_config()) : session(config) {}

  template <class Input>
  void feed(const Input& input) {
    now = input.now;
    step(input);
    while (session.wants_to_continue()) step(Continued{now});
    ASSERT_EQ(session.broken_invariant(), nullptr);
  }
  // Like feed(), but without Continued, so that another input can arrive during a batch.
  template <class Input>
  void step(const Input& input) {
    if constexpr (!std::is_same_v<Input, Continued>) actions.clear();
    ClientActions out;
    session.on(input, out);
    actions.insert(actions.end(), out.begin(), out.end());
  }
  // Returns the actions of one kind from the last feed().
  template <class A>
  std::vector<A> asked() const {
    std::vector<A> found;
    for (const ClientAction& action : actions) {
      if (const auto* one = action_if<A>(action)) found.push_back(*one);
    }
    return found;
  }
  template <class A>
  A only() const {
    const auto found = asked<A>();
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? A{} : found.front();
  }

  Connected accepted(ConKey key, std::uint16_t depth = 4) const {
    return Connected{now, key, 126976, 4096, flags, depth};
  }
  // Answers connect requests and INFO_REQ until the path is connected.
  void bring_up(std::uint16_t path) {
    for (std::uint16_t con = 0; con < session.config().con_num; ++con)
      feed(accepted({path, con, session.path(path).epoch()}));
    feed(InfoAccepted{now, key(path, 0)});
    ASSERT_TRUE(session.path(path).connected());
  }
  void add_path(std::uint16_t path) { feed(PathAdded{now, path}); }
  void open(unsigned paths) {
    for (std::uint16_t path = 0; path < paths; ++path) add_path(path);
    for (std::uint16_t path = 0; path < paths; ++path) bring_up(path);
  }
  ConKey key(std::uint16_t path, std::uint16_t con) const { return {path, con, session.path(path).epoch()}; }

  std::uint16_t submit(Direction direction = Direction::write, std::uint32_t data = 4096) {
    const std::uint16_t permit = session.next_permit();
    feed(Submitted{now, permit, direction, false, false, 0, data, 32});
    return permit;
  }
  std::uint32_t response_to(const PostRequest& request, int error = 0) const {
    return wire::encode_io_rsp(wire::ImmType::io_rsp,
                               wire::tagged_msg_id(session.queue_depth(), request.permit, request.generation),
                               error);
  }
  void respond(const PostRequest& request, int error = 0) {
    feed(ImmReceived{now, request.key, response_to(request, error)});
  }
  void drain(std::uint16_t path) {
    const std::uint32_t epoch = session.path(path).epoch();
    for (std::uint16_t con = 0; con < session.config().con_num; ++con)
      if (session.path(path).owns({path, con, epoch})) feed(ConnectionClosed{now, {path, con, epoch}});
  }
  void lose(std::uint16_t path) { feed(ConnectionLost{now, key(path, 0), Reason::transport_error}); }
  void pass(Nanos time) {
    now += time;
    while (session.next_deadline() <= now) feed(DeadlineReached{now});
  }

  ClientSession session;
  Nanos now = seconds(1000);
  std::uint32_t flags = wire::kConnRspFence | wire::kConnRspGeneration;
  std::vector<ClientAction> actions;
};

}  // namespace rtrs
