// Combines a field with the function that reads its value from an object. Lists of facts define the JSON of a
// control socket, the tables of `urtrs` and their JSON Schema.
#pragma once
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "tools/lib/text/field.hpp"

namespace rtrs::tools {

template <class Object>
struct Fact {
  Field field;
  // Returns the value, or JSON null if the object has none at present. If `get` is nullptr, the JSON does not
  // contain the fact, because the reader of the JSON computes it.
  nlohmann::json (*get)(const Object&);
};

// Makes a fact whose value is an expression of the object `at`.
#define RTRS_FACT(field, expression)                                                    \
  {                                                                                     \
    field, []([[maybe_unused]] const auto& at) -> nlohmann::json { return expression; } \
  }

template <class Object>
std::vector<Field> fields_of(std::span<const Fact<Object>> facts) {
  std::vector<Field> fields;
  for (const Fact<Object>& one : facts) fields.push_back(one.field);
  return fields;
}

template <class Object>
nlohmann::json to_json(std::span<const Fact<Object>> facts, const Object& object) {
  nlohmann::json all = nlohmann::json::object();
  for (const Fact<Object>& one : facts) {
    nlohmann::json value = one.get == nullptr ? nlohmann::json() : one.get(object);
    if (value.is_null()) continue;
    if (one.field.old_name != nullptr) all[nlohmann::json::json_pointer(one.field.old_name)] = value;
    all[one.field.name] = std::move(value);
  }
  return all;
}

}  // namespace rtrs::tools
