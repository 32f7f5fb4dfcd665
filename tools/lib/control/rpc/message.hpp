// JSON-RPC 2.0 (jsonrpc.org/specification), one message a line. Text in, values out; the bytes come from
// whoever can open the socket, so nothing in them is trusted.
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace rtrs::rpc {

// A line that is longer ends its connection.
inline constexpr std::size_t kMostLineBytes = 64 * 1024;

// Of an error object. Those below -32000 are of JSON-RPC, the others ours.
enum class Code : int {
  parse_error = -32700,
  invalid_request = -32600,
  no_such_method = -32601,
  invalid_params = -32602,
  internal_error = -32603,
  failed = 1,         // the operation was tried; `errno` says what came of it
  no_such_thing = 2,  // a session, path, device or export that is not there
  not_permitted = 3,
  busy = 4,  // a limit is reached; others are served
};

struct Error {
  Code code = Code::internal_error;
  std::string message;  // one sentence: what failed and why
  std::string hint;     // what to do; may be empty
  int error = 0;        // Linux errno, positive; 0 where there is none
};

struct Request {
  nlohmann::json id;          // may be null, of a request too
  bool notification = false;  // has no id at all, and is not answered
  std::string method;
  nlohmann::json params = nlohmann::json::object();  // always an object
  bool wants_answer() const noexcept { return !notification; }
};

// What a server got. Exactly one is set.
struct Received {
  std::optional<Request> request;
  std::optional<std::string> answer;  // to a line that is no request: send it
};
Received parse_request(std::string_view line);

// Lines without the newline.
std::string result_line(const nlohmann::json& id, const nlohmann::json& result);
std::string error_line(const nlohmann::json& id, const Error& error);
std::string request_line(const nlohmann::json& id, const std::string& method, const nlohmann::json& params);
std::string notification_line(const std::string& method, const nlohmann::json& params);

// What a client got. Exactly one of `result`, `error` and `method` is set.
struct Answer {
  nlohmann::json id;
  std::optional<nlohmann::json> result;
  std::optional<Error> error;
  std::optional<std::string> method;  // a notification, with `params`, an object
  nlohmann::json params;
};
std::optional<Answer> parse_answer(std::string_view line);  // nothing: not JSON-RPC

}  // namespace rtrs::rpc
