// Fuzz test: parses arbitrary lines as JSON-RPC requests and as responses. A line that is not a request must
// get an error response with a reason. A parsed message must be equal after it is written as one line and
// parsed again.
#include <string>
#include <string_view>

#include "conformance/fuzz/fuzz.hpp"
#include "tools/lib/control/rpc/message.hpp"

using namespace rtrs::rpc;

namespace {

bool is_one_line(const std::string& text) {
  return !text.empty() && text.find('\n') == std::string::npos;
}

void check_refusal(const std::string& line) {
  RTRS_FUZZ_CHECK(is_one_line(line));
  const auto answer = parse_answer(line);
  RTRS_FUZZ_CHECK(answer && answer->error && !answer->error->message.empty());
  RTRS_FUZZ_CHECK(answer->error->code == Code::parse_error || answer->error->code == Code::invalid_request ||
                  answer->error->code == Code::invalid_params);
}

void check_request(const Request& request) {
  RTRS_FUZZ_CHECK(request.params.is_object());
  RTRS_FUZZ_CHECK(!request.notification || request.id.is_null());
  const std::string line = request.notification ? notification_line(request.method, request.params)
                                                : request_line(request.id, request.method, request.params);
  RTRS_FUZZ_CHECK(is_one_line(line));
  const Received again = parse_request(line);
  RTRS_FUZZ_CHECK(again.request && again.request->id == request.id);
  RTRS_FUZZ_CHECK(again.request->notification == request.notification);
  RTRS_FUZZ_CHECK(again.request->method == request.method && again.request->params == request.params);
  // Simulates a server that returns the parameters of the request unchanged.
  const auto echo = parse_answer(result_line(request.id, request.params));
  RTRS_FUZZ_CHECK(echo && echo->id == request.id && echo->result && *echo->result == request.params);
}

void check_answer(const Answer& answer) {
  RTRS_FUZZ_CHECK(
      int{answer.result.has_value()} + int{answer.error.has_value()} + int{answer.method.has_value()} == 1);
  if (answer.method) {
    RTRS_FUZZ_CHECK(answer.params.is_object());
    const auto again = parse_answer(notification_line(*answer.method, answer.params));
    RTRS_FUZZ_CHECK(again && again->method == answer.method && again->params == answer.params);
  } else if (answer.error) {
    const std::string line = error_line(answer.id, *answer.error);
    RTRS_FUZZ_CHECK(is_one_line(line));
    const auto again = parse_answer(line);
    RTRS_FUZZ_CHECK(again && again->error && again->id == answer.id);
    RTRS_FUZZ_CHECK(again->error->code == answer.error->code && again->error->error == answer.error->error);
    RTRS_FUZZ_CHECK(again->error->message == answer.error->message &&
                    again->error->hint == answer.error->hint);
  } else {
    const auto again = parse_answer(result_line(answer.id, *answer.result));
    RTRS_FUZZ_CHECK(again && again->result == answer.result && again->id == answer.id);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    const Received received = parse_request(line);
    RTRS_FUZZ_CHECK(received.request.has_value() != received.answer.has_value());
    if (received.answer) check_refusal(*received.answer);
    if (received.request) check_request(*received.request);
    if (const auto answer = parse_answer(line)) check_answer(*answer);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return 0;
}
