// Tests the state file: reading a written file must return the same state, and an invalid file must be
// refused as a whole.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tools/lib/control/mapping/json_line.hpp"
#include "tools/lib/control/mapping/state_file.hpp"
#include "tools/lib/control/mapping/state_text.hpp"
#include "tools/lib/files/scratch_folder.hpp"

namespace rtrs::mapping::state_test {
namespace {

using wire::rnbd::AccessMode;

Wishes some_wishes() {
  Wishes wishes;
  wishes["host@10_0_0_2"].paths = {"10.0.0.1@10.0.0.2", "ip:10.0.1.1@ip:10.0.1.2"};
  wishes["host@10_0_0_2"].devices = {{"disk0", {}}, {"folder/a b \"c\" ä", {AccessMode::read_only}}};
  wishes["web1"].paths = {"gid:fe80::1"};
  wishes["web1"].fabric = "verbs";
  wishes["host@10_0_0_2"].name = "host-10_0_0_2-5f3a9c01";
  wishes["web1"].port = 7;
  wishes["web1"].credentials = {{"auth_keys", "/etc/urtrs/web1.key"}, {"auth_identity", "web1"}};
  wishes["web1"].devices = {{"m", {AccessMode::migration}}};
  return wishes;
}

std::string why(const nlohmann::json& state) {
  const auto parsed = parse_state(state.dump());
  return parsed ? "taken" : parsed.error().why;
}

nlohmann::json good() {
  return nlohmann::json::parse(state_text(some_wishes()));
}

TEST(StateText, WrittenStateIsReadBack) {
  const auto parsed = parse_state(state_text(some_wishes()));
  ASSERT_TRUE(parsed) << parsed.error().why;
  EXPECT_EQ(*parsed, some_wishes());
  EXPECT_EQ(parse_state(state_text({})), Wishes{});
}

TEST(StateText, InvalidMembersAreRefused) {
  auto state = good();
  state["sessions"][0]["devices"][0]["access_mode"] = "wr";
  EXPECT_EQ(why(state), "the access mode of a device must be ro, rw or migration");
  state = good();
  state["sessions"][0]["devices"][0]["device"] = "a\nb";
  EXPECT_EQ(why(state), "session \"host@10_0_0_2\": a device name must not contain control characters");
  state["sessions"][0]["devices"][0]["device"] = std::string(255, 'x');
  EXPECT_EQ(why(state), "session \"host@10_0_0_2\": a device name has 1 to 254 bytes, not 255");
  state["sessions"][0]["devices"][0]["device"] = state["sessions"][0]["devices"][1]["device"];
  EXPECT_NE(why(state).find("duplicate device"), std::string::npos);
  for (const char* name : {"../../etc/x", "a/b", "a.b", "a b", "-a", "", "a\nb", "ä"}) {
    state = good();
    state["sessions"][0]["session"] = name;
    EXPECT_NE(why(state), "taken") << name;
  }
  state = good();
  state["sessions"][1]["session"] = "host@10_0_0_2";
  EXPECT_EQ(why(state), "duplicate session \"host@10_0_0_2\"");
  for (const nlohmann::json& port : {nlohmann::json(0), nlohmann::json(65536), nlohmann::json(-1),
                                     nlohmann::json("1234"), nlohmann::json(1.5), nlohmann::json()}) {
    state = good();
    state["sessions"][0]["port"] = port;
    EXPECT_NE(why(state), "taken") << port;
  }
  for (const nlohmann::json& paths :
       {nlohmann::json::array(), nlohmann::json("10.0.0.2"), nlohmann::json({1}), nlohmann::json({"a@b@c"}),
        nlohmann::json({"10.0.0.2", "ip:10.0.0.2"}),
        nlohmann::json(std::vector<std::string>(9, "10.0.0.2"))}) {
    state = good();
    state["sessions"][0]["paths"] = paths;
    EXPECT_NE(why(state), "taken") << paths;
  }
  state = good();
  state["sessions"][0]["fabric"] = "ib";
  EXPECT_NE(why(state).find("fabric=ib: expected tcp, libfabric or verbs"), std::string::npos);
}

TEST(StateText, MissingAndUnknownMembersAreRefused) {
  for (const char* name : {"session", "paths", "port", "fabric", "devices"}) {
    auto state = good();
    state["sessions"][0].erase(name);
    EXPECT_EQ(why(state), std::string("\"") + name + "\" is missing in a session");
  }
  auto state = good();
  state["sessions"][0]["devics"] = 1;
  EXPECT_EQ(
      why(state),
      "a session has no member \"devics\", only session, name, paths, port, fabric, credentials, devices");
  state = good();
  state.erase("sessions");
  EXPECT_EQ(why(state), "\"sessions\" is missing in the file");
  state = good();
  state.erase("schema_version");
  EXPECT_NE(why(state), "taken");
}

TEST(StateText, VersionDependsOnCredentialsAndNames) {
  const auto version = [](const Wishes& wishes) {
    return nlohmann::json::parse(state_text(wishes))["schema_version"].get<int>();
  };
  Wishes wishes = some_wishes();
  EXPECT_EQ(version(wishes), 3);
  wishes["host@10_0_0_2"].name.clear();
  EXPECT_EQ(version(wishes), 2);
  wishes["web1"].credentials.clear();
  EXPECT_EQ(version(wishes), 1);
}

TEST(StateText, OlderVersionsHaveNoNamesAtServers) {
  Wishes wishes = some_wishes();
  wishes["host@10_0_0_2"].name.clear();
  for (const int version : {1, 2, 3}) {
    auto state = nlohmann::json::parse(state_text(wishes));
    state["schema_version"] = version;
    const auto parsed = parse_state(state.dump());
    ASSERT_TRUE(parsed) << parsed.error().why;
    EXPECT_EQ(*parsed, wishes);
  }
}

TEST(StateText, InvalidNameAtServerIsRefused) {
  for (const nlohmann::json& name :
       {nlohmann::json(""), nlohmann::json("a/b"), nlohmann::json("a.b"), nlohmann::json("a\nb"),
        nlohmann::json(std::string(255, 'x')), nlohmann::json(1), nlohmann::json()}) {
    auto state = good();
    state["sessions"][0]["name"] = name;
    EXPECT_NE(why(state), "taken") << name;
  }
  auto state = good();
  state["sessions"][0]["name"] = std::string(254, 'x');
  EXPECT_EQ(why(state), "taken");
}

TEST(StateText, CredentialsInvalidForThePluginAreRefused) {
  const auto refusal = [](const char* key, const nlohmann::json& value) {
    auto state = good();
    for (auto& session : state["sessions"])
      if (session["session"] == "web1") session["credentials"][key] = value;
    return why(state);
  };
  EXPECT_EQ(refusal("auth_keys", "web1.key"),
            "session \"web1\": auth_keys=web1.key: the file name must begin with \"/\"");
  EXPECT_EQ(refusal("tls_keys", "/k"), "session \"web1\": TLS is for the fabric tcp, not for verbs");
  EXPECT_EQ(refusal("auth_keys", 1), "\"auth_keys\" of the credentials is not a string");
  EXPECT_NE(refusal("queue_depth", "1").find("\"queue_depth\" is not one of tls, tls_keys, "),
            std::string::npos);
  EXPECT_NE(refusal("auth_identity", "a\nb").find("without control characters"), std::string::npos);
  EXPECT_NE(refusal("tls", "allow").find("it is for servers"), std::string::npos);
  EXPECT_EQ(refusal("auth_identity", ""), "session \"web1\": auth_identity=: is empty");
}

std::size_t line(std::string text, std::string_view before, std::string_view after) {
  const std::size_t at = text.find(before);
  EXPECT_NE(at, std::string::npos) << before;
  text.replace(at, before.size(), after);
  const auto parsed = parse_state(text);
  EXPECT_FALSE(parsed) << after;
  return parsed ? 0 : parsed.error().line;
}

// Returns the line of the first occurrence of `word`, from 1.
std::size_t line_with(const std::string& text, std::string_view word) {
  const std::size_t at = text.find(word);
  EXPECT_NE(at, std::string::npos) << word;
  return 1 + static_cast<std::size_t>(
                 std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

TEST(StateText, ErrorHasTheLineOfTheMistake) {
  const std::string text = state_text(some_wishes());
  EXPECT_EQ(line(text, "\"ro\"", "\"wr\""), line_with(text, "\"ro\""));
  EXPECT_EQ(line(text, "\"migration\"", "7"), line_with(text, "\"migration\""));
  EXPECT_EQ(line(text, "\"verbs\"", "\"ib\""), line_with(text, "\"verbs\""));
  EXPECT_EQ(line(text, "\"port\": 7,", "\"port\": 70000,"), line_with(text, "\"port\": 7,"));
  EXPECT_EQ(line(text, "\"session\": \"web1\"", "\"session\": \"a.b\""),
            line_with(text, "\"session\": \"web1\""));
  EXPECT_EQ(line(text, "\"auth_keys\": \"/etc", "\"auth_keys\": \"etc"), line_with(text, "\"credentials\""));
  EXPECT_EQ(line(text, "\"schema_version\": 3", "\"schema_version\": 0"), line_with(text, "schema_version"));
  // A missing member must be reported at the line of the object that lacks it.
  EXPECT_EQ(line(text, "\"fabric\": \"tcp\",", ""), line_with(text, "    {\n"));
  // A syntax error must be reported at the line of the first invalid byte.
  EXPECT_EQ(line(text, "\"migration\"", "migration"), line_with(text, "\"migration\""));
  EXPECT_EQ(line(text, text, ""), 1U);
  EXPECT_EQ(line(text, "\n}\n", "\n"), line_with(text, "\n}\n") + 1);
}

TEST(LineOf, FindsValuesInAnyLayout) {
  constexpr std::string_view kText =
      "{\"a\":[\n1,\n{\"b\":\"}]\\\",\",\n\"c\":[[],\n\"x\"]}],\n\"d\":null,\n\"e\":true}";
  EXPECT_EQ(line_of(kText, {}), 1U);
  EXPECT_EQ(line_of(kText, {"a", "0"}), 2U);
  EXPECT_EQ(line_of(kText, {"a", "1", "b"}), 3U);
  EXPECT_EQ(line_of(kText, {"a", "1", "c"}), 4U);
  EXPECT_EQ(line_of(kText, {"a", "1", "c", "1"}), 5U);
  EXPECT_EQ(line_of(kText, {"a", "1", "nothing"}), 3U) << "line of the enclosing value";
  EXPECT_EQ(line_of(kText, {"d"}), 6U);
  EXPECT_EQ(line_of(kText, {"e"}), 7U);
}

TEST(StateText, LaterVersionIsNotDamage) {
  auto state = good();
  state["schema_version"] = kStateVersion + 1;
  state["new"] = 1;
  const auto parsed = parse_state(state.dump());
  ASSERT_FALSE(parsed);
  EXPECT_TRUE(parsed.error().newer);
  EXPECT_FALSE(parse_state("{}").error().newer);
}

TEST(StateText, HostileFileIsBounded) {
  auto state = good();
  for (int i = 0; i < 10000; ++i)
    state["sessions"][0]["devices"].push_back({{"device", std::to_string(i)}, {"access_mode", "ro"}});
  EXPECT_EQ(why(state), "a session has more than 64 devices");
  state = good();
  for (int i = 0; i < 100; ++i) {
    state["sessions"].push_back(state["sessions"][0]);
    state["sessions"].back()["session"] = "s" + std::to_string(i);
  }
  EXPECT_EQ(why(state), "there are more than 64 sessions");
  EXPECT_FALSE(parse_state(std::string(100'000, '[')));
  EXPECT_FALSE(parse_state(std::string(kMaxStateBytes + 1, ' ')));
  EXPECT_FALSE(parse_state(""));
  EXPECT_FALSE(parse_state("[]"));
}

RC_GTEST_PROP(StateTextProperty, ChangedFileIsValidOrRefused, ()) {
  std::string text = state_text(some_wishes());
  const auto at = *rc::gen::inRange<std::size_t>(0, text.size());
  if (*rc::gen::arbitrary<bool>())
    text.resize(at);
  else
    text[at] = static_cast<char>(*rc::gen::inRange(0, 256));
  const auto parsed = parse_state(text);
  if (parsed) RC_ASSERT(!check(*parsed));
}

TEST(Wishes, SessionNameIsMadeOfHostAndServer) {
  EXPECT_EQ(session_name("web1", "10.0.0.2"), "web1@10_0_0_2");
  EXPECT_EQ(session_name("web1", "fd00::2"), "web1@fd00--2");
  EXPECT_EQ(session_name("web1", "storage1.example.org"), "web1@storage1_example_org");
  const std::string longest = session_name(std::string(64, 'h'), std::string(64, 's'));
  EXPECT_EQ(longest.size(), kMaxSessionName);
  for (const char* server : {"", "../x", "a\nb", "\xc3\xa4", "-x"})
    for (const char* host : {"h", "-h", "h.example"})
      EXPECT_FALSE(check_session_name(session_name(host, server)));
}

TEST(Wishes, DifferentHostsAndServersHaveDifferentNames) {
  const std::string same(40, 'x');
  std::set<std::string> names;
  const std::vector<std::pair<std::string, std::string>> all{
      {"h", "10.0.0.2"},      {"h", "10_0_0_2"},  {"h", "10@0@0@2"},   {"h", "10.0.0.2 "},
      {"h", same + ".a"},     {"h", same + ".b"}, {"h", same + ".ab"}, {same + "1", "server"},
      {same + "2", "server"}, {same, "server"}};
  for (const auto& [host, server] : all) names.insert(session_name(host, server));
  EXPECT_EQ(names.size(), all.size());
}

TEST(Wishes, EqualPathsInOtherSpellingsAreEqual) {
  SessionWish one;
  one.paths = {"10.0.0.1@10.0.0.2", "10.0.1.2"};
  SessionWish other = one;
  other.paths = {"ip:10.0.1.2:1234", "ip:10.0.0.1,ip:10.0.0.2"};
  EXPECT_TRUE(same_paths(one, other));
  other.paths = {"10.0.0.1@10.0.0.2", "10.0.1.3"};
  EXPECT_FALSE(same_paths(one, other));
  other.paths = {"10.0.0.1@10.0.0.2"};
  EXPECT_FALSE(same_paths(one, other));
  other = one;
  other.port = 7;
  EXPECT_FALSE(same_paths(one, other));
  other = one;
  other.fabric = "verbs";
  EXPECT_FALSE(same_paths(one, other));
}

class StateFile : public testing::Test {
 protected:
  std::string path(const char* name) const { return (folder_.path() / name).string(); }
  void put(const char* name, const std::string& text) const { std::ofstream(path(name)) << text; }
  tools::ScratchFolder folder_;
};

TEST(Wishes, DifferenceIsDescribed) {
  SessionWish there;
  there.paths = {"10.0.0.1@10.0.0.2", "10.0.1.2"};
  SessionWish asked = there;
  EXPECT_EQ(describe_difference(asked, there), "");
  asked.port = 7;
  EXPECT_EQ(describe_difference(asked, there), "uses port 1234, not 7");
  asked.fabric = "verbs";
  EXPECT_EQ(describe_difference(asked, there), "uses the fabric tcp, not verbs");
  asked = there;
  asked.paths.pop_back();
  EXPECT_EQ(describe_difference(asked, there), "has other paths: 10.0.0.1@10.0.0.2 10.0.1.2");
}

TEST_F(StateFile, IsReplacedAtomically) {
  EXPECT_EQ(read_state(path("state")), tl::unexpected(ENOENT));
  ASSERT_EQ(write_state(path("state"), "first"), 0);
  put("state.new", "what a killed process left");
  ASSERT_EQ(write_state(path("state"), "second"), 0);
  EXPECT_EQ(read_state(path("state")), "second");
  EXPECT_FALSE(std::filesystem::exists(path("state.new")));
  struct stat found {};
  ASSERT_EQ(::stat(path("state").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777U, 0600U);
  EXPECT_EQ(write_state(path("nowhere/state"), "x"), ENOENT);
}

TEST_F(StateFile, OnlyRegularFilesOfBoundedSizeAreRead) {
  put("target", "x");
  std::filesystem::create_symlink(path("target"), path("link"));
  EXPECT_EQ(read_state(path("link")), tl::unexpected(ELOOP));
  EXPECT_EQ(read_state(folder_.path().string()), tl::unexpected(EISDIR));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_EQ(read_state(path("pipe")), tl::unexpected(EINVAL));
  put("large", std::string(kMaxStateBytes + 1, ' '));
  EXPECT_EQ(read_state(path("large")), tl::unexpected(EFBIG));
  put("state.new", "");
  std::filesystem::remove(path("state.new"));
  std::filesystem::create_symlink(path("target"), path("state.new"));
  ASSERT_EQ(write_state(path("state"), "mine"), 0);
  EXPECT_EQ(read_state(path("target")), "x") << "nothing is written through a link";
}

TEST_F(StateFile, DamagedFileIsRenamed) {
  for (const char* name : {"state.damaged", "state.damaged-2", "state.damaged-3"}) {
    put("state", name);
    EXPECT_EQ(set_aside(path("state")), path(name));
    EXPECT_FALSE(std::filesystem::exists(path("state")));
  }
  EXPECT_EQ(read_state(path("state.damaged")), "state.damaged");
  EXPECT_EQ(set_aside(path("state")), tl::unexpected(ENOENT));
}

TEST(MayBeState, FilesOfOtherProgramsAreNoState) {
  using namespace std::string_view_literals;
  for (const std::string_view ours : {""sv, "\n"sv, "\r\n{"sv, "{"sv, " {\"version\""sv, "\0\0\0"sv})
    EXPECT_TRUE(may_be_state(ours)) << ours;
  for (const std::string_view other : {"["sv, "a"sv, "\0\0an image"sv,
                                       "\x7f"
                                       "ELF"sv})
    EXPECT_FALSE(may_be_state(other)) << other;
}

}  // namespace
}  // namespace rtrs::mapping::state_test
