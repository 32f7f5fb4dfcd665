// Tests the parser with valid requests, and with arbitrary lines, each of which must get an error response.
#include "tools/lib/control/rpc/message.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace rtrs::rpc::message_test {
namespace {

using nlohmann::json;

Error refusal_of(std::string_view line) {
  const Received received = parse_request(line);
  EXPECT_FALSE(received.request) << line;
  if (!received.answer) return {};
  const auto answer = parse_answer(*received.answer);
  EXPECT_TRUE(answer && answer->error) << *received.answer;
  return answer && answer->error ? *answer->error : Error{};
}

TEST(RpcMessage, RequestHasIdMethodAndParameters) {
  const Received received =
      parse_request(R"({"jsonrpc":"2.0","id":7,"method":"path.disconnect","params":{"path":"0"}})");
  ASSERT_TRUE(received.request);
  EXPECT_EQ(received.request->id, 7);
  EXPECT_EQ(received.request->method, "path.disconnect");
  EXPECT_EQ(received.request->params, json({{"path", "0"}}));
  EXPECT_TRUE(received.request->wants_answer());
}

TEST(RpcMessage, MissingParametersAreAnEmptyObject) {
  const Received received = parse_request(R"({"jsonrpc":"2.0","id":"a","method":"server.show"})");
  ASSERT_TRUE(received.request);
  EXPECT_EQ(received.request->params, json::object());
}

TEST(RpcMessage, RequestWithoutAnIdIsANotification) {
  const Received received = parse_request(R"({"jsonrpc":"2.0","method":"x"})");
  ASSERT_TRUE(received.request);
  EXPECT_FALSE(received.request->wants_answer());
}

TEST(RpcMessage, RequestWithANullIdNeedsAResponse) {
  const Received received = parse_request(R"({"jsonrpc":"2.0","id":null,"method":"x"})");
  ASSERT_TRUE(received.request);
  EXPECT_TRUE(received.request->wants_answer());
  EXPECT_TRUE(received.request->id.is_null());
}

TEST(RpcMessage, InvalidRequestIsAnsweredWithTheReason) {
  EXPECT_EQ(refusal_of("").code, Code::parse_error);
  EXPECT_EQ(refusal_of("{").code, Code::parse_error);
  EXPECT_EQ(refusal_of("\xff\xfe").code, Code::parse_error);
  EXPECT_EQ(refusal_of("7").code, Code::invalid_request);
  EXPECT_EQ(refusal_of("{}").code, Code::invalid_request);
  EXPECT_EQ(refusal_of(R"([{"jsonrpc":"2.0","id":1,"method":"x"}])").code, Code::invalid_request);
  EXPECT_EQ(refusal_of(R"({"jsonrpc":"1.0","id":1,"method":"x"})").code, Code::invalid_request);
  EXPECT_EQ(refusal_of(R"({"jsonrpc":"2.0","id":1,"method":3})").code, Code::invalid_request);
  EXPECT_EQ(refusal_of(R"({"jsonrpc":"2.0","id":{},"method":"x"})").code, Code::invalid_request);
  EXPECT_EQ(refusal_of(R"({"jsonrpc":"2.0","id":1,"method":"x","params":[1]})").code, Code::invalid_params);
}

TEST(RpcMessage, ErrorHasTheIdIfItCouldBeRead) {
  const Received received = parse_request(R"({"jsonrpc":"2.0","id":9,"method":"x","params":3})");
  ASSERT_TRUE(received.answer);
  EXPECT_EQ(parse_answer(*received.answer)->id, 9);
}

TEST(RpcMessage, TooDeepNestingIsRefused) {
  const std::string open(20'000, '[');
  EXPECT_EQ(refusal_of(open).code, Code::parse_error);
  EXPECT_EQ(refusal_of(open + std::string(20'000, ']')).code, Code::parse_error);
}

TEST(RpcMessage, ErrorRoundTrips) {
  const auto answer = parse_answer(error_line(4, {Code::no_such_thing, "no session named \"a\"", "look", 2}));
  ASSERT_TRUE(answer && answer->error);
  EXPECT_EQ(answer->id, 4);
  EXPECT_EQ(answer->error->code, Code::no_such_thing);
  EXPECT_EQ(answer->error->message, "no session named \"a\"");
  EXPECT_EQ(answer->error->hint, "look");
  EXPECT_EQ(answer->error->error, 2);
}

TEST(RpcMessage, NotificationParamsMustBeAnObject) {
  const auto event = parse_answer(R"({"jsonrpc":"2.0","method":"event","params":{"what":"up"}})");
  ASSERT_TRUE(event && event->method);
  EXPECT_EQ(event->params, json({{"what", "up"}}));
  EXPECT_FALSE(parse_answer(R"({"jsonrpc":"2.0","method":"event","params":[1]})"));
}

TEST(RpcMessage, LinesContainNoNewline) {
  // A peer can choose a name that contains any byte.
  const std::string name = "a\nb\xff\x01";
  const std::string line = result_line(1, {{"name", name}});
  EXPECT_EQ(line.find('\n'), std::string::npos);
  ASSERT_TRUE(parse_answer(line));
}

TEST(RpcMessage, AnyBytesAreARequestOrGetAnError) {
  std::minstd_rand random(7);
  const auto draw = [&random](std::size_t below) { return static_cast<std::size_t>(random()) % below; };
  const std::string good = R"({"jsonrpc":"2.0","id":7,"method":"path.disconnect","params":{"path":"0"}})";
  for (int i = 0; i < 20'000; ++i) {
    std::string line = good;
    for (std::size_t changes = 1 + draw(3); changes > 0; --changes)
      line[draw(line.size())] = static_cast<char>(draw(256));
    const Received received = parse_request(line);
    EXPECT_NE(received.request.has_value(), received.answer.has_value());
    static_cast<void>(parse_answer(line));
  }
}

}  // namespace
}  // namespace rtrs::rpc::message_test
