// Random events and small traces, for the tests of this folder and of the tools.
#pragma once
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "core/record/fields.hpp"
#include "core/record/kinds.hpp"
#include "core/record/schema.hpp"
#include "core/record/writer.hpp"
#include "tools/lib/trace/reader/reader.hpp"

namespace rtrs::trace::test {

template <class Field>
Field random_number() {
  using Limits = std::numeric_limits<Field>;
  return *rc::gen::oneOf(rc::gen::arbitrary<Field>(), rc::gen::element(Limits::min(), Limits::max()),
                         rc::gen::inRange(Limits::min(), Limits::max()));
}

// Returns a copy of the bytes that is never freed.
inline wire::Bytes borrowed(std::string bytes) {
  static std::set<std::string> all;
  return std::as_bytes(std::span(*all.insert(std::move(bytes)).first));
}

template <class T>
T random_event() {
  T value{};
  if constexpr (Timed<T>) value.now = random_number<Nanos>();
  visit_leaves(value, [](auto& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, wire::Uuid>) {
      for (auto& byte : field.bytes) byte = *rc::gen::arbitrary<std::uint8_t>();
    } else if constexpr (std::is_same_v<Field, wire::Bytes>) {
      field = borrowed(
          *rc::gen::oneOf(rc::gen::arbitrary<std::string>(), rc::gen::just(std::string(kMaxHead, '\xa5'))));
    } else if constexpr (IsInlineBlob<Field>) {
      const auto size = *rc::gen::inRange<std::size_t>(0, Field::kCapacity + 1);
      const std::string bytes(size, Field::kIsText ? '\\' : '\xa5');
      field.assign(bytes.data(), bytes.size());
    } else if constexpr (std::is_same_v<Field, bool>) {
      field = *rc::gen::arbitrary<bool>();
    } else if constexpr (std::is_enum_v<Field>) {
      field = static_cast<Field>(*rc::gen::arbitrary<std::uint8_t>());
    } else {
      field = random_number<Field>();
    }
  });
  return value;
}

template <class T>
std::string encoded_fields(const T& value) {
  std::vector<std::uint8_t> bytes(kMaxBuiltinRecord + kMaxHead);
  return {reinterpret_cast<const char*>(bytes.data()),
          static_cast<std::size_t>(put_fields(bytes.data(), value) - bytes.data())};
}

struct Written {
  KindId kind = 0;
  InstanceId instance = 0;
  Nanos time = 0;
  std::string fields;
  bool operator==(const Written&) const = default;
};
inline std::ostream& operator<<(std::ostream& out, const Written& one) {
  return out << "kind " << one.kind << " instance " << one.instance << " time " << one.time;
}

template <class T>
void write_random(Writer& writer, Written& one) {
  const T value = random_event<T>();
  if constexpr (Timed<T>) one.time = value.now;
  one.fields = encoded_fields(value);
  if constexpr (std::is_same_v<T, Snapshot> || KindOf<T>::category == EventClass::note) {
    RC_ASSERT(writer.append_note(one.instance, value) == 0);
  } else {
    RC_ASSERT(writer.append(kKindOf<T>, one.instance, &value) == 0);
  }
}

// Appends one random event of the kind to the trace. Adds the record that a reader must return for it to
// `written`.
inline void write_random(Writer& writer, KindId kind, std::vector<Written>& written) {
  Written one;
  one.kind = kind;
  one.instance = random_number<InstanceId>();
  one.time = written.empty() ? 0 : written.back().time;
  switch (kind) {
#define RTRS_TRACE_RANDOM(number, event_class, type) \
  case number:                                       \
    write_random<type>(writer, one);                 \
    break;
    RTRS_TRACE_EVENTS(RTRS_TRACE_RANDOM)
    RTRS_TRACE_LONG(RTRS_TRACE_RANDOM)
#undef RTRS_TRACE_RANDOM
    default:
      RC_FAIL("no such kind");
  }
  written.push_back(std::move(one));
}

inline Header plain_header() {
  Header header;
  header.origin = {"test 1.0", "client", "none", 7, {"depth=4", "policy=round-robin"}};
  header.schema = builtin_schema();
  return header;
}

struct ReadBack {
  Reader::Status status = Reader::Status::ok;
  Reader::Stop stop;
  Header header;
  std::vector<Written> records;
  std::uint64_t chain_hash = 0;
  std::uint64_t blocks = 0;
};

inline ReadBack read_all(std::string_view bytes) {
  MemorySource source(bytes);
  Reader reader(source);
  ReadBack back;
  back.status = reader.open();
  Record record;
  while (back.status == Reader::Status::ok && (back.status = reader.next(record)) == Reader::Status::ok) {
    back.records.push_back({record.event->id, record.instance, record.time, std::string(record.fields)});
  }
  back.stop = reader.stop();
  back.header = reader.header();
  back.chain_hash = reader.chain_hash();
  back.blocks = reader.blocks();
  return back;
}

// Returns a trace of three blocks with `records` deterministic events each.
inline std::string small_trace(unsigned records, std::vector<std::size_t>* block_ends = nullptr) {
  std::string bytes;
  Writer writer(std::make_unique<StringSink>(bytes));
  EXPECT_EQ(writer.start(plain_header()), 0);
  for (unsigned block = 0; block < 3; ++block) {
    if (block_ends != nullptr) block_ends->push_back(bytes.size());
    for (unsigned i = 0; i < records; ++i) {
      const ImmReceived imm{1000 * block + i, {1, 2, 3}, 77 + i};
      EXPECT_EQ(writer.append(kKindOf<ImmReceived>, 5, &imm), 0);
    }
    EXPECT_EQ(writer.flush(), 0);
  }
  if (block_ends != nullptr) block_ends->push_back(bytes.size());
  EXPECT_EQ(writer.finish(), 0);
  return bytes;
}

}  // namespace rtrs::trace::test
