// Tests the command line of urtrs-mapd, plugin parameters, and device URIs.
#include "tools/urtrs-mapd/options.hpp"

#include <gtest/gtest.h>

#include "tools/urtrs-mapd/control.hpp"
#include "tools/urtrs-mapd/parameters.hpp"
#include "tools/urtrs-mapd/session_failure.hpp"
#include "tools/urtrs-mapd/session_report.hpp"

namespace rtrs::mapd::options_test {
namespace {

std::string why(const std::vector<std::string>& words) {
  const auto options = parse(words);
  return options ? "taken" : options.error();
}

TEST(MapdOptions, ValuesMayFollowAnEqualsSignOrASpace) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"--state=/tmp/s", "--control-group=g", "--nbdkit=/bin/true", "--end-devices",
                                 "reconnect_max=1s"},
        std::vector<std::string>{"--state", "/tmp/s", "--control-group", "g", "--nbdkit", "/bin/true",
                                 "reconnect_max=1s", "--end-devices"}}) {
    const auto options = parse(words);
    ASSERT_TRUE(options) << options.error();
    EXPECT_EQ(options->state, "/tmp/s");
    EXPECT_EQ(options->group, "g");
    EXPECT_EQ(options->nbdkit, "/bin/true");
    EXPECT_TRUE(options->end_devices);
    EXPECT_EQ(options->parameters, std::vector<std::string>{"reconnect_max=1s"});
  }
}

TEST(MapdOptions, ErrorsAreExplained) {
  EXPECT_EQ(why({"--stat=x"}), "unknown option \"--stat=x\"; did you mean \"--state=FILE\"?");
  EXPECT_EQ(why({"--zzz"}), "unknown option \"--zzz\"; see urtrs-mapd --help");
  EXPECT_EQ(why({"--state"}), "--state needs a value");
  EXPECT_EQ(why({"disk0"}),
            "\"disk0\" is not KEY=VALUE, a parameter of the nbdkit plugin; see nbdkit-urtrs --help");
  for (const std::string key : {"path", "device", "session"})
    EXPECT_EQ(why({key + "=x"}),
              key + "= cannot be set for all sessions; set it for one session with \"urtrs map\"");
  for (const std::string key : {"control", "exports", "status", "trace", "trace_size", "trace_dump"})
    EXPECT_EQ(why({key + "=x"}), key + "= cannot be set for all sessions");
}

TEST(MapdOptions, ParametersAreCheckedAsInThePlugin) {
  EXPECT_EQ(why({"tls_kesy=x"}),
            "unknown parameter 'tls_kesy'; did you mean tls_keys=? nbdkit-urtrs --help lists them all");
  EXPECT_EQ(why({"queue_depth=0"}), "queue_depth=0: expected a whole number from 1 to 1024");
  EXPECT_EQ(why({"tls=allow"}), "tls=allow: it is for servers; a client uses require or off");
  EXPECT_EQ(why({"tls_identity=web1"}), "tls_identity requires tls_keys");
  EXPECT_EQ(why({"auth_identity=web1", "fabric=verbs"}),
            "fabric= cannot be set for all sessions; set it for one session with \"urtrs map\"");
  EXPECT_EQ(why({"reconnect_min=5s", "reconnect_max=1s"}), "reconnect_min is longer than reconnect_max");
  EXPECT_EQ(why({"rdma_retry_count=3"}), "taken") << "for sessions over verbs";
  EXPECT_EQ(why({"tls_keys=/k", "auth_keys=/a"}), "taken");
}

mapping::SessionWish wish_of(const char* fabric, mapping::Credentials credentials = {}) {
  mapping::SessionWish wish;
  wish.paths = {"10.0.0.2"};
  wish.fabric = fabric;
  wish.credentials = std::move(credentials);
  return wish;
}

using Parameters = std::vector<std::string>;

TEST(MapdParameters, SessionUsesItsOwnCredentialsOrThoseOfItsFabric) {
  const Parameters both{"tls_keys=/k", "policy=rr", "auth_keys=/a"};
  EXPECT_EQ(parameters_of(wish_of("tcp"), both),
            (Parameters{"path=10.0.0.2", "port=1234", "fabric=tcp", "tls_keys=/k", "policy=rr"}));
  EXPECT_EQ(parameters_of(wish_of("verbs"), both),
            (Parameters{"path=10.0.0.2", "port=1234", "fabric=verbs", "policy=rr", "auth_keys=/a"}));
  EXPECT_EQ(parameters_of(wish_of("tcp", {{"tls", "off"}}), both),
            (Parameters{"path=10.0.0.2", "port=1234", "fabric=tcp", "tls=off", "policy=rr"}));
  EXPECT_EQ(wrong_parameters(wish_of("libfabric"), both), "");
  // A key that the fabric of the session does not support must cause an error, and must not be ignored.
  EXPECT_EQ(wrong_parameters(wish_of("verbs"), {"tls_keys=/k"}), "TLS is for the fabric tcp, not for verbs");
  EXPECT_EQ(wrong_parameters(wish_of("tcp"), {"auth_keys=/a"}),
            "auth is for the fabrics verbs and libfabric; on tcp use tls_keys, which encrypts too");
  EXPECT_EQ(wrong_parameters(wish_of("tcp"), {"rdma_device=rxe0"}), "rdma_device= requires fabric=verbs");
}

TEST(MapdParameters, ErrorsNameTheParametersOfUrtrsMapd) {
  const auto told = [](const mapping::SessionWish& wish, const Parameters& given) {
    return told_of(wish, given, wrong_parameters(wish, given));
  };
  EXPECT_EQ(told(wish_of("verbs"), {"policy=rr", "crc=on"}),
            "crc= requires fabric=tcp; urtrs-mapd was started with \"crc=on\", for every session");
  EXPECT_EQ(
      told(wish_of("verbs"), {"tls_keys=/k"}),
      "TLS is for the fabric tcp, not for verbs; urtrs-mapd was started with \"tls_keys=/k\", for every "
      "session");
  EXPECT_EQ(
      told(wish_of("verbs"), {"tls_cert=/c", "tls_key=/k", "tls_ca=/a", "policy=rr"}),
      "TLS is for the fabric tcp, not for verbs; urtrs-mapd was started with \"tls_cert=/c\" \"tls_key=/k\" "
      "\"tls_ca=/a\", for every session");
  EXPECT_EQ(told(wish_of("verbs"), {"tls_keys=/k", "crc=on"}),
            "crc= requires fabric=tcp; urtrs-mapd was started with \"crc=on\", for every session")
      << "one at a time";
  // The credential comes from "urtrs map", so the error text must not blame the command line of urtrs-mapd.
  EXPECT_EQ(told(wish_of("verbs", {{"tls_keys", "/k"}}), {"policy=rr"}),
            "TLS is for the fabric tcp, not for verbs");
  const std::string missing = "/nope: cannot be opened";
  EXPECT_EQ(told_of(wish_of("tcp"), {"policy=rr", "tls_keys=/nope"}, missing),
            missing + "; urtrs-mapd was started with \"tls_keys=/nope\", for every session");
  EXPECT_EQ(told_of(wish_of("tcp", {{"tls_keys", "/nope"}}), {"policy=rr"}, missing), missing);
  for (const auto& [fabric, one] : {std::pair{"libfabric", "provider=odd0"},
                                    {"verbs", "rdma_device=odd0"},
                                    {"libfabric", "auth_keys=odd0"}})
    EXPECT_EQ(
        told_of(wish_of(fabric), {one}, "there is no odd0"),
        std::string("there is no odd0; urtrs-mapd was started with \"") + one + "\", for every session");
  EXPECT_EQ(told_of(wish_of("tcp"), {"tls_keys=/k", "tls_identity=me"}, "something else"), "something else")
      << "so short a word stands in others";
}

TEST(MapdParameters, SessionIsRecoveredFromItsCommandLine) {
  const auto again = [](const mapping::SessionWish& wish, const Parameters& then, const Parameters& now) {
    Parameters command{"nbdkit", "plugin.so", "-f", "--threads=64", "-U", "/run/a=b/nbd-s.sock"};
    for (std::string& one : parameters_of(wish, then)) command.push_back(std::move(one));
    command.insert(command.end(), {"session=s", "exports=mapped", "control=/run/c.sock"});
    return wish_in(command, now);
  };
  mapping::SessionWish wish = wish_of("tcp");
  wish.paths = {"10.0.0.1@10.0.0.2", "10.0.1.1@10.0.1.2"};
  wish.port = 13403;
  wish.name = "s";
  EXPECT_EQ(again(wish, {}, {}), wish);
  EXPECT_EQ(again(wish, {"tls_keys=/k"}, {"tls_keys=/k"}), wish) << "credentials of all sessions";
  mapping::SessionWish own = wish;
  own.credentials = {{"tls_keys", "/k"}};
  EXPECT_EQ(again(wish, {"tls_keys=/k"}, {}), own) << "credentials that are no longer given";
  EXPECT_EQ(again(own, {"tls_keys=/l"}, {"tls_keys=/l"}), own);
  EXPECT_EQ(again(wish, {}, {"auth_keys=/a"}), std::nullopt) << "no valid session has these parameters";
  EXPECT_EQ(wish_in({}, {}), std::nullopt) << "the process has ended";
  EXPECT_EQ(wish_in({"nbdkit", "path=10.0.0.2", "port=70000"}, {}), std::nullopt);
  EXPECT_EQ(wish_in({"nbdkit", "path=10.0.0.2", "port=1x"}, {}), std::nullopt);
}

TEST(MapdShown, DeviceClosedWithAnErrorIsRejected) {
  const auto shown = [](const char* state, int error, bool kept = true) {
    return devices_in({{"devices",
                        {{{"mapping_path", "a"},
                          {"access_mode", "ro"},
                          {"state", state},
                          {"size_bytes", 512},
                          {"users", 2},
                          {"kept", kept},
                          {"errno", error}}}},
                       {"sessions", {{{"paths", {{{"address", "10.0.0.2:1234"}}}}}}}});
  };
  EXPECT_EQ(shown("open", 0).paths, Parameters{"10.0.0.2:1234"});
  EXPECT_EQ(shown("closed", 2).devices.at("a").refused, 2);
  EXPECT_EQ(shown("open", 2).devices.at("a").refused, 0);
  EXPECT_EQ(shown("closed", 0).devices.at("a").refused, 0);
  EXPECT_EQ(shown("open", 0).devices.at("a").size_bytes, 512U);
  EXPECT_EQ(shown("open", 0).devices.at("a").users, 2U);
  EXPECT_EQ(shown("open", 0).modes.at("a").mode, wire::rnbd::AccessMode::read_only);
  EXPECT_EQ(shown("open", 0).kept, Parameters{"a"});
  for (const char* gone : {"idle", "unmapping"}) EXPECT_TRUE(shown(gone, 0).kept.empty()) << gone;
  EXPECT_TRUE(shown("open", 0, false).kept.empty());
}

TEST(MapdTrouble, HintIsThatOfThePathAndNamesTheOptions) {
  const auto shown = [](const char* state, const char* reason) {
    return nlohmann::json{
        {"sessions",
         {{{"state", state},
           {"paths", {{{"pathname", "a@b"}, {"reason", reason}, {"sentence", "no"}, {"hint", "look"}}}}}}}};
  };
  EXPECT_EQ(trouble_of(shown("connected", "key_refused")).why, "");
  EXPECT_EQ(trouble_of(shown("connecting", "key_refused")).why, "path a@b: no");
  EXPECT_EQ(trouble_of(shown("connecting", "key_refused")).hint,
            "look; \"urtrs map\" takes --tls-keys, --auth-keys and the like for a session");
  EXPECT_EQ(trouble_of(shown("connecting", "connect_refused")).hint, "look");
}

TEST(MapdUri, SpecialCharactersAreEscaped) {
  EXPECT_EQ(uri_of("disk0", "/run/urtrs/nbd-s.sock"), "nbd+unix:///disk0?socket=/run/urtrs/nbd-s.sock");
  EXPECT_EQ(uri_of("a b?c&d%e/f#", "/run/nbd-h@s.sock"),
            "nbd+unix:///a%20b%3Fc%26d%25e/f%23?socket=/run/nbd-h%40s.sock");
  EXPECT_EQ(uri_of("\xc3\xa4", "/s"), "nbd+unix:///%C3%A4?socket=/s");
}

TEST(MapdOptions, KernelDevicesExcludesOtherOptions) {
  EXPECT_FALSE(parse({})->kernel_devices);
  EXPECT_TRUE(parse({"--kernel-devices"})->kernel_devices);
  for (const char* word : {"--help", "--version"}) {
    const auto asked = parse({"--kernel-devices", word});
    ASSERT_TRUE(asked) << asked.error();
    EXPECT_TRUE(asked->help || asked->version) << word;
  }
  EXPECT_EQ(parse({"--kernel-devices", "--state=x"}).error(), "--kernel-devices excludes all other options");
  EXPECT_EQ(parse({"--kernel-device"}).error(),
            "unknown option \"--kernel-device\"; did you mean \"--kernel-devices\"?");
}

}  // namespace
}  // namespace rtrs::mapd::options_test
