// Tests AsyncClient: responses in any order, late or missing responses, and connections that end during a
// call.
#include "tools/lib/control/rpc/async_client.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <fstream>
#include <optional>

#include "tools/lib/control/rpc/server.hpp"
#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::rpc::async_client_test {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using std::chrono::seconds;

class AsyncClientTest : public testing::Test {
 protected:
  AsyncClientTest() {
    ServerOptions options;
    options.path = folder_ / "server.sock";
    auto made = Server::listen(
        context_, options,
        [this](const Caller&, const Request& request, const Reply& reply) { serve(request, reply); });
    EXPECT_TRUE(made);
    if (made) server_ = std::move(*made);
  }
  void serve(const Request& request, const Reply& reply) {
    if (request.method == "keep") return kept_.push_back(reply);
    if (request.method == "refuse") return reply.error({Code::failed, "no", "try", EBUSY});
    if (request.method == "large") return reply.result({{"text", std::string(300'000, 'x')}});
    if (request.method == "watch") {
      reply.subscribe();
      server_->broadcast("event", {{"serial", 1}});
    }
    reply.result({{"method", request.method}});
  }
  std::unique_ptr<AsyncClient> connect() {
    auto client = AsyncClient::connect(context_, folder_ / "server.sock");
    EXPECT_TRUE(client);
    return client ? std::move(*client) : nullptr;
  }
  AsyncClient::Then note() {
    return [this](tl::expected<json, Error> result) {
      said_.push_back(result ? result->dump() : std::to_string(result.error().error));
    };
  }
  // Runs the event loop until `answers` responses have arrived.
  void run(std::size_t answers) {
    const auto until = std::chrono::steady_clock::now() + seconds(60);
    while (said_.size() < answers && std::chrono::steady_clock::now() < until)
      context_.run_one_for(seconds(1));
    ASSERT_EQ(said_.size(), answers);
  }

  tools::ScratchFolder folder_;
  boost::asio::io_context context_;
  std::unique_ptr<Server> server_;
  std::vector<Reply> kept_;
  std::vector<std::string> said_;
};

TEST_F(AsyncClientTest, ConnectWithoutAListenerFails) {
  EXPECT_EQ(AsyncClient::connect(context_, folder_ / "nobody.sock").error(), ENOENT);
  EXPECT_EQ(AsyncClient::connect(context_, std::string(200, 'x')).error(), ENAMETOOLONG);
}

TEST_F(AsyncClientTest, RepliesReachTheirCallers) {
  const auto client = connect();
  client->call("keep", json::object(), seconds(60), note());
  client->call("watch", json::object(), seconds(60), note());
  client->call("refuse", json::object(), seconds(60), note());
  run(2);
  ASSERT_EQ(kept_.size(), 1U);
  kept_[0].result({{"late", true}});
  run(3);
  EXPECT_EQ(said_,
            (std::vector<std::string>{R"({"method":"watch"})", std::to_string(EBUSY), R"({"late":true})"}));
}

TEST_F(AsyncClientTest, LongReplyArrivesComplete) {
  const auto client = connect();
  client->call("large", json::object(), seconds(60), note());
  run(1);
  EXPECT_GT(said_[0].size(), 300'000U);
}

TEST_F(AsyncClientTest, MissingReplyTimesOut) {
  const auto client = connect();
  client->call("keep", json::object(), milliseconds(20), note());
  run(1);
  EXPECT_EQ(said_[0], std::to_string(ETIMEDOUT));
  EXPECT_FALSE(client->is_over());
  kept_[0].result(json::object());
  client->call("fine", json::object(), seconds(60), note());
  run(2);
  EXPECT_EQ(said_[1], R"({"method":"fine"})") << "the late reply is dropped";
}

TEST_F(AsyncClientTest, CloseByThePeerFailsAllPendingCalls) {
  const auto client = connect();
  for (int i = 0; i < 3; ++i) client->call("keep", json::object(), seconds(60), note());
  client->call("fine", json::object(), seconds(60), note());
  run(1);
  server_.reset();
  run(4);
  EXPECT_TRUE(client->is_over());
  EXPECT_EQ(said_[3], std::to_string(ENOTCONN));
  client->call("fine", json::object(), seconds(60), note());
  EXPECT_EQ(said_.size(), 4U) << "never from within call()";
  run(5);
  EXPECT_EQ(said_[4], std::to_string(ENOTCONN));
}

TEST_F(AsyncClientTest, ReplyHandlerMayDestroyTheClient) {
  auto client = connect();
  client->call("fine", json::object(), seconds(60), [&](const auto&) {
    client.reset();
    said_.emplace_back("gone");
  });
  client->call("fine", json::object(), seconds(60), note());
  run(1);
  context_.poll();
  EXPECT_EQ(said_, std::vector<std::string>{"gone"}) << "pending calls are dropped";
}

TEST_F(AsyncClientTest, InvalidJsonRpcEndsTheConnection) {
  const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder_ / "liar.sock";
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(::listen(listener, 1), 0);
  const auto client = AsyncClient::connect(context_, path);
  ASSERT_TRUE(client);
  const int end = ::accept(listener, nullptr, nullptr);
  ASSERT_EQ(::write(end, "hello\n", 6), 6);
  (*client)->call("fine", json::object(), seconds(60), note());
  run(1);
  EXPECT_EQ(said_[0], std::to_string(ENOTCONN));
  ::close(end);
  ::close(listener);
}

}  // namespace
}  // namespace rtrs::rpc::async_client_test
