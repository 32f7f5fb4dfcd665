// Field lists for plain structs. RTRS_FIELDS(a, b) inside a struct gives it
//   static void visit_fields(Self& self, Visitor&& visit)   // calls visit("a", self.a), visit("b", self.b)
// The trace codec, the JSON output and the fingerprints use it, so a field that is added to a struct is
// recorded, printed and hashed without another list to maintain.
#pragma once

#define RTRS_FIELDS_EXPAND(...) RTRS_FIELDS_E3(RTRS_FIELDS_E3(RTRS_FIELDS_E3(RTRS_FIELDS_E3(__VA_ARGS__))))
#define RTRS_FIELDS_E3(...) RTRS_FIELDS_E2(RTRS_FIELDS_E2(RTRS_FIELDS_E2(RTRS_FIELDS_E2(__VA_ARGS__))))
#define RTRS_FIELDS_E2(...) RTRS_FIELDS_E1(RTRS_FIELDS_E1(RTRS_FIELDS_E1(RTRS_FIELDS_E1(__VA_ARGS__))))
#define RTRS_FIELDS_E1(...) __VA_ARGS__
#define RTRS_FIELDS_PARENS ()
#define RTRS_FIELDS_EACH(head, ...) \
  visit(#head, self.head);          \
  __VA_OPT__(RTRS_FIELDS_AGAIN RTRS_FIELDS_PARENS(__VA_ARGS__))
#define RTRS_FIELDS_AGAIN() RTRS_FIELDS_EACH

#define RTRS_FIELDS(...)                                            \
  template <class Self, class Visitor>                              \
  static constexpr void visit_fields(Self& self, Visitor&& visit) { \
    RTRS_FIELDS_EXPAND(RTRS_FIELDS_EACH(__VA_ARGS__))               \
  }

namespace rtrs {

template <class T>
concept Reflected = requires(T& value) {
  T::visit_fields(value, [](const char*, auto&) {});
};

}  // namespace rtrs
