// Generates invalid variants of a message: each field with many wrong values.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "conformance/hostile/test_hostile.hpp"
#include "core/proto/jitter.hpp"

namespace rtrs::hostile {

struct Field {
  const char* name;
  std::size_t at;
  unsigned width;  // bytes, at most 8; little-endian
};

struct Lie {
  std::string name;
  Message bytes;
};

inline std::uint64_t load(const Message& bytes, const Field& field) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < field.width; ++i)
    value |= std::to_integer<std::uint64_t>(bytes[field.at + i]) << (8 * i);
  return value;
}
inline void store(Message& bytes, const Field& field, std::uint64_t value) {
  for (unsigned i = 0; i < field.width; ++i) bytes[field.at + i] = static_cast<std::byte>(value >> (8 * i));
}

// Replacement values for a number: 0, 1, all ones, plus 1, minus 1, only the sign bit, byte-swapped (a
// big-endian peer), and two random values.
inline std::vector<std::uint64_t> wrong_values(std::uint64_t honest, unsigned width, Jitter& random) {
  const std::uint64_t all = width == 8 ? ~std::uint64_t{0} : (std::uint64_t{1} << (8 * width)) - 1;
  std::vector<std::uint64_t> lies;
  std::uint64_t swapped = 0;
  for (unsigned i = 0; i < width; ++i) swapped = swapped << 8 | (honest >> (8 * i) & 0xff);
  for (const std::uint64_t lie : {std::uint64_t{0}, std::uint64_t{1}, all, honest + 1, honest - 1,
                                  all / 2 + 1, swapped, random.up_to(all), random.up_to(all)})
    if ((lie & all) != honest) lies.push_back(lie & all);
  return lies;
}

// Variants of the message with one wrong field each, and variants with a wrong length.
inline std::vector<Lie> lies(const Message& honest, std::initializer_list<Field> fields) {
  Jitter random(honest.size());
  std::vector<Lie> made;
  for (const Field& field : fields) {
    for (const std::uint64_t value : wrong_values(load(honest, field), field.width, random)) {
      made.push_back({std::string(field.name) + "=" + std::to_string(value), honest});
      store(made.back().bytes, field, value);
    }
  }
  for (const std::size_t size : {std::size_t{1}, honest.size() / 2, honest.size() - 1, honest.size() + 1}) {
    made.push_back({"bytes=" + std::to_string(size), honest});
    made.back().bytes.resize(size);
  }
  return made;
}

}  // namespace rtrs::hostile
