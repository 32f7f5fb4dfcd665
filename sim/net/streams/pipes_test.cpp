// Tests of simulated streams: transfer, end of streams, and violations that the laws detect.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "sim/net/streams/fpdu_walk.hpp"
#include "sim/net/streams/pipe_fabric.hpp"
#include "sim/net/streams/pipe_laws.hpp"
#include "sim/net/streams/pipe_transport.hpp"

namespace rtrs::sim::pipes_test {
namespace {

using tcp::Transport;

struct Marker final : tcp::Watched {
  Marker() : Watched(Kind::connection) {}
};

// Two processes with one stream between them.
class StreamsTest : public ::testing::Test {
 protected:
  void open(ChoiceSource& choice) {
    NetworkConfig config;
    config.retry_budget = milliseconds(100);
    config.retry_spread = 0;
    network_ = std::make_unique<PipeNetwork>(config, tcp::TcpOptions{}, 1);
    choice_ = &choice;
    for (unsigned node = 0; node < 2; ++node) network_->add_node();
    client_ = std::make_unique<PipeTransport>(*network_, 0, choice);
    server_ = std::make_unique<PipeTransport>(*network_, 1, choice);
    listener_ = server_->listen({"n1.p0", "", 7}, 0).socket;
    ASSERT_NE(listener_, tcp::kNoSocket);
    near_ = client_->connect({}, {"n0.p0", "n1.p0", 7}, 0, 0).socket;
    ASSERT_NE(near_, tcp::kNoSocket);
    pass(milliseconds(1));
    far_ = server_->accept(listener_).socket;
    ASSERT_NE(far_, tcp::kNoSocket);
    ASSERT_EQ(client_->outcome(near_), 0);
  }
  void pass(Nanos time) { network_->run_until(network_->now() + time, *choice_); }

  std::size_t send(const std::string& text, std::size_t from = 0) {
    const auto all = std::as_bytes(std::span(text));
    const std::array<iwarp::Bytes, 2> pieces{all.first(text.size() / 2), all.subspan(text.size() / 2)};
    const bool second = from >= pieces[0].size();
    const auto rest = std::span(pieces).subspan(second ? 1 : 0);
    return client_->send(near_, rest, second ? from - pieces[0].size() : from).bytes;
  }
  // Receives all available bytes, into two buffers per call.
  std::string receive(int* error = nullptr) {
    std::string text;
    for (;;) {
      std::array<std::byte, 7> place;
      std::array<std::byte, 100> behind;
      const auto [bytes, code, more] = server_->receive(far_, place, behind);
      if (bytes == 0 && error != nullptr) *error = code;
      if (bytes == 0) return text;
      const std::size_t placed = std::min(bytes, place.size());
      text.append(reinterpret_cast<const char*>(place.data()), placed);
      text.append(reinterpret_cast<const char*>(behind.data()), bytes - placed);
    }
  }

  std::unique_ptr<PipeNetwork> network_;
  ChoiceSource* choice_ = nullptr;
  std::unique_ptr<PipeTransport> client_, server_;
  tcp::SocketId listener_ = tcp::kNoSocket, near_ = tcp::kNoSocket, far_ = tcp::kNoSocket;
};

TEST_F(StreamsTest, a_trickling_end_transfers_one_byte_per_interval) {
  SeededChoice choice(1);
  open(choice);
  ASSERT_TRUE(network_->trickle(near_, milliseconds(1)));
  EXPECT_EQ(send("slow peer"), 9U);
  pass(milliseconds(5));
  const std::size_t first = receive().size();
  EXPECT_TRUE(first >= 4 && first <= 6) << first;
  EXPECT_TRUE(network_->trickle(near_, 0));
  pass(milliseconds(5));
  EXPECT_EQ(receive().size(), 9 - first);
}

// If accept() fails for lack of a descriptor, the client stays in the listener's queue, as with accept4().
TEST_F(StreamsTest, a_client_waits_while_there_is_no_free_descriptor) {
  SeededChoice choice(1);
  open(choice);
  std::uint32_t& shortage = network_->rates().resource_short;
  shortage = 1'000'000;
  EXPECT_EQ(client_->connect({}, {"n0.p0", "n1.p0", 7}, 0, 0).error, EMFILE);
  shortage = 0;
  ASSERT_NE(client_->connect({}, {"n0.p0", "n1.p0", 7}, 0, 0).socket, tcp::kNoSocket);
  pass(milliseconds(1));
  shortage = 1'000'000;
  EXPECT_EQ(server_->accept(listener_).error, EMFILE);
  EXPECT_EQ(server_->accept_and_drop(listener_).error, EMFILE);
  shortage = 0;
  EXPECT_NE(server_->accept(listener_).socket, tcp::kNoSocket);
  EXPECT_EQ(server_->accept(listener_).error, EAGAIN);
}

TEST_F(StreamsTest, bytes_arrive_unchanged_however_they_are_segmented) {
  std::size_t rounds = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SeededChoice choice(seed);
    open(choice);
    std::string text;
    for (unsigned i = 0; i < 3000; ++i) text += static_cast<char>('a' + i * i % 26);
    std::string seen;
    std::size_t sent = 0;
    std::size_t calls = 0;
    for (; seen.size() < text.size() && calls < 10'000; ++calls) {
      if (sent < text.size()) sent += send(text, sent);
      pass(milliseconds(1));
      seen += receive();
    }
    ASSERT_EQ(seen, text) << "seed " << seed;
    rounds += calls;
  }
  EXPECT_GT(rounds, 30u);  // proves that the socket sometimes accepted only part of the bytes
}

TEST_F(StreamsTest, a_full_socket_accepts_nothing_and_is_not_writable) {
  ZeroChoice choice;
  open(choice);
  Marker marker;
  ASSERT_TRUE(client_->watch(near_, tcp::kWritable, marker));
  EXPECT_EQ(client_->look().size(), 1u);
  network_->cut(0, Way::to_server);
  const std::string much(std::size_t{300} << 10, 'm');
  const std::size_t taken = send(much);
  EXPECT_EQ(taken, std::size_t{256} << 10);
  const std::array<iwarp::Bytes, 1> more{std::as_bytes(std::span(much))};
  EXPECT_EQ(client_->send(near_, more, 0).error, EAGAIN);
  EXPECT_TRUE(client_->look().empty());
}

TEST_F(StreamsTest, an_outage_above_the_budget_ends_only_the_sender) {
  ZeroChoice choice;
  open(choice);
  network_->cut(0, Way::to_server);
  EXPECT_EQ(send("lost"), 4u);
  pass(milliseconds(90));
  EXPECT_TRUE(network_->qp_info(static_cast<QpId>(near_)).alive);
  pass(milliseconds(20));
  EXPECT_FALSE(network_->qp_info(static_cast<QpId>(near_)).alive);
  EXPECT_EQ(client_->outcome(near_), ETIMEDOUT);
  int error = 0;
  EXPECT_EQ(receive(&error), "");
  EXPECT_EQ(error, EAGAIN);
}

TEST_F(StreamsTest, a_short_outage_only_delays) {
  ZeroChoice choice;
  open(choice);
  network_->cut(0, Way::to_server);
  EXPECT_EQ(send("late"), 4u);
  pass(milliseconds(50));
  EXPECT_EQ(receive(), "");
  network_->heal(0, Way::to_server, choice);
  pass(milliseconds(110));
  EXPECT_EQ(receive(), "late");
}

TEST_F(StreamsTest, the_end_of_stream_follows_the_last_byte) {
  ZeroChoice choice;
  open(choice);
  EXPECT_EQ(send("bye"), 3u);
  client_->close(near_);
  pass(milliseconds(1));
  int error = EIO;
  EXPECT_EQ(receive(&error), "bye");
  EXPECT_EQ(error, 0);
}

TEST_F(StreamsTest, closing_with_unread_bytes_resets_the_stream) {
  ZeroChoice choice;
  open(choice);
  EXPECT_EQ(send("unread"), 6u);
  pass(milliseconds(1));
  server_->close(far_);
  pass(milliseconds(1));
  EXPECT_EQ(client_->outcome(near_), ECONNRESET);
}

TEST_F(StreamsTest, a_timer_and_a_signal_make_a_process_ready_once) {
  ZeroChoice choice;
  open(choice);
  client_->arm(network_->now() + milliseconds(2));
  EXPECT_TRUE(client_->look().empty());
  EXPECT_EQ(network_->next_time(), network_->now() + milliseconds(2));
  pass(milliseconds(2));
  ASSERT_EQ(client_->look().size(), 1u);
  EXPECT_TRUE(client_->look().empty());
}

// All clients are on one host and connect at the same time, and the server answers a few connect requests per
// poll.
TEST(AdmissionTest, no_client_of_a_connect_storm_is_closed_while_it_waits) {
  constexpr unsigned kClients = 200;
  constexpr unsigned kAnswers = 4;
  ZeroChoice choice;
  PipeNetwork network(NetworkConfig{}, tcp::TcpOptions{}, 1);
  for (unsigned node = 0; node < 2; ++node) network.add_node();
  PipeEngine server(network, 1, choice, tcp::TcpOptions{}, 1);
  PipeEngine client(network, 0, choice, tcp::TcpOptions{}, 2);
  ASSERT_EQ(server.engine.listen({"n1.p0", "", 7}), Errc::ok);
  const std::array<std::byte, 8> request{};
  for (std::uint16_t con = 0; con < kClients; ++con)
    client.engine.connect({0, con, 1}, {"n0.p0", "n1.p0", 7}, ConnectionParams{}, request);
  std::array<FabricEvent, 64> out;
  std::vector<std::uint32_t> waiting;
  unsigned answered = 0;
  for (unsigned round = 0; round < 200; ++round) {
    network.run_until(network.now() + milliseconds(1), choice);
    client.engine.poll(network.now(), out);
    const std::size_t count = server.engine.poll(network.now(), out);
    for (const FabricEvent& event : std::span(out).first(count))
      if (const auto* asked = std::get_if<event::ConnectRequested>(&event)) waiting.push_back(asked->request);
    EXPECT_LE(waiting.size(), 64U);
    for (unsigned i = 0; i < kAnswers && !waiting.empty(); ++i, ++answered) {
      server.engine.reject(waiting.back(), {});
      waiting.pop_back();
    }
  }
  EXPECT_EQ(answered, kClients);
  EXPECT_EQ(server.engine.stats().closed_handshakes, 0U);
}

TEST(FpduWalkTest, frames_end_where_their_length_field_says) {
  FpduWalk walk;
  std::vector<std::byte> octets(20 + 3 + 24);
  octets[19] = std::byte{3};   // 3 bytes of private data
  octets[24] = std::byte{14};  // an FPDU of 2 + 14 + 4 bytes
  for (std::size_t at = 0; at < octets.size(); ++at) {
    EXPECT_EQ(walk.is_mid_frame(), at != 0 && at != 23 && at < 43) << at;
    EXPECT_EQ(walk.has_greeted(), at >= 23) << at;
    if (at == 43) break;
    walk.pass(std::span(octets).subspan(at, 1));
  }
}

PipeLaws::Posted posted(WorkRequest::Op op, std::uint32_t imm, const std::string& text = {}) {
  PipeLaws::Posted one;
  one.op = op;
  one.imm = imm;
  const auto bytes = std::as_bytes(std::span(text));
  one.bytes.assign(bytes.begin(), bytes.end());
  return one;
}

// Returns the number of the violated law; 0 if there is none.
unsigned broken(const std::vector<PipeLaws::Posted>& work, const std::vector<FabricEvent>& events,
                unsigned receives = 8) {
  PipeLaws laws;
  for (const PipeLaws::Posted& one : work) laws.posted(0, one);
  laws.receives_posted(1, receives);
  std::vector<PipeLaws::Posted> written;
  for (const FabricEvent& event : events) laws.arrived(1, 0, event, 0, written);
  return laws.violations().empty() ? 0 : laws.violations().front().law;
}

TEST(PipeLawsTest, arrivals_are_a_prefix_of_what_was_posted) {
  using Op = WorkRequest::Op;
  const std::string text = "text";
  const event::MessageReceived message{{}, std::nullopt, std::as_bytes(std::span(text))};
  const std::vector<PipeLaws::Posted> work{posted(Op::write, 0, "w"), posted(Op::write_imm, 5, "w"),
                                           posted(Op::send, 0, "text")};
  EXPECT_EQ(broken(work, {}), 0u);
  EXPECT_EQ(broken(work, {event::ImmReceived{{}, 5}, message}), 0u);
  EXPECT_EQ(broken(work, {event::ImmReceived{{}, 6}}), 1u);
  EXPECT_EQ(broken(work, {message}), 1u);
  EXPECT_EQ(broken(work, {event::ImmReceived{{}, 5}, message, message}), 17u);
  EXPECT_EQ(broken(work, {event::ImmReceived{{}, 5}, message}, 1), 2u);
  const std::string other = "texu";
  const event::MessageReceived changed{{}, std::nullopt, std::as_bytes(std::span(other))};
  EXPECT_EQ(broken(work, {event::ImmReceived{{}, 5}, changed}), 1u);
}

TEST(PipeLawsTest, after_disconnect_only_the_end_is_reported) {
  PipeLaws laws;
  laws.told(0, event::ConnectionLost{{}, Reason::peer_closed}, 0);
  laws.left(0);
  laws.told(0, event::ChunkInvalidated{{}, 1, true}, 0);
  laws.told(0, event::ConnectionClosed{{}}, 0);
  laws.told(1, event::SendDone{{}, 1}, 0);
  EXPECT_TRUE(laws.violations().empty());
  laws.told(0, event::SendDone{{}, 1}, 0);
  ASSERT_EQ(laws.violations().size(), 1u);
  EXPECT_EQ(laws.violations().front().law, 23u);
}

TEST(PipeLawsTest, a_write_under_a_revoked_key_is_a_violation) {
  PipeLaws::Posted write = posted(WorkRequest::Op::write, 0, "w");
  write.dead = true;
  const std::vector<PipeLaws::Posted> work{write, posted(WorkRequest::Op::write_imm, 5)};
  EXPECT_EQ(broken(work, {event::ImmReceived{{}, 5}}), 14u);
}

}  // namespace
}  // namespace rtrs::sim::pipes_test
