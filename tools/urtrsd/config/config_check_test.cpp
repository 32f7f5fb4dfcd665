// Tests of urtrsd --check-config.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "backends/platform/tls/keys_file.hpp"
#include "tools/urtrsd/config/config.hpp"
#include "tools/urtrsd/storage/test_files.hpp"

namespace rtrs::daemon::config_check_test {
namespace {

const char* no_variable(const char*) {
  return nullptr;
}

TEST(ConfigCheck, CheckWarnsAboutAnUnknownGroup) {
  const CommandLine check =
      parse_command_line({"--check-config", "-e", "a=mem:1M", "--port=0", "--control-group=no such group"});
  EXPECT_EQ(check.exit_code, 0);
  EXPECT_NE(check.errors.find("warning: control_group: no group named \"no such group\""), std::string::npos)
      << check.errors;
  EXPECT_EQ(
      parse_command_line({"--check-config", "-e", "a=mem:1M", "--port=0", "--control-group=root"}).errors,
      "");
}

TEST(ConfigCheck, CheckTriesTheListenAddresses) {
  // 192.0.2.0/24 is reserved for documentation, so no host has this address.
  const CommandLine absent = parse_command_line({"--check-config", "-e", "a=mem:1M", "--listen=192.0.2.1"});
  EXPECT_EQ(absent.exit_code, 3);
  EXPECT_EQ(absent.errors,
            "urtrsd: cannot listen on 192.0.2.1 port 1234: this host does not have this address; 'ip "
            "address' lists its addresses\n");
  const int taken = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(taken, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(::listen(taken, 1), 0);
  ASSERT_EQ(::getsockname(taken, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const CommandLine in_use = parse_command_line(
      {"--check-config", "-e", "a=mem:1M", "--port", std::to_string(ntohs(address.sin_port))});
  ::close(taken);
  EXPECT_EQ(in_use.exit_code, 0);
  EXPECT_EQ(in_use.errors.rfind("urtrsd: warning: cannot listen on 127.0.0.1 port ", 0), 0U) << in_use.errors;
}

TEST(ConfigCheck, CheckReportsConflictingAddresses) {
  const auto check = [](const std::string& one, const std::string& two, const std::string& port) {
    return parse_command_line({"--check-config", "-e", "a=mem:1M", "-l", one, "-l", two, "--port", port});
  };
  for (const auto& [one, two] :
       {std::pair{"0.0.0.0", "127.0.0.1"}, {"127.0.0.1", "0.0.0.0"}, {"::1", "::"}}) {
    const CommandLine both = check(one, two, "1234");
    EXPECT_EQ(both.exit_code, 3);
    EXPECT_NE(both.errors.find("cannot listen on " + std::string(two) + " port 1234: " + one + " is to be "),
              std::string::npos)
        << both.errors;
  }
  const auto conflicts = [&](const std::string& one, const std::string& two) {
    const std::string errors = check(one, two, "1234").errors;
    int count = 0;
    for (std::size_t at = 0; (at = errors.find("is to be listened on too", at)) != errors.npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(conflicts("0.0.0.0", "127.0.0.1"), 1) << "the first of two conflicting addresses is used";
  EXPECT_EQ(conflicts("0.0.0.0", "::1"), 0);
  EXPECT_EQ(conflicts("127.0.0.1", "127.0.0.2"), 0);
  EXPECT_EQ(conflicts("0.0.0.0", "::ffff:127.0.0.1"), 1);
  EXPECT_EQ(conflicts("0:0::0", "::1"), 1) << "in any spelling";
  int six_only = 0;
  std::ifstream("/proc/sys/net/ipv6/bindv6only") >> six_only;
  EXPECT_EQ(conflicts("::", "127.0.0.1"), six_only == 0 ? 1 : 0);
  EXPECT_EQ(conflicts("0.0.0.0", "::"), six_only == 0 ? 1 : 0);
  EXPECT_EQ(check("0.0.0.0", "127.0.0.1", "0").errors, "") << "each address gets a different port";
  EXPECT_EQ(check("127.0.0.2", "::ffff:127.0.0.1", "0").errors, "") << "the mapped address is 127.0.0.1";
}

TEST(ConfigCheck, CheckReportsProblemsOfTheHost) {
  const auto host = [](const DaemonConfig& config) {
    StartTrial trial;
    trial.engine = "threads";
    trial.warnings.emplace_back("it is slow");
    if (config.fabric == "verbs") trial.errors.emplace_back("cannot use it: no device");
    return trial;
  };
  const auto check = [&](const std::string& fabric) {
    return parse_command_line({"--check-config", "-e", "a=mem:1M", "--port=0", "--fabric=" + fabric},
                              no_variable, host);
  };
  const CommandLine verbs = check("verbs");
  EXPECT_EQ(verbs.exit_code, 3);
  EXPECT_EQ(verbs.output, "");
  EXPECT_EQ(verbs.errors, "urtrsd: warning: it is slow\nurtrsd: cannot use it: no device\n");
  const CommandLine tcp = check("tcp");
  EXPECT_EQ(tcp.exit_code, 0);
  EXPECT_EQ(tcp.output, "urtrsd: storage engine: threads\nurtrsd: the configuration is valid\n");
  EXPECT_EQ(tcp.errors, "urtrsd: warning: it is slow\n");
}

TEST(ConfigCheck, CheckWarnsIfTheControlSocketCannotBeCreated) {
  TestDirectory directory;
  const auto check = [](const std::string& control) {
    return parse_command_line({"--check-config", "-e", "a=mem:1M", "--port=0", "--control=" + control});
  };
  const CommandLine none = check(directory / "none/socket");
  EXPECT_EQ(none.exit_code, 0);
  EXPECT_EQ(none.errors, "urtrsd: warning: control: no socket can be made in \"" + directory.path() +
                             "/none\": No such file or directory (2), so urtrs cannot reach this urtrsd "
                             "until this is fixed\n");
  for (const std::string& control : {directory / "socket", std::string("auto"), std::string("socket")})
    EXPECT_EQ(check(control).errors, "") << control;
}

TEST(ConfigCheck, CheckWarnsAboutALockedImage) {
  TestDirectory directory;
  const std::string image = directory.make_file("a.img", 4096);
  const auto catalog = Catalog::create({{"a", image}}, std::nullopt);
  ASSERT_TRUE(catalog);
  const auto held = (*catalog)->open("s", "a", AccessMode::read_only);
  ASSERT_TRUE(held);
  const CommandLine check = parse_command_line({"--check-config", "-e", "a=" + image, "--port=0"});
  EXPECT_EQ(check.exit_code, 0);
  EXPECT_EQ(check.errors.rfind("urtrsd: warning: export \"a\" (\"" + image + "\") is in use by ", 0), 0U)
      << check.errors;
  EXPECT_EQ(parse_command_line({"--check-config", "-e", "a=" + image + ",ro", "--port=0"}).errors, "")
      << "readers share it";
}

TEST(ConfigCheck, CheckWarnsAboutAllowedIdentitiesWithoutAKey) {
  const TestDirectory directory;
  const std::string keys = directory / "keys";
  ASSERT_TRUE(tls::add_key(keys, "web1", tls::Key{}));
  const auto errors_with = [&](const std::string& flag) {
    const CommandLine check =
        parse_command_line({"--check-config", "-e", "a=mem:1M", "--port=0", "--tls-keys=" + keys, flag});
    EXPECT_EQ(check.exit_code, 0) << check.errors;
    return check.errors;
  };
  EXPECT_EQ(errors_with("--allow-identities=web1"), "");
  EXPECT_EQ(
      errors_with("--allow-identities=web1,wbe1"),
      "urtrsd: warning: allow_identities: no key of wbe1 in " + keys + ": this identity can never connect\n");
}

TEST(ConfigCheck, CheckAllocatesMemoryExports) {
  const CommandLine large = parse_command_line({"--check-config", "-e", "a=mem:99999T"});
  EXPECT_EQ(large.exit_code, 3);
  EXPECT_NE(large.errors.find("export \"a\": no address space for a memory device of 10995"),
            std::string::npos)
      << large.errors;
}

TEST(ConfigCheck, CheckReportsAnInaccessibleFolder) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may enter every folder";
  TestDirectory directory;
  const std::string image = directory.make_file("a.img", 4096);
  ::chmod(directory.path().c_str(), 0);
  const CommandLine shut = parse_command_line({"--check-config", "-e", "a=" + image});
  ::chmod(directory.path().c_str(), 0700);
  EXPECT_NE(
      shut.errors.find("Permission denied (13); give the user of urtrsd search permission for its folders"),
      std::string::npos)
      << shut.errors;
}

TEST(ConfigCheck, CheckWarnsAboutAnIncompleteLastSector) {
  TestDirectory directory;
  const CommandLine odd =
      parse_command_line({"--check-config", "-e", "a=" + directory.make_file("a.img", 1000)});
  EXPECT_EQ(odd.exit_code, 0) << odd.errors;
  EXPECT_NE(odd.errors.find("has 1000 bytes, not a multiple of 512: the last 488 bytes are not exported"),
            std::string::npos)
      << odd.errors;
}

TEST(ConfigCheck, CheckAnswersInJson) {
  TestDirectory directory;
  const auto checked = [](const std::vector<std::string>& arguments) {
    return nlohmann::json::parse(parse_command_line(arguments).output);
  };
  const auto odd = checked({"--check-config", "--json", "-e", "a=" + directory.make_file("a.img", 1000)});
  EXPECT_EQ(odd["ok"], true);
  EXPECT_TRUE(odd["problems"].empty());
  ASSERT_EQ(odd["warnings"].size(), 1U) << odd;
  EXPECT_NE(odd["warnings"][0].get<std::string>().find("the last 488 bytes"), std::string::npos);
  const auto bad = checked({"--check-config", "--json", "-e", "a=" + directory / "no.img"});
  EXPECT_EQ(bad["ok"], false);
  EXPECT_EQ(bad["exit_code"], 3);
  ASSERT_EQ(bad["problems"].size(), 1U) << bad;
  EXPECT_EQ(bad["problems"][0].get<std::string>().find("urtrsd: "), std::string::npos);
  const auto unknown = checked({"--json", "--frobnicate"});
  EXPECT_EQ(unknown["exit_code"], 2);
  EXPECT_EQ(unknown["problems"].size(), 1U);
  EXPECT_EQ(checked({"--version", "--json"})["version"].get<std::string>().rfind("urtrsd ", 0), 0U);
  EXPECT_EQ(parse_command_line({"--json", "-e", "a=mem:1M"}).exit_code, 2) << "not for a start";
}

TEST(ConfigCheck, CheckOpensTheDevices) {
  TestDirectory directory;
  const CommandLine good =
      parse_command_line({"--check-config", "-e", "a=" + directory.make_file("a.img", 4096)});
  EXPECT_EQ(good.exit_code, 0) << good.errors;
  EXPECT_EQ(good.output, "urtrsd: the configuration is valid\n");
  const CommandLine bad = parse_command_line({"--check-config", "-e", "a=" + directory / "no.img"});
  EXPECT_EQ(bad.exit_code, 3);
  EXPECT_NE(bad.errors.find("No such file or directory"), std::string::npos);
  const CommandLine folder = parse_command_line({"--check-config", "-e", "a=" + directory.path()});
  EXPECT_EQ(folder.exit_code, 3);
  EXPECT_NE(folder.errors.find("is a directory"), std::string::npos);
}

}  // namespace
}  // namespace rtrs::daemon::config_check_test
