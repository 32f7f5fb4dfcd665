// Checks that Session follows Boost.Asio's rules for asynchronous operations.
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include "backends/bindings/asio/session.hpp"
#include "conformance/asio/contract.hpp"
#include "core/wire/rnbd_messages.hpp"

namespace rtrs::conformance::session_contract_test {
namespace {

class SessionContract : public Contract {
 protected:
  SessionContract() {
    asio::SessionSettings settings;
    settings.client.session_name = "contract_test";
    settings.client.paths = {PathAddress{"", "loop", 1}};
    settings.client.session_uuid.bytes[0] = 1;
    settings.client.path_uuids.resize(kMaxPaths);
    settings.client.path_uuids[0].bytes[0] = 2;
    session = std::make_unique<asio::Session>(context, server.take_client_fabric(), std::move(settings));
  }
  void open() { spawn(session->async_open(net::use_awaitable)); }

  std::unique_ptr<asio::Session> session;
};

// A SESS_INFO request, which the server answers.
struct Question {
  Question() {
    EXPECT_EQ(wire::rnbd::encode(wire::rnbd::SessInfo{}, question), question.size());
    request.service = true;
    request.user_header = question;
    request.data = answer;
  }
  std::array<std::byte, wire::rnbd::kSessInfoBytes> question{};
  std::array<std::byte, wire::rnbd::kSessInfoRspBytes> answer{};
  IoRequest request;
};

TEST_F(SessionContract, HeaderOfADeferredRequestIsCopied) {
  open();
  Question info;
  auto ask = session->async_request(info.request, net::deferred);
  info.question.fill(std::byte{0xff});
  auto future = std::move(ask)(net::use_future);
  serve_until_ready(future);
  EXPECT_NO_THROW(future.get());
  EXPECT_TRUE(wire::rnbd::parse_sess_info_rsp(info.answer));
}

TEST_F(SessionContract, TooLongHeaderIsRefused) {
  open();
  const std::vector<std::byte> header(kMaxUserHeader + 1000);
  std::optional<Error> result;
  session->async_write(header, {}, [&result](Error error) { result = error; });
  serve_until([&result] { return result.has_value(); });
  EXPECT_EQ(result, asio::to_error_code(Errc::invalid));
}

TEST_F(SessionContract, ExecutorIsThatOfTheContext) {
  static_assert(std::is_same_v<asio::Session::executor_type, net::io_context::executor_type>);
  EXPECT_TRUE(session->get_executor() == context.get_executor());
}

TEST_F(SessionContract, SecondOpenIsRefusedWhileOneIsOutstanding) {
  std::optional<Error> second;
  session->async_open([](Error) {});
  session->async_open([&second](Error error) { second = error; });
  EXPECT_FALSE(second);
  turn();
  EXPECT_EQ(second, asio::to_error_code(Errc::invalid));
}

TEST_F(SessionContract, CancelledOpenContinuesAndCanBeAwaitedAgain) {
  net::cancellation_signal signal;
  std::optional<Error> opened;
  session->async_open(net::bind_cancellation_slot(signal.slot(), [&opened](Error error) { opened = error; }));
  signal.emit(net::cancellation_type::total);
  turn();
  EXPECT_FALSE(opened);
  signal.emit(net::cancellation_type::partial);
  turn();
  EXPECT_EQ(opened, kAborted);
  for (const bool connected : {false, true}) {
    EXPECT_EQ(session->client().link_up(), connected);
    open();
  }
}

TEST_F(SessionContract, DestroyingTheSessionAbortsOutstandingOperations) {
  open();
  Question info;
  std::vector<Error> results;
  session->async_request(info.request, [&results](Error error) { results.push_back(error); });
  session->async_close([&results](Error error) { results.push_back(error); });
  session.reset();
  EXPECT_TRUE(results.empty());
  turn();
  EXPECT_EQ(results, std::vector<Error>(2, kAborted));
}

}  // namespace
}  // namespace rtrs::conformance::session_contract_test
