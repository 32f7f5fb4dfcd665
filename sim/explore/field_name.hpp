// Names of fields that a visitor compares with literals. If the visitor is inlined into visit_fields(), the
// compiler evaluates each comparison; otherwise a search spends most of its time on them.
#pragma once

// Attribute of a visitor: [](FieldName name, const auto& field) RTRS_INLINED { ... }
#define RTRS_INLINED __attribute__((always_inline))

namespace rtrs::explore {

class FieldName {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): visit_fields() passes the text
  RTRS_INLINED FieldName(const char* text) noexcept : text_(text) {}
  RTRS_INLINED bool operator==(const char* literal) const noexcept {
    return __builtin_strcmp(text_, literal) == 0;
  }

 private:
  const char* text_;
};

}  // namespace rtrs::explore
