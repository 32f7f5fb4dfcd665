#include "tools/urtrsd/log_line.hpp"

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tools/urtrsd/log.hpp"

namespace rtrs::daemon::log_line_test {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::system_clock;

std::string line_of(std::string_view payload) {
  return json_line(Clock::time_point(milliseconds(1'700'000'000'042)), "warning", payload);
}

TEST(LogLine, FieldsBecomeMembersAndTheTextIsUnchanged) {
  const std::string payload =
      with_fields("a path is lost", {"web1", "ip:10.0.0.1@ip:10.0.0.2", "heartbeat_lost", 110});
  EXPECT_EQ(parts_of(payload).text, "a path is lost");
  EXPECT_EQ(line_of(payload),
            R"({"time":"2023-11-14T22:13:20.042Z","level":"warning","message":"a path is lost",)"
            R"("session":"web1","path":"ip:10.0.0.1@ip:10.0.0.2","reason":"heartbeat_lost","errno":110})");
}

TEST(LogLine, UnsetFieldsAreOmitted) {
  EXPECT_EQ(with_fields("ready", {}), "ready");
  EXPECT_EQ(line_of("ready"), R"({"time":"2023-11-14T22:13:20.042Z","level":"warning","message":"ready"})");
  EXPECT_EQ(nlohmann::json::parse(line_of(with_fields("x", {.error = 5}))).size(), 4U);
}

TEST(LogLine, PeerNamesCannotAddMembers) {
  for (const std::string& name : {std::string("\"},\n{"), std::string("a\0b", 3), std::string("\xff\xfe")}) {
    const std::string line = line_of(with_fields("session " + name, {.session = name}));
    EXPECT_EQ(line.find('\n'), std::string::npos);
    const nlohmann::json read = nlohmann::json::parse(line);
    EXPECT_EQ(read.size(), 4U) << line;
    EXPECT_EQ(read["level"], "warning");
  }
}

TEST(LogLine, TextWithANulByteIsStillValidJson) {
  const nlohmann::json read = nlohmann::json::parse(line_of(std::string_view("a\0{", 3)));
  EXPECT_EQ(read["message"], "a");
  EXPECT_EQ(read.size(), 3U);
}

TEST(LogLine, PrioritiesAreThoseOfSyslog) {
  EXPECT_EQ(priority_of("error"), "<3>");
  EXPECT_EQ(priority_of("warning"), "<4>");
  EXPECT_EQ(priority_of("info"), "<6>");
  EXPECT_EQ(priority_of("trace"), "<7>");
}

// Sets a default stack size that is too large, so that every later std::thread fails to start.
void allow_no_more_threads() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, std::size_t{1} << 46);
  if (pthread_setattr_default_np(&attributes) != 0) std::abort();
}

TEST(LogDeathTest, FinishWritesTheLogIfNoThreadCanBeStarted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto ends = [] {
    set_up_log("info", LogFormat::as_text);
    spdlog::info("the last words");
    allow_no_more_threads();
    finish_log(1);
    std::exit(7);
  };
  EXPECT_EXIT(ends(), testing::ExitedWithCode(7), "the last words");
}

TEST(LogDeathTest, SetUpThrowsIfTheLogThreadCannotBeStarted) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto begins = [] {
    allow_no_more_threads();
    try {
      set_up_log("info", LogFormat::as_text);
    } catch (const std::system_error&) {
      std::exit(7);
    }
  };
  EXPECT_EXIT(begins(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace rtrs::daemon::log_line_test
