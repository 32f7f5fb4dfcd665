// Tests that the table of reasons is complete, uniform, and equal to docs/reasons.md.
#include "core/proto/reasons.hpp"

#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "core/wire/linux_errno.hpp"

namespace rtrs::reasons_test {
namespace {

std::string row_of(const ReasonText& text) {
  return "- `" + std::string(text.code) + "`, " + to_string(text.kind) + ", " +
         std::to_string(text.linux_errno) + ": **" + text.sentence + "**: " + text.hint;
}

TEST(Reasons, EachHasACodeASentenceAnErrnoAndAHint) {
  std::set<std::string> codes;
  for (std::size_t i = 1; i < kReasonCount; ++i) {
    const ReasonText& text = text_of(static_cast<Reason>(i));
    for (const char c : std::string_view(text.code))
      EXPECT_TRUE(c == '_' || std::islower(static_cast<unsigned char>(c)) != 0) << text.code;
    EXPECT_TRUE(codes.insert(text.code).second) << text.code;
    EXPECT_EQ(text_of(std::string_view(text.code)), &text);
    EXPECT_NE(text.linux_errno, 0) << text.code;
    for (const std::string_view part : {std::string_view(text.sentence), std::string_view(text.hint)}) {
      ASSERT_FALSE(part.empty()) << text.code;
      // Sentence and hint are printed inside lines and table cells.
      EXPECT_NE(part.back(), '.') << text.code;
      EXPECT_EQ(part.find_first_of("|\n\""), std::string_view::npos) << text.code;
    }
  }
}

TEST(Reasons, RejectionWithEexistIsShownAsDuplicateAddress) {
  const ReasonText told = words_of(Reason::rejected, wire::linux_errno::kEexist);
  EXPECT_STREQ(told.code, "rejected");
  EXPECT_STREQ(told.sentence, text_of(Reason::duplicate_address).sentence);
  EXPECT_STREQ(told.hint, text_of(Reason::duplicate_address).hint);
  EXPECT_STREQ(words_of(Reason::rejected, wire::linux_errno::kEconnreset).sentence,
               text_of(Reason::rejected).sentence);
  EXPECT_STREQ(words_of(Reason::peer_closed, wire::linux_errno::kEexist).sentence,
               text_of(Reason::peer_closed).sentence);
}

TEST(Reasons, RefusalByALimitNamesTheSettings) {
  const auto names = [](const char* hint, std::initializer_list<const char*> settings) {
    for (const char* setting : settings)
      EXPECT_NE(std::string_view(hint).find(setting), std::string_view::npos) << setting << " in " << hint;
  };
  names(words_of(Reason::rejected, wire::linux_errno::kEnomem).hint,
        {"max_sessions", "max_host_sessions", "connection_memory_mb", "log", "urtrs limits"});
  names(text_of(Reason::too_many_sessions).hint, {"max_sessions", "max_host_sessions", "urtrs limits"});
  names(text_of(Reason::no_resources).hint,
        {"connection_memory_mb", "ulimit -n", "ulimit -l", "urtrs limits"});
}

TEST(Reasons, KeyRefusalHintNamesTheMissingOption) {
  for (const ReasonText& told : {words_of(Reason::rejected, wire::linux_errno::kEacces),
                                 words_of(Reason::rejected, wire::linux_errno::kEacces, "verbs"),
                                 words_of(Reason::rejected, wire::linux_errno::kEacces, "libfabric/tcp"),
                                 words_of(Reason::key_refused, 0)}) {
    EXPECT_NE(std::string_view(told.hint).find("auth_keys"), std::string_view::npos) << told.hint;
    EXPECT_NE(std::string_view(told.hint).find("--auth-keys"), std::string_view::npos) << told.hint;
    EXPECT_NE(std::string_view(told.hint).find("log"), std::string_view::npos) << told.hint;
  }
  // A server's hint must not refer to its own log.
  EXPECT_EQ(std::string_view(text_of(Reason::key_refused).hint).find("log"), std::string_view::npos);
}

TEST(Reasons, TcpRejectionNamesTlsCredentialsAndNoSharedKeys) {
  const std::string_view hint = words_of(Reason::rejected, wire::linux_errno::kEacces, "tcp").hint;
  EXPECT_NE(hint.find("allow lists"), std::string_view::npos) << hint;
  EXPECT_NE(hint.find("tls_keys"), std::string_view::npos) << hint;
  EXPECT_EQ(hint.find("auth"), std::string_view::npos) << hint;
}

TEST(Reasons, NameRefusalIsExplainedByTheName) {
  const ReasonText told = words_of(Reason::name_refused, 0);
  EXPECT_STREQ(told.code, "name_refused");
  EXPECT_NE(std::string_view(told.sentence).find("session name"), std::string_view::npos) << told.sentence;
  EXPECT_NE(std::string_view(told.hint).find("another client has this name"), std::string_view::npos)
      << told.hint;
}

TEST(Reasons, UnknownNumbersAndCodesAreDetected) {
  EXPECT_STREQ(to_string(static_cast<Reason>(250)), "unknown");
  EXPECT_EQ(text_of(std::string_view("nonsense")), nullptr);
}

TEST(Reasons, DocumentListsExactlyTheTable) {
  std::ifstream in(URTRS_DOCS "/reasons.md");
  std::stringstream whole;
  whole << in.rdbuf();
  std::set<std::string> shown;
  // The reasons of devices have a separate list (core/rnbd/device_reasons_test.cpp).
  for (std::string line; std::getline(whole, line) && line != "## Devices";)
    if (line.rfind("- `", 0) == 0) shown.insert(line);
  EXPECT_EQ(shown.size(), kReasonCount - 1);
  for (std::size_t i = 1; i < kReasonCount; ++i) {
    const std::string row = row_of(text_of(static_cast<Reason>(i)));
    EXPECT_TRUE(shown.contains(row)) << "docs/reasons.md has no row\n" << row;
  }
}

}  // namespace
}  // namespace rtrs::reasons_test
