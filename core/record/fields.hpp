// Walks the leaf fields of a recorded struct in the order of the format: nested structs are flattened, and
// `now` of the event itself is left out, because it is the time of the record.
#pragma once
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "core/base/reflect.hpp"
#include "core/wire/bytes.hpp"

namespace rtrs::trace {

template <class T>
concept Timed = requires(const T& value) {
  value.now;
};

template <class T, class Visit>
constexpr void visit_nested_leaves(T& value, Visit&& visit) {
  std::remove_const_t<T>::visit_fields(value, [&visit](const char*, auto& field) {
    if constexpr (Reflected<std::remove_const_t<std::remove_reference_t<decltype(field)>>>) {
      visit_nested_leaves(field, visit);
    } else {
      visit(field);
    }
  });
}

// Calls visit(field) for every leaf; works for const and mutable values.
template <class T, class Visit>
constexpr void visit_leaves(T& value, Visit&& visit) {
  std::remove_const_t<T>::visit_fields(value, [&visit](const char* name, auto& field) {
    if (std::string_view(name) == "now") return;
    if constexpr (Reflected<std::remove_const_t<std::remove_reference_t<decltype(field)>>>) {
      visit_nested_leaves(field, visit);
    } else {
      visit(field);
    }
  });
}

}  // namespace rtrs::trace
