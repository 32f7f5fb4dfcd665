// All facts about a path of a client, one row each. The JSON of the control socket, the tables of
// `urtrs client path` and their JSON Schema are made from these rows.
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
  // Value in the JSON of the control socket; null: the path has no such value now. nullptr: the reader of
  // the JSON knows the value from the session.
  nlohmann::json (*get)(const ClientPathAt&);
  // JSON pointer of the name that the control socket used before, written for one more release; nullptr:
  // none.
  const char* old_name = nullptr;
  bool in_tables = true;
};

std::span<const ClientPathField> client_path_fields();

nlohmann::json to_json(const ClientPathAt&);

double seconds_of(Nanos);
// Adds `reason`, `sentence`, `hint` and `errno`. `peer_errno`: errno that the server sent; 0: none.
void add_reason(nlohmann::json& to, Reason, std::uint16_t peer_errno);

}  // namespace rtrs::control
