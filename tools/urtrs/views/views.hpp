// Tables for urtrs, made from replies to server.show (docs/management.md).
#pragma once
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

inline constexpr int kSchemaVersion = 1;  // version of the JSON output of urtrs

// Thrown if a reply is not valid for this version of urtrs; what() says why.
struct UnexpectedAnswer : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Returns `answer` if it has a known version; otherwise throws UnexpectedAnswer.
const nlohmann::json& expected_answer(const nlohmann::json& answer);
// Returns a count; 0 if it is missing. Throws UnexpectedAnswer if the value is not a count.
std::uint64_t number(const nlohmann::json& of, const char* key);

Table sessions(const nlohmann::json& shown);
Table paths(const nlohmann::json& shown, const std::string& session);  // `session` empty: all sessions
Table devices(const nlohmann::json& shown, const std::string& session);
// Table of the reasons that core/proto/reasons.hpp defines.
Table reasons();
Table exports(const nlohmann::json& shown);
// Returns a message for each missing item that is not an export, such as a listen address.
std::vector<std::string> missing_beside_exports(const nlohmann::json& shown);
// in_flight() and waits_text() convert a reply to debug.dump: in_flight() lists the unanswered requests,
// waits_text() describes what the sessions wait for.
Table in_flight(const nlohmann::json& dump);
std::string waits_text(const nlohmann::json& dump);
Table statistics(const nlohmann::json& shown);
// Returns the row whose field equals `value` as lines of the form "name value"; empty if there is no such
// row.
std::string show(const Table& table, const char* field, const std::string& value, const Options& options);

}  // namespace rtrs::admin
