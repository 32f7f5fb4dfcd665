#include "tools/urtrs-perf/options.hpp"

#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

using namespace rtrs;
using namespace rtrs::perf;

namespace options_test {
namespace {

Options parsed(const std::vector<std::string>& arguments) {
  const CommandLine line = parse_command_line(arguments);
  EXPECT_EQ(line.errors, "");
  EXPECT_TRUE(line.run.has_value());
  return line.run.value_or(Options{});
}

void expect_refused(const std::vector<std::string>& arguments, const std::string& errors) {
  const CommandLine line = parse_command_line(arguments);
  EXPECT_FALSE(line.run.has_value());
  EXPECT_EQ(line.exit_code, kUsage);
  EXPECT_EQ(line.errors, errors);
}

}  // namespace

TEST(Options, NoArgumentsRunTheServer) {
  const Options options = parsed({});
  EXPECT_TRUE(options.addresses.empty());
  EXPECT_EQ(options.port, 18515);
  EXPECT_EQ(options.provider, "tcp");
}

TEST(Options, AddressRunsABusyPollingLatencyTest) {
  const Options options = parsed({"10.0.0.2"});
  EXPECT_EQ(options.addresses, std::vector<std::string>{"10.0.0.2"});
  EXPECT_EQ(options.iodepth, 1u);
  EXPECT_EQ(options.block_size, 4096u);
  EXPECT_EQ(options.wait, Wait::busy);
  EXPECT_FALSE(options.iterations.has_value());
  EXPECT_EQ(options.runtime, seconds(5));
}

TEST(Options, TlsOptionsAreStored) {
  const Options options =
      parsed({"h", "--tls=require", "--tls-keys=k", "--tls-identity=i", "--tls-cert=c", "--tls-key=p",
              "--tls-ca=a", "--tls-crl=r", "--tls-server-name=s", "--tls-kernel=false"});
  options::TlsChoice wanted;
  wanted.mode = "require";
  wanted.credentials.keys = "k";
  wanted.credentials.identity = "i";
  wanted.credentials.cert = "c";
  wanted.credentials.key = "p";
  wanted.credentials.ca = "a";
  wanted.credentials.crl = "r";
  wanted.credentials.server_name = "s";
  wanted.credentials.kernel = false;
  EXPECT_TRUE(options.tls == wanted);
}

TEST(Options, LongAndShortNamesAreEquivalent) {
  const Options longer =
      parsed({"h", "--rw=randread", "--bs=64k", "--iodepth=32", "--runtime=500ms", "--port=7"});
  const Options shorter = parsed({"h", "--rw", "randread", "-s", "64k", "-q", "32", "-D", "0.5", "-p", "7"});
  for (const Options& options : {longer, shorter}) {
    EXPECT_EQ(options.rw, Workload::randread);
    EXPECT_EQ(options.block_size, 65536u);
    EXPECT_EQ(options.iodepth, 32u);
    EXPECT_EQ(options.runtime, milliseconds(500));
    EXPECT_EQ(options.port, 7);
  }
  EXPECT_EQ(parsed({"h", "-t", "8"}).iodepth, 8u);
}

TEST(Options, EveryAddressIsAPath) {
  const std::vector<std::string> all{"a", "b", "c"};
  EXPECT_EQ(parsed({"a", "b", "c"}).addresses, all);
  EXPECT_EQ(parsed({"--paths=a,b,c"}).addresses, all);
  EXPECT_EQ(parsed({"a", "--paths", "b,c"}).addresses, all);
}

TEST(Options, JsonTakesAnOptionalFile) {
  EXPECT_TRUE(parsed({"h", "--json"}).json);
  EXPECT_EQ(parsed({"h", "--json"}).json_file, "");
  EXPECT_EQ(parsed({"h", "--json=out.json"}).json_file, "out.json");
  EXPECT_FALSE(parsed({"h"}).json);
}

TEST(Options, WaitModesAreExclusive) {
  EXPECT_EQ(parsed({"h", "--events"}).wait, Wait::events);
  EXPECT_EQ(parsed({"h", "--busy-poll"}).wait, Wait::busy);
  EXPECT_EQ(parsed({"h", "--pump"}).wait, Wait::pump);
  EXPECT_EQ(parse_command_line({"h", "--events", "--busy-poll"}).exit_code, kUsage);
}

TEST(Options, ComparisonsAreShortByDefault) {
  EXPECT_EQ(parsed({"--compare-raw"}).runtime, milliseconds(500));
  EXPECT_EQ(parsed({"--compare-raw"}).rounds, 3u);
  EXPECT_EQ(parsed({"--compare-raw", "-D", "2"}).runtime, seconds(2));
}

TEST(Options, RdmaOptionsAreThoseOfUrtrsd) {
  const Options options =
      parsed({"--fabric=verbs", "--rdma-device=mlx5_0", "--rdma-invalidation", "registration"});
  EXPECT_EQ(options.device, "mlx5_0");
  EXPECT_EQ(options.invalidation, "registration");
  EXPECT_TRUE(options.fresh_keys);
  EXPECT_FALSE(parsed({"h", "--fabric=verbs"}).fresh_keys);
  EXPECT_TRUE(parsed({"h", "--fabric=verbs", "--rdma-thread-domains"}).thread_domains);
  EXPECT_FALSE(parsed({"h", "--fabric=verbs"}).thread_domains);
  EXPECT_EQ(parsed({"h", "--fabric=verbs", "--rdma-post=wr"}).post, "wr");
  EXPECT_EQ(parsed({"h", "--fabric=verbs"}).post, "send");
  expect_refused({"h", "--rdma-post=wr"},
                 "urtrs-perf: --fabric: expected verbs with --rdma-post, got \"tcp\"\n");
  expect_refused({"h", "--rdma-thread-domains"},
                 "urtrs-perf: --fabric: expected verbs with --rdma-thread-domains, got \"tcp\"\n");
  expect_refused({"h", "--rdma-device=mlx5_0"},
                 "urtrs-perf: --fabric: expected verbs with --rdma-device, got \"tcp\"\n");
  expect_refused({"--rdma-invalidation=windows", "--fabric=libfabric"},
                 "urtrs-perf: --fabric: expected verbs with --rdma-invalidation, got \"libfabric\"\n");
}

TEST(Options, ErrorsAreExplained) {
  expect_refused({"h", "--iodeph=4"},
                 "urtrs-perf: unknown option \"--iodeph=4\"; did you mean \"--iodepth\"?\n");
  expect_refused(
      {"h", "--rw=randred"},
      "urtrs-perf: --rw: expected one of randread randwrite read rw write, got \"randred\"; did you mean "
      "\"randread\"?\n");
  expect_refused(
      {"h", "--bs=4x"},
      "urtrs-perf: --bs: '4x' is not a size: expected a number of bytes, k, M, G or T, e.g. 4096, 64k, 1G\n");
  expect_refused({"h", "--bs=17m"}, "urtrs-perf: --bs: expected a size from 0 to 16777216, got \"17m\"\n");
  expect_refused({"h", "-D", "soon"},
                 "urtrs-perf: --runtime: 'soon' is not a duration: expected a number of ms, s, m or h, e.g. "
                 "500ms, 30s, 2m\n");
  expect_refused({"h", "-D", "0"}, "urtrs-perf: --runtime: '0' is too short: it must be greater than 0\n");
  for (const std::string wrong : {"0", "-1", "99999999999999999999999", "1.5", "5x"})
    expect_refused({"h", "-n", wrong},
                   "urtrs-perf: --iterations: expected a whole number from 1 to 1000000000000000, got \"" +
                       wrong + "\"\n");
  for (const std::string wrong : {"-5", "1024", "first"})
    expect_refused({"h", "--cpu", wrong},
                   "urtrs-perf: --cpu: expected a whole number from 0 to 1023, got \"" + wrong + "\"\n");
  expect_refused(
      {"10.0.0.2", "10.0.1.2", "ip:10.0.0.2"},
      "urtrs-perf: address: expected every path once, got \"ip:10.0.0.2\", which is the same path as "
      "\"10.0.0.2\"\n");
  expect_refused({"h", "--json", "--csv"}, "urtrs-perf: --json excludes --csv\n");
  expect_refused({"h", "--compare-raw"},
                 "urtrs-perf: --compare-raw starts its own servers on this machine and takes no address\n");
  std::vector<std::string> addresses;
  for (unsigned i = 0; i <= 128; ++i) addresses.push_back("10.0.0." + std::to_string(i + 1));
  expect_refused(addresses, "urtrs-perf: address: expected at most 128, got \"129\"\n");
}

TEST(Options, HelpHasTheDefaultOfEveryOptionWithAValue) {
  const std::string help = parse_command_line({"--help-all"}).output;
  for (const auto& [option, value] :
       std::vector<std::pair<std::string, std::string>>{{"--rw ", "write"},
                                                        {"--rwmixread ", "50"},
                                                        {"--size ", "4k"},
                                                        {"--iodepth ", "1"},
                                                        {"--runtime ", "5"},
                                                        {"--span ", "1g"},
                                                        {"--port ", "18515"},
                                                        {"--fabric ", "tcp"},
                                                        {"--provider ", "tcp"},
                                                        {"--connections ", "1"},
                                                        {"--policy ", "min-inflight"},
                                                        {"--connect-timeout ", "5"},
                                                        {"--queue-timeout ", "10s"},
                                                        {"--heartbeat-interval", "1s"},
                                                        {"--record-detail ", "machines"},
                                                        {"--queue-depth ", "512"},
                                                        {"--chunk-size ", "256k"},
                                                        {"--rounds ", "3"}}) {
    const std::size_t at = help.find(option);
    ASSERT_NE(at, std::string::npos) << option;
    std::string line = help.substr(at, help.find('\n', at) - at) + " ";
    EXPECT_NE(line.find("=" + value + " "), std::string::npos) << line;
  }
  for (const char* part : {"default any", "default all", "default 1 s on a terminal", "Exit codes:"}) {
    const std::string one_line = std::regex_replace(help, std::regex("\\s+"), " ");
    EXPECT_NE(one_line.find(part), std::string::npos) << part;
  }
}

TEST(Options, HelpAndVersionExitWithZero) {
  EXPECT_EQ(parse_command_line({"--help"}).exit_code, kOk);
  EXPECT_NE(parse_command_line({"--help"}).output.find("--compare-raw"), std::string::npos);
  EXPECT_EQ(parse_command_line({"--version"}).exit_code, kOk);
  EXPECT_EQ(parse_command_line({"--version"}).output.find("urtrs-perf " URTRS_VERSION), 0U);
}
}  // namespace options_test
