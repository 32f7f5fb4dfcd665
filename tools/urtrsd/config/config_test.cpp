#include "tools/urtrsd/config/config.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tools/urtrsd/config/config_text.hpp"
#include "tools/urtrsd/storage/test_files.hpp"

namespace rtrs::daemon::config_test {
namespace {

// Reads `toml` as a configuration file and returns all error messages, one per line.
std::string complaints(const std::string& toml, bool relations = true) {
  ConfigReader reader;
  reader.read_toml(toml, "urtrsd.toml");
  if (relations) reader.check_relations();
  std::string text;
  for (const ConfigProblem& problem : reader.problems()) text += to_string(problem) + "\n";
  return text;
}

struct Golden {
  const char* toml;
  const char* message;
};

class GoldenMessage : public ::testing::TestWithParam<Golden> {};

TEST_P(GoldenMessage, IsExact) {
  EXPECT_EQ(complaints(GetParam().toml), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    Messages, GoldenMessage,
    ::testing::Values(
        Golden{"prot = 1234\n", "urtrsd.toml:1:1: unknown key \"prot\"; did you mean \"port\"?\n"},
        Golden{"\n  queue_depth = 8\n",
               "urtrsd.toml:2:3: unknown key \"queue_depth\"; did you mean \"sess_queue_depth\"?\n"},
        Golden{"xyzzy = 1\n", "urtrsd.toml:1:1: unknown key \"xyzzy\"\n"},
        Golden{"xyzzy = {a = 1}\n", "urtrsd.toml:1:1: unknown key \"xyzzy\"\n"},
        Golden{"[hartbeat]\ninterval_ms = 5\n",
               "urtrsd.toml:1:2: unknown section \"hartbeat\"; did you mean \"heartbeat\"?\n"},
        Golden{"[[exports]]\nname = \"a\"\n",
               "urtrsd.toml:1:3: unknown section \"exports\"; did you mean \"export\"?\n"},
        Golden{"[server]\nport = 5\n",
               "urtrsd.toml:1:2: unknown section \"server\"; the only section is [[export]]\n"},
        Golden{"[heartbeat]\ninterval = 5\n",
               "urtrsd.toml:2:1: unknown key \"heartbeat.interval\"; did you mean \"heartbeat_interval\"?\n"},
        Golden{"heartbeat = 5\n", "urtrsd.toml:1:13: heartbeat: expected table [heartbeat], got integer 5\n"},
        Golden{"port = \"abc\"\n", "urtrsd.toml:1:8: port: expected integer 0..65535, got string \"abc\"\n"},
        Golden{"port = 70000\n", "urtrsd.toml:1:8: port: expected integer 0..65535, got integer 70000\n"},
        Golden{"port = -1\n", "urtrsd.toml:1:8: port: expected integer 0..65535, got integer -1\n"},
        Golden{"port = 1.5\n", "urtrsd.toml:1:8: port: expected integer 0..65535, got a fraction\n"},
        Golden{"sess_queue_depth = 0\n",
               "urtrsd.toml:1:20: sess_queue_depth: expected integer 1..1024, got integer 0\n"},
        Golden{"max_chunk_size = 10000\n",
               "urtrsd.toml:1:18: max_chunk_size: expected power of two 8K..256M, got integer 10000\n"},
        Golden{"max_chunk_size = 4096\n",
               "urtrsd.toml:1:18: max_chunk_size: expected power of two 8K..256M, got integer 4096\n"},
        Golden{"always_invalidate = 1\n",
               "urtrsd.toml:1:21: always_invalidate: expected boolean, got integer 1\n"},
        Golden{"log_level = \"warning\"\n",
               "urtrsd.toml:1:13: log_level: expected one of trace, debug, info, warn, error, got string "
               "\"warning\"; did you mean \"warn\"?\n"},
        Golden{
            "fabric = \"libfabrik\"\n",
            "urtrsd.toml:1:10: fabric: expected one of tcp, libfabric, verbs, got string \"libfabrik\"; did "
            "you mean "
            "\"libfabric\"?\n"},
        Golden{"dev_search_path = \"\"\n",
               "urtrsd.toml:1:19: dev_search_path: expected non-empty string, got string \"\"\n"},
        Golden{
            "listen = [\"localhost:1234\"]\n",
            "urtrsd.toml:1:11: listen: expected IPv4 or IPv6 address or host name, got \"localhost:1234\"; "
            "the port has its own setting\n"},
        Golden{"listen = []\n",
               "urtrsd.toml:1:10: listen: expected address or non-empty list of addresses, got an array\n"},
        Golden{"listen = [\"::1\", 7]\n",
               "urtrsd.toml:1:18: listen: expected address as a string, got integer 7\n"},
        Golden{"listen = [\"::1\", \"::1\"]\n", "urtrsd.toml:1:18: listen: ::1 is given twice\n"},
        Golden{"[export]\nname = \"a\"\n",
               "urtrsd.toml:1:1: export: expected list of tables, got a table; write "
               "[[export]] with two brackets\n"},
        Golden{"[[export]]\npath = \"/x\"\n",
               "urtrsd.toml:1:1: export: \"name\" is missing; peers open the device by its name\n"},
        Golden{"[[export]]\nname = \"a\"\n",
               "urtrsd.toml:1:1: export \"a\": exactly one of \"path\" and \"mem\" is needed\n"},
        Golden{"[[export]]\nname = \"a\"\npath = \"/x\"\nmem = \"1G\"\n",
               "urtrsd.toml:1:1: export \"a\": exactly one of \"path\" and \"mem\" is needed\n"},
        Golden{"[[export]]\nname = \"a\"\nmem = \"lots\"\n",
               "urtrsd.toml:3:7: export.mem: 'lots' is not a size: expected a number of bytes, k, M, G or T, "
               "e.g. 4096, 64k, 1G\n"},
        Golden{"[[export]]\nname = \"a\"\nmem = \"511\"\n",
               "urtrsd.toml:3:7: export.mem: expected size of at least 512 bytes, got string \"511\"; for "
               "example \"64M\"\n"},
        Golden{"[[export]]\nname = \"a\"\nmem = -1\n",
               "urtrsd.toml:3:7: export.mem: expected size of at least 512 bytes, got integer -1; for "
               "example \"64M\"\n"},
        Golden{"[[export]]\nname = \"a\"\nmem = 512\nreadonly = true\n",
               "urtrsd.toml:4:1: unknown key \"export.readonly\"; did you mean \"read_only\"?\n"},
        Golden{"[[export]]\nname = \"a\"\nmem = 512\nfile = \"x\"\n",
               "urtrsd.toml:4:1: unknown key \"export.file\"; an export has name, path or mem, read_only, "
               "force, delay_ms, allow_addresses, allow_identities, allow_sessions\n"},
        Golden{
            "[[export]]\nname = \"a\"\nmem = 512\nallow_identities = [\"x\"]\n",
            "urtrsd.toml:4:20: export.allow_identities: expected non-empty string, got an array; a list has "
            "commas: \"alice,bob\"\n"},
        Golden{
            "[[export]]\nname = \"a\"\nmem = 512\nallow_addresses = \"10.0.0.0/33\"\n",
            "urtrsd.toml:1:1: export: \"10.0.0.0/33\" is neither an address nor a range like 10.0.0.0/8\n"},
        Golden{"allow_addresses = \"x\"\n[[export]]\nname = \"a\"\nmem = 512\n",
               "allow_addresses, allow_identities, allow_sessions: \"x\" is neither an address nor a range "
               "like 10.0.0.0/8\n"},
        Golden{"[[export]]\nname = \"a\"\nmem = 512\nallow_identities = \"x\"\n",
               "allow_identities rejects all clients without TLS or shared keys, which provide the identity; "
               "give "
               "tls_keys, or tls_cert, tls_key and tls_ca; on verbs and libfabric auth_keys\n"},
        Golden{"tls_keys = \"/k\"\n[[export]]\nname = \"a\"\nmem = 512\nallow_identities = \"x, y z\"\n",
               "allow_identities: invalid identity \"y z\"; an identity is 1 to 128 of A-Z a-z 0-9 . _ : @ "
               "-; separate identities with commas\n"},
        Golden{"tls = \"off\"\nallow_identities = \"x\"\n[[export]]\nname = \"a\"\nmem = 512\n",
               "allow_identities rejects all clients without TLS or shared keys, which provide the identity; "
               "give "
               "tls_keys, or tls_cert, tls_key and tls_ca; on verbs and libfabric auth_keys\n"},
        Golden{"allow_sessions = \"%IDENTITY%\"\n[[export]]\nname = \"a\"\nmem = 512\n",
               "allow_sessions with %IDENTITY% rejects all clients without TLS or shared keys, which provide "
               "the identity; give tls_keys, or tls_cert, tls_key and tls_ca; on verbs and libfabric "
               "auth_keys\n"},
        Golden{"[[export]]\nname = \"a\"\nmem = 512\nallow_sessions = \"x, %IDENTITY%-*\"\n",
               "allow_sessions with %IDENTITY% rejects all clients without TLS or shared keys, which provide "
               "the identity; give tls_keys, or tls_cert, tls_key and tls_ca; on verbs and libfabric "
               "auth_keys\n"},
        Golden{"tls = \"maybe\"\n",
               "urtrsd.toml:1:7: tls: expected one of off, allow, require, got string \"maybe\"\n"},
        Golden{"[[export]]\nname = \"a\"\nmem = 512\ndelay_ms = 600001\n",
               "urtrsd.toml:4:12: export.delay_ms: expected integer 0..600000, got integer 600001\n"},
        Golden{"[[export]]\nname = \"a\"\nmem = 512\n[[export]]\nname = \"a\"\nmem = 512\n",
               "urtrsd.toml:4:1: export \"a\" is configured twice\n"},
        Golden{"[[export]]\nname = \"../a\"\nmem = 512\n",
               "urtrsd.toml:1:1: export name \"../a\" cannot be used; a name is 1 to 254 bytes of UTF-8, not "
               "only "
               "slashes, with no \"..\" and no control characters\n"},
        Golden{"[[export]]\nname = \"a\\u001b[2J\"\nmem = 512\n",
               "urtrsd.toml:1:1: export name \"a\\x1b[2J\" cannot be used; a name is 1 to 254 bytes of "
               "UTF-8, not "
               "only slashes, with no \"..\" and no control characters\n"},
        Golden{
            "metrics = \"localhost:9469\"\ndev_search_path = \"/srv\"\n",
            "urtrsd.toml:1:11: metrics: \"localhost:9469\": \"localhost\" is not an IP address; host names "
            "are not resolved; for example 127.0.0.1:9469\n"},
        Golden{"dev_search_path = \"/srv\"\nsess_queue_depth = 1024\nmax_chunk_size = 524288\n",
               "urtrsd.toml:2:20: sess_queue_depth 1024 and max_chunk_size 524288 do not fit together: they "
               "need 10 + 19 bits of the 28 that address a buffer; with this max_chunk_size at most 512 IOs "
               "can be in flight\n"},
        Golden{"", "nothing to export; give --export NAME=FILE, [[export]] or dev_search_path\n"}));

TEST(ConfigFile, SyntaxErrorsHaveALineAndColumn) {
  const std::string text = complaints("port = 1\nlisten = [\n\"::1\"\n");
  EXPECT_EQ(text.rfind("urtrsd.toml:", 0), 0U) << text;
  EXPECT_NE(text.find(":"), std::string::npos);
  EXPECT_EQ(complaints("port = 1\nport = 2\n").rfind("urtrsd.toml:2:", 0), 0U);
  EXPECT_EQ(complaints("port 12\n").rfind("urtrsd.toml:1:", 0), 0U);
}

TEST(ConfigFile, UnquotedWordGivesAHint) {
  for (const char* text : {"port = 1\nlog_level = info\n", "trace = /tmp/t\n", "control =x",
                           "listen = [10.0.0.1]\n", "listen = [ fd00::7, ::1 ]\n", "listen = 10.0.0.1\n"})
    EXPECT_NE(complaints(text).find("text is written in quotes"), std::string::npos) << complaints(text);
  for (const char* text :
       {"port = 1\nport = 2\n", "port = \n", "port 12\n", "port = 1x\n", "port = 1.5\n# ::\n"})
    EXPECT_EQ(complaints(text).find("quotes"), std::string::npos) << complaints(text);
}

TEST(ConfigFile, OtherSyntaxErrorsGiveAHint) {
  EXPECT_NE(
      complaints("[export]\nname = \"a\"\n[export]\nname = \"b\"\n").find("; write [[export]] with two"),
      std::string::npos);
  EXPECT_NE(complaints("trace = \"/tmp/t\nport = 1\n").find("; the quote at the end of the text is missing"),
            std::string::npos);
  EXPECT_EQ(complaints("trace = \"/tmp/t\" x\n").find("is missing"), std::string::npos);
}

TEST(ConfigFile, WrongListSyntaxGivesAHint) {
  EXPECT_NE(complaints("listen = \"::1, ::2\"\n").find("; for example [\"10.0.0.1\", \"10.0.1.1\"]"),
            std::string::npos);
  EXPECT_NE(complaints("allow_addresses = [\"::1\"]\n").find("got an array; a list has commas: "),
            std::string::npos);
  EXPECT_EQ(complaints("trace = [\"x\"]\n").find("commas"), std::string::npos);
}

TEST(ConfigFile, ExportNamesMayHaveAllPrintableCharacters) {
  EXPECT_EQ(complaints("[[export]]\nname = \"a b/~ \\u00e9\"\nmem = 512\n"), "");
  const std::string told = complaints("[[export]]\nname = \"a\\u007f\"\nmem = 512\n");
  EXPECT_NE(told.find("no control characters"), std::string::npos) << told;
}

TEST(ConfigFile, OptionsOfAnotherFabricMayBeOff) {
  const std::string ram = "[[export]]\nname = \"a\"\nmem = 512\n";
  EXPECT_EQ(complaints("auth = \"off\"\n" + ram), "");
  EXPECT_NE(complaints("auth = \"require\"\n" + ram), "");
  EXPECT_EQ(complaints("fabric = \"verbs\"\ntls = \"off\"\n" + ram), "");
  EXPECT_NE(complaints("fabric = \"verbs\"\ntls = \"require\"\n" + ram), "");
}

TEST(ConfigFile, EveryErrorIsReported) {
  const std::string text = complaints("port = true\nlogg_level = \"info\"\nbusy_poll = \"no\"\n");
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 3) << text;
}

const char* const kEverySetting = R"(
listen = ["10.0.0.1", "ip:::1"]
port = 1300
provider = "net"
sess_queue_depth = 128
max_chunk_size = 65536
crc = true
rdma_device = "mlx5_0"
rdma_retry_count = 3
rdma_ack_timeout = 14
rdma_tos = 106
rdma_relaxed_ordering = true
rdma_thread_domains = true
rdma_post = "wr"
rdma_invalidation = "windows"
always_invalidate = false
assume_kernel_6_12_clients = true
extensions = false
dev_search_path = "/srv/%SESSNAME%"
max_sessions = 3
tls = "allow"
tls_keys = "k"
tls_cert = "c"
tls_key = "p"
tls_ca = "a"
tls_crl = "r"
tls_kernel = false
allow_addresses = "10.0.0.0/8"
allow_identities = "alice, bob"
allow_sessions = "web1"
trace = "/tmp/t"
trace_detail = "wire"
trace_size = "64M"
trace_files = 2
trace_dump = "/tmp/d"
log_level = "debug"
log_format = "json"
poll = "100us"
nbd_wait = 5
shutdown_timeout = "never"
heartbeat_interval = "100ms"
heartbeat_missed = 3
busy_poll = true
[[export]]
name = "ram"
mem = "64M"
delay_ms = 5
[[export]]
name = "iso"
path = "/srv/a.iso"
read_only = true
allow_addresses = "10.1.0.0/16"
allow_identities = "alice"
allow_sessions = "web2"
)";

TEST(ConfigFile, EverySettingIsRead) {
  ConfigReader reader;
  reader.read_toml(kEverySetting, "f");
  EXPECT_TRUE(reader.problems().empty());
  reader.check_relations();
  ASSERT_EQ(reader.problems().size(), 1U) << "no fabric supports all settings";
  EXPECT_NE(reader.problems()[0].message.find("belongs to the fabric libfabric"), std::string::npos);
  DaemonConfig expected;
  expected.listen = {"10.0.0.1", "::1"};
  expected.port = 1300;
  expected.provider = "net";
  expected.protocol.queue_depth = 128;
  expected.protocol.chunk_size = 65536;
  expected.crc = true;
  expected.device = "mlx5_0";
  expected.retry_count = 3;
  expected.ack_timeout = 14;
  expected.tos = 106;
  expected.relaxed_ordering = true;
  expected.thread_domains = true;
  expected.post = "wr";
  expected.invalidation = "windows";
  expected.always_invalidate = false;
  expected.assume_kernel_6_12_clients = true;
  expected.protocol.extensions = wire::Extensions::none;
  expected.dev_search_path = "/srv/%SESSNAME%";
  expected.protocol.max_sessions = 3;
  expected.tls.mode = "allow";
  expected.tls.credentials.keys = "k";
  expected.tls.credentials.cert = "c";
  expected.tls.credentials.key = "p";
  expected.tls.credentials.ca = "a";
  expected.tls.credentials.crl = "r";
  expected.tls.credentials.kernel = false;
  expected.allow_addresses = "10.0.0.0/8";
  expected.allow_identities = "alice, bob";
  expected.allow_sessions = "web1";
  expected.trace = "/tmp/t";
  expected.trace_detail = "wire";
  expected.trace_size = 64U << 20;
  expected.trace_files = 2;
  expected.trace_dump = "/tmp/d";
  expected.log_level = "debug";
  expected.log_format = "json";
  expected.poll = 100'000;
  expected.busy_poll = true;
  expected.nbd_wait = seconds(5);
  expected.shutdown_timeout = kNever;
  expected.protocol.heartbeat.interval = milliseconds(100);
  expected.protocol.heartbeat.missed_max = 3;
  expected.exports = {{"ram", "", 64ULL << 20, false, 5}, {"iso", "/srv/a.iso", 0, true, 0}};
  expected.exports[1].allow = parse_access("10.1.0.0/16", "alice", "web2").value();
  EXPECT_EQ(reader.config(), expected);

  ConfigReader again;
  again.read_toml(print_config(expected), "printed");
  EXPECT_TRUE(again.problems().empty()) << print_config(expected);
  EXPECT_EQ(again.config(), expected);
}

TEST(ConfigFile, TlsAndAccessSettingsAreStored) {
  ConfigReader reader;
  reader.read_toml(kEverySetting, "f");
  const tls::Credentials files{.cert = "c",
                               .key = "p",
                               .ca = "a",
                               .crl = "r",
                               .keys = "k",
                               .identity = {},
                               .server_name = {},
                               .kernel = false};
  EXPECT_TRUE((reader.config().tls == tools::TlsChoice{.mode = "allow", .credentials = files}));
  EXPECT_EQ(access_of(reader.config()), *parse_access("10.0.0.0/8", "alice, bob", "web1"));
}

TEST(ConfigFile, NonAsciiCharactersAreAllowedInCommentsAndStrings) {
  ConfigReader fine;
  fine.read_toml("\xef\xbb\xbf# f\xc3\xbcr\ntrace = \"/srv/\xc3\x9e\" # \xc2\xa7\nport = 1\n", "f");
  EXPECT_TRUE(fine.problems().empty());
  EXPECT_EQ(fine.config().port, 1U);
  for (const char* text :
       {"\xc3\x9e = 1\n", "port = \xe2\x80\x9c\x31\xe2\x80\x9d\n", "port = 9a'\xef\xba\xbf\n"}) {
    ConfigReader reader;
    reader.read_toml(text, "f");
    EXPECT_EQ(reader.problems().size(), 1U) << text;
  }
}

TEST(ConfigFile, LongLinesAndKeysWithManyPartsAreRejected) {
  const auto problems = [](const std::string& text) { return complaints(text, false); };
  std::string deep = "a";
  for (int i = 1; i < 300'000; ++i) deep += ".a";
  EXPECT_EQ(problems("port = 1\n" + deep + " = 1\n"),
            "urtrsd.toml:2:1: a line of 600003 bytes; at most 16384 are read\n");
  EXPECT_EQ(problems(deep.substr(0, 129) + " = 1\n"),
            "urtrsd.toml:1:1: a key of 65 parts; at most 64 are read\n");
  EXPECT_EQ(problems(deep.substr(0, 127) + " = 1\n"), "urtrsd.toml:1:1: unknown key \"a\"\n");
  const std::string dots(500, '.');
  EXPECT_EQ(problems("trace = \"/" + dots + "\\\"" + dots + "\" # " + dots + "\n"), "");
}

TEST(ConfigFile, TheSampleInTheDocumentationIsValid) {
  std::ifstream in(URTRS_DOCS "/configuration.md");
  std::stringstream docs;
  docs << in.rdbuf();
  const std::string text = docs.str();
  const std::size_t begin = text.find("```toml\n") + 8;
  ConfigReader reader;
  reader.read_toml(text.substr(begin, text.find("```", begin) - begin), "configuration.md");
  reader.check_relations();
  for (const ConfigProblem& problem : reader.problems()) ADD_FAILURE() << to_string(problem);
  EXPECT_EQ(reader.config().exports.size(), 4U);
}

TEST(ConfigText, SuggestsTheNearestWord) {
  EXPECT_EQ(did_you_mean("prot", {"port", "trace"}), "did you mean \"port\"?");
  EXPECT_EQ(did_you_mean("zzz", {"port", "trace"}), "");
}

TEST(Config, UnsetDiffersFromAnExplicitValue) {
  DaemonConfig before;
  DaemonConfig after;
  EXPECT_TRUE(different_settings(before, after).empty());
  after.always_invalidate = false;
  EXPECT_EQ(different_settings(before, after), std::vector<std::string>{"always_invalidate"});
  before.always_invalidate = false;
  after.listen = {"10.0.0.1"};
  after.protocol.heartbeat.missed_max = 7;
  EXPECT_EQ(different_settings(before, after), (std::vector<std::string>{"listen", "heartbeat_missed"}));
}

}  // namespace
}  // namespace rtrs::daemon::config_test
