// Table of all facts about a path of a client, one row each. The JSON of the control socket, the tables of
// `urtrs client path` and their JSON Schema are generated from it.
#pragma once
#include <nlohmann/json.hpp>
#include <span>

#include "tools/lib/control/client/client_control.hpp"
#include "tools/lib/text/field.hpp"

namespace rtrs::control {

struct ClientPathAt {
  const ClientModel& model;
  const ClientPathModel& path;
  Nanos now;
};

struct ClientPathField {
  tools::Field field;
  // Returns the value for the JSON of the control socket; null if the path has no such value now. nullptr:
  // the path has no such member, because the session has it.
  nlohmann::json (*get)(const ClientPathAt&);
  // JSON pointer of the former name, which the control socket also writes for one more release; nullptr:
  // none.
  const char* old_name = nullptr;
  bool in_tables = true;
};

std::span<const ClientPathField> client_path_fields();

nlohmann::json to_json(const ClientPathAt&);

double seconds_of(Nanos);
// Adds the members `reason`, `sentence`, `hint` and `errno`. `peer_errno`: errno that the server sent; 0:
// none.
void add_reason(nlohmann::json& to, Reason, std::uint16_t peer_errno);

}  // namespace rtrs::control
