// The tables of urtrs, made from what a daemon answers to server.show (docs/management.md).
#pragma once
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tools/urtrs/views/table.hpp"

namespace rtrs::admin {

inline constexpr int kSchemaVersion = 1;  // of the JSON that urtrs prints

// An answer that no urtrsd of this version gives; what() says why.
struct UnexpectedAnswer : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// `answer`, if it has the version that this program knows; throws UnexpectedAnswer.
const nlohmann::json& expected_answer(const nlohmann::json& answer);
// A count; 0 where there is none. Throws UnexpectedAnswer where it is no count.
std::uint64_t number(const nlohmann::json& of, const char* key);

Table sessions(const nlohmann::json& shown);
Table paths(const nlohmann::json& shown, const std::string& session);  // empty: of all
Table devices(const nlohmann::json& shown, const std::string& session);
// Of core/proto/reasons.hpp.
Table reasons();
Table exports(const nlohmann::json& shown);
// A sentence for each other thing that is missing, such as a listen address.
std::vector<std::string> missing_beside_exports(const nlohmann::json& shown);
// Of debug.dump: requests that are not answered, and lines about the sessions.
Table in_flight(const nlohmann::json& dump);
std::string waits_text(const nlohmann::json& dump);
Table statistics(const nlohmann::json& shown);
// The one row of the table whose field is `value`, as lines "name value"; empty: there is none.
std::string show(const Table& table, const char* field, const std::string& value, const Options& options);

}  // namespace rtrs::admin
