// Parses and writes JSON-RPC 2.0 messages (jsonrpc.org/specification), one per line. Input is untrusted: it
// comes from any process that can open the socket.
#pragma once
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace rtrs::rpc {

// Maximum length of a line in bytes. A server closes a connection that sends a longer line.
inline constexpr std::size_t kMaxLineBytes = 64 * 1024;

// Code of an error object. Codes below -32000 are defined by JSON-RPC, the others by this project.
enum class Code : int {
  parse_error = -32700,
  invalid_request = -32600,
  no_such_method = -32601,
  invalid_params = -32602,
  internal_error = -32603,
  failed = 1,         // the operation was tried and failed; `errno` has the cause
  no_such_thing = 2,  // the session, path, device or export does not exist
  not_permitted = 3,
  busy = 4,  // a limit of the server is reached
};

struct Error {
  Code code = Code::internal_error;
  std::string message;  // one sentence: what failed and why
  std::string hint;     // advice what to do; may be empty
  int error = 0;        // Linux errno, positive; 0: none
};

struct Request {
  nlohmann::json id;          // may be null even if the sender expects a response
  bool notification = false;  // the request has no id and gets no response
  std::string method;
  nlohmann::json params = nlohmann::json::object();  // always an object
  bool wants_answer() const noexcept { return !notification; }
};

// A line that a server received. Exactly one member is set.
struct Received {
  std::optional<Request> request;
  std::optional<std::string> answer;  // error response to send, because the line is not a valid request
};
Received parse_request(std::string_view line);

// The returned lines have no newline at the end.
std::string result_line(const nlohmann::json& id, const nlohmann::json& result);
std::string error_line(const nlohmann::json& id, const Error& error);
std::string request_line(const nlohmann::json& id, const std::string& method, const nlohmann::json& params);
std::string notification_line(const std::string& method, const nlohmann::json& params);

// A line that a client received. Exactly one of `result`, `error` and `method` is set.
struct Answer {
  nlohmann::json id;
  std::optional<nlohmann::json> result;
  std::optional<Error> error;
  std::optional<std::string> method;  // method of a notification; its `params` is an object
  nlohmann::json params;
};
std::optional<Answer> parse_answer(std::string_view line);  // returns nullopt if the line is not JSON-RPC

}  // namespace rtrs::rpc
