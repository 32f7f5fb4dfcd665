#include "tools/lib/control/rpc/message.hpp"

#include "tools/lib/text/json_depth.hpp"
#include "tools/lib/text/json_text.hpp"

namespace rtrs::rpc {

using nlohmann::json;

namespace {

// Maximum nesting depth of objects and arrays; deeper messages are rejected.
constexpr int kMostDepth = 16;

// Returns nullopt if the line is not JSON, is not valid UTF-8, or is nested too deeply.
std::optional<json> parse(std::string_view line) {
  if (tools::is_nested_deeper(line, kMostDepth)) return std::nullopt;
  json value = json::parse(line, nullptr, false);
  if (value.is_discarded()) return std::nullopt;
  return value;
}

bool is_id(const json& id) {
  return id.is_string() || id.is_number_integer() || id.is_null();
}

std::string line_of(const json& value) {
  return tools::json_text(value);
}

Received refuse(const json& id, Code code, std::string message) {
  Received received;
  received.answer = error_line(id, {code, std::move(message), {}, 0});
  return received;
}

}  // namespace

Received parse_request(std::string_view line) {
  std::optional<json> parsed = parse(line);
  if (!parsed) return refuse(nullptr, Code::parse_error, "this line is not JSON, or nested too deeply");
  json& value = *parsed;
  if (value.is_array())
    return refuse(nullptr, Code::invalid_request,
                  "batches of requests are not supported; send each request in its own line");
  const auto id = value.is_object() && value.contains("id") && is_id(value["id"]) ? value["id"] : json();
  if (!value.is_object() || value.value("jsonrpc", json()) != json("2.0") || !value.contains("method") ||
      !value["method"].is_string() || (value.contains("id") && !is_id(value["id"])))
    return refuse(id, Code::invalid_request,
                  R"(a request is an object with "jsonrpc": "2.0", "method" and "id")");
  if (value.contains("params") && !value["params"].is_object())
    return refuse(id, Code::invalid_params, "params must be an object with names");
  Received received;
  received.request.emplace();
  received.request->id = id;
  received.request->notification = !value.contains("id");
  received.request->method = value["method"].get<std::string>();
  if (value.contains("params")) received.request->params = std::move(value["params"]);
  return received;
}

std::string result_line(const json& id, const json& result) {
  return line_of({{"jsonrpc", "2.0"}, {"id", id}, {"result", result}});
}

std::string error_line(const json& id, const Error& error) {
  json object{{"code", static_cast<int>(error.code)}, {"message", error.message}};
  json data = json::object();
  if (!error.hint.empty()) data["hint"] = error.hint;
  if (error.error != 0) data["errno"] = error.error;
  if (!data.empty()) object["data"] = std::move(data);
  return line_of({{"jsonrpc", "2.0"}, {"id", id}, {"error", std::move(object)}});
}

std::string request_line(const json& id, const std::string& method, const json& params) {
  return line_of({{"jsonrpc", "2.0"}, {"id", id}, {"method", method}, {"params", params}});
}

std::string notification_line(const std::string& method, const json& params) {
  return line_of({{"jsonrpc", "2.0"}, {"method", method}, {"params", params}});
}

std::optional<Answer> parse_answer(std::string_view line) {
  std::optional<json> parsed = parse(line);
  if (!parsed || !parsed->is_object() || parsed->value("jsonrpc", json()) != json("2.0")) return std::nullopt;
  json& value = *parsed;
  Answer answer;
  answer.id = value.value("id", json());
  if (value.contains("result")) {
    answer.result = std::move(value["result"]);
  } else if (value.contains("error") && value["error"].is_object()) {
    const json& object = value["error"];
    const auto number = [](const json& from, const char* key) {
      return from.contains(key) && from[key].is_number_integer() ? from[key].get<int>() : 0;
    };
    const auto text = [](const json& from, const char* key) {
      return from.contains(key) && from[key].is_string() ? from[key].get<std::string>() : std::string();
    };
    const json data = object.contains("data") && object["data"].is_object() ? object["data"] : json::object();
    answer.error = Error{static_cast<Code>(number(object, "code")), text(object, "message"),
                         text(data, "hint"), number(data, "errno")};
  } else if (value.contains("method") && value["method"].is_string()) {
    answer.method = value["method"].get<std::string>();
    answer.params = value.value("params", json::object());
    if (!answer.params.is_object()) return std::nullopt;
  } else {
    return std::nullopt;
  }
  return answer;
}

}  // namespace rtrs::rpc
