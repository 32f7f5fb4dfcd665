#include "tools/lib/trace/reader/json.hpp"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <sstream>

#include "tools/lib/trace/reader/test_traces.hpp"

namespace rtrs::trace::test::json_test {
namespace {

std::string to_json(std::string_view bytes) {
  MemorySource source(bytes);
  Reader reader(source);
  Reader::Status status = reader.open();
  std::string out = header_json(reader.header()) + '\n';
  Record record;
  while (status == Reader::Status::ok && (status = reader.next(record)) == Reader::Status::ok) {
    out += record_json(record, reader.header().schema) + '\n';
  }
  if (status == Reader::Status::end) out += end_json(reader.records(), reader.chain_hash()) + '\n';
  return out;
}

// Converts JSON lines to a trace. `error` is empty on success.
std::string from_json(const std::string& text, std::string& error) {
  std::string bytes;
  JsonImporter importer(std::make_unique<StringSink>(bytes));
  std::istringstream lines(text);
  std::string line;
  while (error.empty() && std::getline(lines, line)) error = importer.line(line);
  if (error.empty()) error = importer.finish();
  return bytes;
}

RC_GTEST_PROP(Json, RoundTripGivesTheSameBytes, ()) {
  std::string bytes;
  Writer writer(std::make_unique<StringSink>(bytes));
  Header header = plain_header();
  header.flags = *rc::gen::arbitrary<std::uint32_t>();
  header.origin.tool = clean_text(*rc::gen::arbitrary<std::string>());
  header.origin.seed = random_number<std::uint64_t>();
  header.start = random_number<std::uint64_t>();
  header.origin.taken = random_number<std::uint64_t>();
  header.origin.wall = random_number<std::uint64_t>();
  RC_ASSERT(writer.start(header) == 0);
  std::vector<Written> written;
  for (const EventInfo& event : builtin_schema().events) write_random(writer, event.id, written);
  const bool complete = *rc::gen::arbitrary<bool>();
  RC_ASSERT((complete ? writer.finish() : writer.flush()) == 0);

  std::string error;
  const std::string again = from_json(to_json(bytes), error);
  RC_ASSERT(error == "");
  RC_ASSERT(again == bytes);
}

TEST(Json, OneLinePerRecord) {
  const std::string text = to_json(small_trace(1));
  EXPECT_NE(
      text.find(
          "{\"seq\":1,\"time\":1000,\"instance\":5,\"event\":\"ImmReceived\",\"fields\":{\"key.path\":1,"
          "\"key.con\":2,\"key.epoch\":3,\"imm\":77}}\n"),
      std::string::npos)
      << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 5);
}

TEST(Json, TextsWithSpecialCharactersRoundTrip) {
  Header header = plain_header();
  header.schema.events.push_back({399, static_cast<EventClass>(9), "Later", {}});
  header.schema.events.push_back({400, EventClass::control, "Note", {{"text", FieldType::text, 0, 0}}});
  std::string bytes;
  Writer writer(std::make_unique<StringSink>(bytes));
  ASSERT_EQ(writer.start(header), 0);
  const std::string all = std::string("\0\1\n\"\\/\x7f", 7) + "\xf0\x9f\x90\xa7";
  const Value value[] = {{0, all}};
  ASSERT_EQ(writer.append_values(header.schema.events.back(), 1, 1, value), 0);
  ASSERT_EQ(writer.finish(), 0);
  std::string error;
  EXPECT_EQ(from_json(to_json(bytes), error), bytes);
  EXPECT_EQ(error, "");
}

std::string broken(const std::string& from, const std::string& to) {
  std::string text = to_json(small_trace(1));
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos);
  text.replace(at, from.size(), to);
  std::string error;
  from_json(text, error);
  return error;
}

TEST(Json, RefusesInvalidLines) {
  EXPECT_EQ(broken("\"key.path\":1", "\"key.path\":4294967296"), "a field is out of range");
  EXPECT_EQ(broken("\"key.path\":1", "\"key.path\":-1"), "field key.path has a wrong value");
  EXPECT_EQ(broken("\"key.path\":1", "\"key.path\":1.5"), "field key.path has a wrong value");
  EXPECT_EQ(broken("\"key.path\":1,", ""), "the event has other fields");
  EXPECT_EQ(broken("\"seq\":2", "\"seq\":3"), "seq does not follow the line before");
  EXPECT_EQ(broken("\"instance\":5", "\"instance\":70000"), "instance is out of range");
  EXPECT_EQ(broken("\"event\":\"ImmReceived\"", "\"event\":\"Imm\""),
            "the header does not describe the event");
  EXPECT_EQ(broken("\"imm\":77", "\"imm\":78"), "the chain hash does not agree with the records");
  EXPECT_EQ(broken("\"major\":1", "\"major\":9"), "the format is of another major version");
  EXPECT_EQ(broken("\"records\":3", "\"records\":2"), "the end counts other records");
  EXPECT_EQ(broken("\"class\":\"control\"", "\"class\":\"other\""), "an event is of an unknown class");
  EXPECT_EQ(broken("{\"seq\":0", "{\"seq\":"), "the line is not valid JSON");
  std::string error;
  from_json("", error);
  EXPECT_EQ(error, "the header line is missing");
}

// Numbers are neither truncated nor rounded: 65537 must not become version 1.
TEST(Json, RefusesHeaderNumbersThatAreFractionalOrTooLarge) {
  for (const char* number : {"65537", "-1", "1.5", "9.1e24", "9111111111111111111111110", "\"1\"", "null"}) {
    const std::string error = broken("\"major\":1", std::string("\"major\":") + number);
    EXPECT_NE(error.find(" is not an integer from 0 to 65535"), std::string::npos) << number << ": " << error;
  }
  EXPECT_NE(broken("\"seq\":2", "\"seq\":2e30").find("is not an integer"), std::string::npos);
  EXPECT_NE(broken("\"records\":3", "\"records\":1e30").find("is not an integer"), std::string::npos);
}

}  // namespace
}  // namespace rtrs::trace::test::json_test
