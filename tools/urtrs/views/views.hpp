// Tables of urtrs, from replies to server.show (docs/management.md).
#pragma once
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

inline constexpr int kSchemaVersion = 1;  // version of the JSON output of urtrs

// Invalid reply for this version; what() says why.
struct UnexpectedAnswer : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// Returns `answer` if it has a known version; otherwise throws UnexpectedAnswer.
const nlohmann::json& expected_answer(const nlohmann::json& answer);
// Returns a count; 0 if it is missing. Throws UnexpectedAnswer if the value is not a count.
std::uint64_t number(const nlohmann::json& of, const char* key);

Table sessions(const nlohmann::json& shown);
Table paths(const nlohmann::json& shown, const std::string& session);  // empty: all sessions
Table devices(const nlohmann::json& shown, const std::string& session);
// Table of core/proto/reasons.hpp.
Table reasons();
Table exports(const nlohmann::json& shown);
// One sentence for each missing item except exports, such as a listen address.
std::vector<std::string> missing_beside_exports(const nlohmann::json& shown);
// From a reply to debug.dump: unanswered requests, and text about the sessions.
Table in_flight(const nlohmann::json& dump);
std::string waits_text(const nlohmann::json& dump);
Table statistics(const nlohmann::json& shown);
// The row whose field equals `value`, as lines "name value"; empty if there is none.
std::string show(const Table& table, const char* field, const std::string& value, const Options& options);

}  // namespace rtrs::admin
