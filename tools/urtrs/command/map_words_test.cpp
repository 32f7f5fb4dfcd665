// Tests the arguments of map, unmap and remap, and the options of map.
#include "tools/urtrs/command/map_words.hpp"

#include <gtest/gtest.h>

namespace rtrs::admin::map_words_test {
namespace {

using Words = std::vector<std::string>;

MapWords mapped(const Words& words) {
  const auto parsed = map_words(words);
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
  return parsed.value_or(MapWords{});
}

TEST(MapWords, AcceptsTheSyntaxOfTheRnbdTool) {
  const MapWords words = mapped({"ram0", "from", "srv1", "ip:10.0.0.1@ip:10.0.0.2", "ip:10.0.1.2", "ro"});
  EXPECT_EQ(words.device, "ram0");
  EXPECT_EQ(words.from, "srv1");
  EXPECT_EQ(words.paths, (Words{"ip:10.0.0.1@ip:10.0.0.2", "ip:10.0.1.2"}));
  EXPECT_EQ(words.mode, "ro");
}

TEST(MapWords, FromMayBeOmittedAndTheModeMayBeAnywhere) {
  EXPECT_EQ(mapped({"ram0", "srv1"}).from, "srv1");
  EXPECT_EQ(mapped({"ram0", "from", "srv1"}).mode, "");
  const MapWords words = mapped({"ram0", "from", "srv1", "migration", "10.0.0.2"});
  EXPECT_EQ(words.mode, "migration");
  EXPECT_EQ(words.paths, Words{"10.0.0.2"});
  EXPECT_EQ(mapped({"ro", "from", "rw"}).from, "rw") << "a device and a server with unusual names";
}

TEST(MapWords, ErrorsAreExplained) {
  EXPECT_EQ(map_words({"ram0", "frm", "s"}).error().hint, "did you mean \"from\"?");
  EXPECT_EQ(map_words({"ram0", "to", "s"}).error().hint, "did you mean \"from\"?");
  EXPECT_EQ(map_words({"from", "s"}).error().message, "the device is missing before \"from\"");
  EXPECT_EQ(mapped({"from", "from", "s"}).device, "from");
  EXPECT_EQ(mapped({"ram0", "form"}).from, "form") << "a host may have this name";
  EXPECT_EQ(mapped({"ram0", "from", "form", "10.0.0.2"}).from, "form");
  EXPECT_EQ(map_words({"ram0", "from"}).error().message, "the server is missing after \"from\"");
  EXPECT_EQ(map_words({"ram0", "from", "s", "ro", "rw"}).error().message, "\"ro\" and \"rw\" are both given");
  EXPECT_EQ(map_words({"ram0", "from", "s", "ro", "ro"}).error().message, "\"ro\" and \"ro\" are both given");
}

TEST(MapWords, MisspeltModeIsNotTakenForAPath) {
  for (const auto& [word, meant] :
       {std::pair{"wr", "rw"}, {"RO", "ro"}, {"rw,", "rw"}, {"migratoin", "migration"}}) {
    const auto wrong = map_words({"ram0", "from", "10.0.0.2", word});
    ASSERT_FALSE(wrong) << word;
    EXPECT_EQ(wrong.error().message,
              "\"" + std::string(word) + "\" is neither an address nor an access mode");
    EXPECT_EQ(wrong.error().hint, "did you mean \"" + std::string(meant) + "\"?");
  }
  EXPECT_EQ(map_words({"ram0", "from", "10.0.0.2", "exclusive"}).error().hint,
            "a mode is ro, rw or migration");
  EXPECT_EQ(mapped({"ram0", "from", "s", "fe80::1", "@10.0.0.2"}).paths, (Words{"fe80::1", "@10.0.0.2"}))
      << "urtrs-mapd knows addresses";
}

TEST(MapWords, InvalidOptionsAreRejectedWithoutAServer) {
  const auto told = [](const std::string& option, const std::string& value) {
    const auto wrong = wrong_map_options(parse({"map", "d", "s", option + "=" + value})->options.map);
    return wrong ? wrong->message + "; " + wrong->hint : "";
  };
  for (const std::string port : {"0", "65536", "x", "-1", "1x", "999999999999999999999"})
    EXPECT_EQ(told("--port", port),
              "--port: expected a whole number from 1 to 65535, got \"" + port + "\"; ");
  EXPECT_EQ(told("--port", "65535"), "");
  EXPECT_EQ(told("--fabric", "vrbs"),
            "--fabric: expected tcp, libfabric or verbs, got \"vrbs\"; did you mean \"verbs\"?");
  EXPECT_EQ(told("--fabric", "verbs"), "");
  EXPECT_EQ(told("--tls-kernel", "yes"), "--tls-kernel: expected on or off, got \"yes\"; ");
  for (const std::string device :
       {"/dev/sda", "sda", "nbd", "nbd0p1", "/dev/nbdx", "/dev/mapper/nbd0", "nbd100000"})
    EXPECT_EQ(told("--nbd", device), "--nbd takes /dev/nbdN, a device of the kernel's NBD client, not \"" +
                                         device + "\"; or --nbd alone, which takes a free one");
  for (const char* device : {"auto", "nbd0", "/dev/nbd15", "nbd99999"})
    EXPECT_EQ(told("--nbd", device), "") << device;
}

TEST(MapWords, UnmapAndRemapArgumentsAreParsed) {
  const auto forced = unmap_words("unmap", {"ram0", "s", "force"});
  ASSERT_TRUE(forced);
  EXPECT_EQ(forced->session, "s");
  EXPECT_TRUE(forced->force);
  EXPECT_TRUE(unmap_words("unmap", {"ram0", "force"})->force);
  EXPECT_EQ(unmap_words("unmap", {"ram0", "force"})->session, "");
  EXPECT_EQ(unmap_words("remap", {"ram0", "force"})->session, "force");
  EXPECT_EQ(unmap_words("unmap", {"ram0", "force", "force"})->session, "force")
      << "a session may have this name";
  EXPECT_EQ(unmap_words("unmap", {"ram0", "s", "now"}).error().message,
            "\"now\" is not an argument of unmap; the last may be \"force\"");
}

TEST(MapWords, OptionsBelongToMapOnly) {
  const auto command = parse({"map", "d", "from", "s", "--run", "fio $uri", "--port=7", "--fabric", "verbs",
                              "--nbd", "--idempotent", "--nbd-wait=20"});
  ASSERT_TRUE(command) << command.error().message;
  EXPECT_EQ(command->arguments, (Words{"d", "from", "s"}));
  EXPECT_EQ(command->options.map,
            (MapOptions{"fio $uri", "auto", "", {{"port", "7"}, {"fabric", "verbs"}}, true, 20}));
  EXPECT_EQ(parse({"map", "d", "s", "--nbd-wait=0"}).error().message,
            "--nbd-wait: expected seconds, 1 to 86400, got \"0\"");
  EXPECT_EQ(parse({"map", "d", "s", "--nbd-wait=1.5"}).error().message,
            "--nbd-wait: expected seconds, 1 to 86400, got \"1.5\"");
  EXPECT_EQ(parse({"map", "d", "s", "--nbd-wait=86401"}).error().message,
            "--nbd-wait: expected seconds, 1 to 86400, got \"86401\"");
  EXPECT_EQ(parse({"map", "d", "from", "s", "--nbd-wait=86400"})->options.map.nbd_wait, 86400U);
  EXPECT_EQ(parse({"map", "d", "s", "--nbd=/dev/nbd3"})->options.map.nbd, "/dev/nbd3");
  EXPECT_EQ(parse({"session", "list", "--port=7"}).error().message,
            "--run, --nbd, --nbd-wait, --port, --fabric, --session, --idempotent and the tls and auth "
            "options are for \"urtrs map\"");
  EXPECT_EQ(parse({"map", "d", "s", "--run="}).error().message, "--run needs a value");
  EXPECT_EQ(parse({"map", "d"}).error().message,
            "urtrs map takes DEVICE from SERVER [ADDRESS]... [MODE], not 1 argument");
}

TEST(MapWords, CredentialOptionsHaveTheNamesOfPluginParameters) {
  const auto command =
      parse({"map", "d", "s", "--tls=require", "--tls-keys", "web1.key", "--auth-identity=web1"});
  ASSERT_TRUE(command) << command.error().message;
  EXPECT_EQ(command->options.map.parameters,
            (std::map<std::string, std::string>{
                {"tls", "require"}, {"tls_keys", "web1.key"}, {"auth_identity", "web1"}}));
  EXPECT_EQ(parse({"map", "d", "s", "--tls-kesy=x"}).error().hint, "did you mean \"--tls-keys\"?");
  EXPECT_EQ(parse({"map", "d", "s", "--tls-keys="}).error().message, "--tls-keys needs a value");
  EXPECT_NE(parse({"unmap", "d", "--auth-keys=x"}).error().message.find("are for \"urtrs map\""),
            std::string::npos);
}

TEST(MapWords, MapAndMappingAreDistinguished) {
  EXPECT_EQ(parse({"map", "d", "s"})->verb, "map");
  EXPECT_EQ(parse({"mapping"})->noun, "mapping");
  EXPECT_EQ(parse({"mapp", "l"})->verb, "list");
}

}  // namespace
}  // namespace rtrs::admin::map_words_test
