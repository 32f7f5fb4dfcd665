// Converts the state of a state machine to bytes and back, and to text: every reflected field, in order. Only
// a build whose state has the same fields (state_layout()) can read the bytes.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/fingerprint.hpp"
#include "core/base/reflect.hpp"
#include "core/record/varint.hpp"
#include "core/wire/bytes.hpp"
#include "core/wire/messages.hpp"

namespace rtrs::trace {

namespace state {

template <class T>
inline constexpr bool is_scalar = std::is_enum_v<T> || std::is_integral_v<T>;
template <class T>
inline constexpr bool is_uuid = std::is_same_v<T, wire::Uuid>;
template <class T>
inline constexpr bool is_name = std::is_same_v<T, wire::Name>;
// True for FixedVector and GrowingVector, whose length is part of the state; std::array has a fixed length.
template <class T>
concept Resizable = requires(T& list) {
  list.resize(1);
};
// Satisfied by lists that never allocate.
template <class T>
concept Fixed = requires {
  typename std::integral_constant<std::size_t, T::capacity()>;
};
template <class List>
using Item = std::remove_cvref_t<decltype(*std::declval<List&>().begin())>;

// Maximum encoded size of `value` until its lists allocate more memory.
template <class T>
std::size_t bound(const T& value) {
  if constexpr (is_scalar<T>) {
    return (sizeof(T) * 8 + 6) / 7;
  } else if constexpr (is_uuid<T>) {
    return 16;
  } else if constexpr (is_name<T>) {
    return 2 + wire::kNameFieldBytes;
  } else if constexpr (Reflected<T>) {
    std::size_t size = 0;
    T::visit_fields(value, [&size](const char*, const auto& field) { size += bound(field); });
    return size;
  } else if constexpr (Fixed<T>) {
    return 3 + T::capacity() * bound(Item<T>{});
  } else if constexpr (Resizable<T>) {
    std::size_t size = 3 + (value.capacity() - value.size()) * bound(Item<T>{});
    for (const auto& item : value) size += bound(item);
    return size;
  } else {
    return std::tuple_size_v<T> * bound(Item<T>{});
  }
}

template <class T>
std::uint8_t* save(std::uint8_t* out, const T& value) noexcept {
  if constexpr (is_scalar<T>) {
    return put_varint(out, static_cast<std::uint64_t>(value));
  } else if constexpr (is_uuid<T>) {
    std::memcpy(out, value.bytes.data(), value.bytes.size());
    return out + value.bytes.size();
  } else if constexpr (is_name<T>) {
    out = put_varint(out, value.length);
    std::memcpy(out, value.text.data(), value.length);
    return out + value.length;
  } else if constexpr (Reflected<T>) {
    T::visit_fields(value, [&out](const char*, const auto& field) { out = save(out, field); });
    return out;
  } else {
    if constexpr (Resizable<T>) out = put_varint(out, value.size());
    for (const auto& item : value) out = save(out, item);
    return out;
  }
}

// Returns null if the bytes are no valid encoding of such a value.
template <class T>
const std::uint8_t* load(const std::uint8_t* at, const std::uint8_t* end, T& value) noexcept {
  if constexpr (is_scalar<T>) {
    std::uint64_t number = 0;
    at = get_varint(at, end, number);
    value = static_cast<T>(number);
    return at != nullptr && static_cast<std::uint64_t>(value) == number ? at : nullptr;
  } else if constexpr (is_uuid<T>) {
    if (static_cast<std::size_t>(end - at) < value.bytes.size()) return nullptr;
    std::memcpy(value.bytes.data(), at, value.bytes.size());
    return at + value.bytes.size();
  } else if constexpr (is_name<T>) {
    std::uint64_t length = 0;
    at = get_varint(at, end, length);
    if (at == nullptr || length > static_cast<std::size_t>(end - at)) return nullptr;
    const auto size = static_cast<std::size_t>(length);
    const auto name = wire::make_name({reinterpret_cast<const char*>(at), size});
    if (!name) return nullptr;
    value = name.value;
    return at + size;
  } else if constexpr (Reflected<T>) {
    T::visit_fields(value, [&at, end](const char*, auto& field) {
      if (at != nullptr) at = load(at, end, field);
    });
    return at;
  } else {
    if constexpr (Resizable<T>) {
      std::uint64_t size = 0;
      at = get_varint(at, end, size);
      if (at == nullptr || size > T::max_size()) return nullptr;
      value.resize(static_cast<std::size_t>(size));
    }
    for (auto& item : value) {
      if (at != nullptr) at = load(at, end, item);
    }
    return at;
  }
}

template <class T>
void add_layout(Fingerprint& hash, const T& value) {
  if constexpr (is_scalar<T> || is_uuid<T> || is_name<T>) {
    hash.add(std::uint64_t{sizeof(T)});
  } else if constexpr (Reflected<T>) {
    T::visit_fields(value, [&hash](const char* name, const auto& field) {
      hash.add(std::string_view(name));
      add_layout(hash, field);
    });
  } else {
    if constexpr (!Resizable<T>) hash.add(std::uint64_t{std::tuple_size_v<T>});
    add_layout(hash, Item<T>{});
  }
}

// Control characters of a name, which may come from a file, must not reach a terminal.
inline std::string printable(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

// Calls leaf(name, text) for every field, except list elements that contain only default values.
template <class T, class Leaf>
void visit_text(const std::string& name, const T& value, Leaf&& leaf) {
  if constexpr (is_scalar<T>) {
    if constexpr (requires { to_string(value); }) {
      leaf(name, std::string(to_string(value)));
    } else if constexpr (std::is_same_v<T, bool>) {
      leaf(name, std::string(value ? "true" : "false"));
    } else {
      const auto number = static_cast<std::uint64_t>(value);
      leaf(name, sizeof(T) == 8 && number == ~std::uint64_t{0} ? "never" : std::to_string(number));
    }
  } else if constexpr (is_uuid<T>) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (const std::uint8_t byte : value.bytes) (text += kDigits[byte >> 4]) += kDigits[byte & 15];
    leaf(name, std::move(text));
  } else if constexpr (is_name<T>) {
    leaf(name, printable(value.view()));
  } else if constexpr (Reflected<T>) {
    T::visit_fields(value, [&name, &leaf](const char* field_name, const auto& field) {
      std::string whole = name.empty() ? std::string(field_name) : name + '.' + field_name;
      if (whole.back() == '_') whole.pop_back();
      visit_text(whole, field, leaf);
    });
  } else {
    if constexpr (Resizable<T>) leaf(name + ".size", std::to_string(value.size()));
    std::size_t index = 0;
    for (const auto& item : value) {
      const std::string whole = name + '[' + std::to_string(index++) + ']';
      if (!(item == Item<T>{})) visit_text(whole, item, leaf);
    }
  }
}

}  // namespace state

// Hash of the field names: changes if the fields of the state change.
template <class Machine>
std::uint64_t state_layout(const Machine& machine) {
  Fingerprint hash;
  state::add_layout(hash, machine);
  return hash.value();
}

// The state as name=value, without list elements that contain only default values.
using StateText = std::vector<std::pair<std::string, std::string>>;

template <class Machine>
StateText state_text(const Machine& machine) {
  StateText text;
  state::visit_text("", machine, [&text](const std::string& name, std::string value) {
    text.emplace_back(name, std::move(value));
  });
  return text;
}

// First difference of two states, as name=value; empty texts if they are equal.
struct StateDifference {
  std::string a;
  std::string b;
};
StateDifference first_difference(const StateText& a, const StateText& b);
// All differences, one per line: "name: old -> new", with "-" if one state lacks the field.
std::vector<std::string> differences(const StateText& a, const StateText& b);

}  // namespace rtrs::trace
