// Describes one fact about an object: its name in JSON and CSV, its column in tables, its entry in the JSON
// Schema.
#pragma once

namespace rtrs::tools {

struct Field {
  enum class Kind { text, number, bytes, seconds };  // seconds: JSON null means that the time has no limit
  enum class Value { usual, real, flag, list };      // usual: an integer, or a string if kind is text
  const char* name;                                  // key of JSON, CSV and --fields
  const char* header;                                // title of the column
  const char* what;                                  // text of --help
  Kind kind = Kind::text;
  bool by_default = true;
  bool summed = false;  // the total line shows the sum
  Value value = Value::usual;
  bool optional = false;  // JSON lacks the key if the object has no such value
  // Allowed values of a text, separated by '|'; or a regular expression, if it begins with '^'. nullptr: any
  // text.
  const char* words = nullptr;
  // JSON pointer to the previous name on the control socket. The value is also written under this name for
  // one more release. nullptr: there is no previous name.
  const char* old_name = nullptr;
  bool in_tables = true;  // false: only in the JSON of control sockets

  // Returns a copy of the field in which one member has this value. Defined first, because clang evaluates
  // templates in the order of the text.
  template <class Member>
  constexpr Field with(Member Field::*member, Member value_of_it) const {
    Field one = *this;
    one.*member = value_of_it;
    return one;
  }
  constexpr Field of(const char* all) const { return with(&Field::words, all); }
  constexpr Field as(Value type) const { return with(&Field::value, type); }
  constexpr Field if_known() const { return with(&Field::optional, true); }
  constexpr Field shown() const { return with(&Field::by_default, true); }
  constexpr Field was(const char* pointer) const { return with(&Field::old_name, pointer); }
};

// Functions that create fields which tables show only on request; see Field::shown(). A field that is
// in no table needs no title and no help text.
namespace field {

constexpr Field text(const char* name, const char* header = "", const char* what = "") {
  return {name, header, what, Field::Kind::text, false};
}
constexpr Field flag(const char* name, const char* header = "", const char* what = "") {
  return text(name, header, what).as(Field::Value::flag);
}
constexpr Field plain(const char* name, const char* header = "", const char* what = "") {
  return {name, header, what, Field::Kind::number, false};
}
constexpr Field real(const char* name, const char* header = "", const char* what = "") {
  return plain(name, header, what).as(Field::Value::real);
}
constexpr Field size(const char* name, const char* header = "", const char* what = "") {
  return {name, header, what, Field::Kind::bytes, false};
}
// Creates a field that is only in the JSON of control sockets, not in tables.
constexpr Field unlisted(const char* name, const char* old_name = nullptr) {
  Field one = text(name, "", "").if_known().was(old_name);
  one.in_tables = false;
  return one;
}
// Creates a number whose total is in the last line of a table.
constexpr Field count(const char* name, const char* header, const char* what) {
  return {name, header, what, Field::Kind::number, false, true};
}
// Creates a number of bytes whose total is in the last line of a table.
constexpr Field bytes(const char* name, const char* header, const char* what) {
  return {name, header, what, Field::Kind::bytes, false, true};
}

}  // namespace field
}  // namespace rtrs::tools
