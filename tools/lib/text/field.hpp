// Description of one fact about an object: its name in JSON and CSV, its column in tables, its entry in the
// JSON Schema.
#pragma once

namespace rtrs::tools {

struct Field {
  enum class Kind { text, number, bytes, seconds };  // seconds: JSON null means that the time never ends
  enum class Value { usual, real, flag, list };      // usual: an integer, or a string if kind is text
  const char* name;                                  // key of JSON, CSV and --fields
  const char* header;                                // title of the column
  const char* what;                                  // text of --help
  Kind kind = Kind::text;
  bool by_default = true;
  bool summed = false;  // the line of totals has the sum
  Value value = Value::usual;
  bool optional = false;  // JSON lacks the key if the object has no such value
  // Allowed values of a text, separated by '|'; or, if it begins with '^', a pattern. nullptr: any text.
  const char* words = nullptr;

  constexpr Field of(const char* all) const {
    Field one = *this;
    one.words = all;
    return one;
  }
  constexpr Field as(Value type) const {
    Field one = *this;
    one.value = type;
    return one;
  }
  constexpr Field if_known() const {
    Field one = *this;
    one.optional = true;
    return one;
  }
};

}  // namespace rtrs::tools
