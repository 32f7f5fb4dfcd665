#include "tools/lib/control/plugin/settings.hpp"

#include <gtest/gtest.h>

#include <array>
#include <sstream>
#include <string>

#include "tools/lib/control/plugin/timers.hpp"
#include "tools/nbdkit/own_command_line.hpp"

namespace rtrs::nbdkit::settings_test {
namespace {

using plugin::Settings;

std::string why(const tl::expected<void, std::string>& done) {
  return done ? "accepted" : done.error();
}

TEST(TimersOfSettings, DerivedTimersNameTheirOrigin) {
  const auto timer = [](const Settings& settings, const std::string& name) {
    for (const control::ClientTimer& one : plugin::timers_of(settings))
      if (one.name == name) return one;
    return control::ClientTimer{"", 0, "missing"};
  };
  Settings settings;
  ASSERT_TRUE(settings.set("path", "10.0.0.2"));
  ASSERT_TRUE(settings.set("reconnect_max", "100ms"));
  ASSERT_TRUE(settings.set("request_timeout", "never"));
  ASSERT_TRUE(settings.complete("host", 1, "/"));
  EXPECT_EQ(timer(settings, "reconnect_max").time, milliseconds(100));
  EXPECT_STREQ(timer(settings, "reconnect_max").origin, "option");
  EXPECT_EQ(timer(settings, "reconnect_min").time, milliseconds(100));
  EXPECT_STREQ(timer(settings, "reconnect_min").origin, "from reconnect_max");
  EXPECT_EQ(timer(settings, "dead_peer_time").time, seconds(35));
  EXPECT_STREQ(timer(settings, "dead_peer_time").origin, "default");
  EXPECT_EQ(timer(settings, "request_timeout").time, kNever);
  EXPECT_STREQ(timer(settings, "request_timeout").origin, "option");
  ASSERT_TRUE(settings.set("heartbeat_missed", "2"));
  EXPECT_EQ(timer(settings, "dead_peer_time").time, seconds(20));
  EXPECT_STREQ(timer(settings, "dead_peer_time").origin, "from the heartbeat");
}

TEST(Settings, ReconnectMaxAloneLowersReconnectMin) {
  Settings settings;
  for (const auto& [key, value] : {std::pair<const char*, const char*>{"path", "10.0.0.1"},
                                   {"device", "disk"},
                                   {"reconnect_max", "200ms"}})
    ASSERT_TRUE(settings.set(key, value)) << key;
  ASSERT_TRUE(settings.complete("host", 1, "/"));
  EXPECT_EQ(settings.protocol.reconnect_min, milliseconds(200));
  EXPECT_EQ(settings.protocol.reconnect_max, milliseconds(200));
}

TEST(Settings, AcceptsVerbsOptions) {
  Settings settings;
  EXPECT_EQ(why(settings.set("rdma_ack_timeout", "14")), "accepted");
  EXPECT_EQ(why(settings.set("rdma_tos", "106")), "accepted");
  EXPECT_EQ(settings.fabric.ack_timeout, 14U);
  EXPECT_EQ(settings.fabric.tos, 106U);
  EXPECT_NE(why(settings.set("rdma_ack_timeout", "32")), "accepted");
  EXPECT_NE(why(settings.set("rdma_tos", "256")), "accepted");
  EXPECT_EQ(why(settings.set("rdma_relaxed_ordering", "on")), "accepted");
  EXPECT_TRUE(settings.fabric.relaxed_ordering);
  EXPECT_EQ(why(settings.set("rdma_thread_domains", "on")), "accepted");
  EXPECT_TRUE(settings.fabric.thread_domains);
  EXPECT_EQ(why(settings.set("rdma_post", "wr")), "accepted");
  EXPECT_EQ(settings.fabric.post, "wr");
  EXPECT_NE(why(settings.set("rdma_post", "fast")), "accepted");
}

TEST(Settings, AcceptsEveryParameter) {
  Settings settings;
  for (const auto& [key, value] : {std::pair{"path", "ip:10.0.0.1@10.0.0.2"},
                                   {"path", "10.0.1.2"},
                                   {"port", "99"},
                                   {"session", "s"},
                                   {"device", "d"},
                                   {"access_mode", "ro"},
                                   {"fabric", "verbs"},
                                   {"rdma_device", "rxe0"},
                                   {"rdma_retry_count", "3"},
                                   {"queue_depth", "64"},
                                   {"policy", "min-latency"},
                                   {"connections", "4"},
                                   {"heartbeat_interval", "200ms"},
                                   {"heartbeat_missed", "3"},
                                   {"reconnect_min", "100ms"},
                                   {"reconnect_max", "2s"},
                                   {"queue_timeout", "never"},
                                   {"request_timeout", "90s"},
                                   {"extensions", "off"},
                                   {"offer_invalidation", "on"},
                                   {"connect_timeout", "1m"},
                                   {"trace", "t"},
                                   {"trace_detail", "wire"},
                                   {"trace_size", "8"},
                                   {"trace_files", "2"},
                                   {"trace_dump", "d"},
                                   {"status", "/tmp/s"}})
    EXPECT_EQ(why(settings.set(key, value)), "accepted") << key;
  ASSERT_EQ(why(settings.complete("host", 1, "/home/me")), "accepted");
  EXPECT_EQ(settings.paths.size(), 2U);
  EXPECT_EQ(settings.port, 99);
  EXPECT_EQ(settings.access_mode, wire::rnbd::AccessMode::read_only);
  EXPECT_EQ(settings.fabric.fabric, "verbs");
  EXPECT_EQ(settings.fabric.device, "rxe0");
  EXPECT_EQ(settings.fabric.retry_count, 3U);
  EXPECT_EQ(settings.protocol.max_depth, 64);
  EXPECT_EQ(settings.protocol.policy, MultipathPolicy::min_latency);
  EXPECT_GE(settings.protocol.send_depth, 128);
  EXPECT_EQ(settings.protocol.con_num, 5);
  EXPECT_EQ(settings.protocol.heartbeat.interval, milliseconds(200));
  EXPECT_EQ(settings.protocol.heartbeat.missed_max, 3U);
  EXPECT_EQ(settings.protocol.reconnect_min, milliseconds(100));
  EXPECT_EQ(settings.protocol.reconnect_max, seconds(2));
  EXPECT_EQ(settings.protocol.queue_timeout, kNever);
  EXPECT_EQ(settings.protocol.request_timeout, seconds(90));
  EXPECT_EQ(settings.protocol.extensions, wire::Extensions::none);
  EXPECT_TRUE(settings.protocol.offer_invalidation);
  EXPECT_EQ(settings.connect_timeout, seconds(60));
  EXPECT_EQ(settings.trace, "/home/me/t");
  EXPECT_EQ(settings.file_options().detail, trace::Detail::wire);
  EXPECT_EQ(settings.file_options().rotate_bytes, 8U << 20);
  EXPECT_EQ(settings.file_options().rotate_files, 2U);
  EXPECT_EQ(settings.trace_dump, "/home/me/d");
  EXPECT_EQ(settings.status, "/tmp/s");
  EXPECT_EQ(settings.given.size(), 27U);
}

TEST(Settings, InvalidValuesAreExplained) {
  Settings settings;
  EXPECT_EQ(why(settings.set("port", "0")), "port=0: expected a whole number from 1 to 65535");
  EXPECT_EQ(why(settings.set("port", "12x")), "port=12x: expected a whole number from 1 to 65535");
  EXPECT_EQ(why(settings.set("connections", "0")), "connections=0: expected a whole number from 1 to 4095");
  EXPECT_EQ(why(settings.set("exports", "some")), "exports=some: expected all or mapped");
  EXPECT_EQ(why(settings.set("fabric", "ib")), "fabric=ib: expected tcp, libfabric or verbs");
  EXPECT_EQ(why(settings.set("access_mode", "w")), "access_mode=w: expected ro, rw or migration");
  EXPECT_EQ(why(settings.set("queue_timeout", "5x")),
            "queue_timeout: '5x' is not a duration: expected a number of ms, s, m or h, e.g. 500ms, 30s, 2m");
  EXPECT_EQ(why(settings.set("trace_size", "4x")),
            "trace_size: '4x' is not a size: expected a number of bytes, k, M, G or T, e.g. 4096, 64k, 1G");
  for (const std::string wrong : {"1023k", "2T", "1048577"})
    EXPECT_EQ(why(settings.set("trace_size", wrong)), "trace_size=" + wrong + ": expected 1M to 1T");
  EXPECT_EQ(why(settings.set("trace_size", "0")), "accepted") << "no limit";
  EXPECT_EQ(why(settings.set("extensions", "yes")), "extensions=yes: expected on or off");
  for (const char* policy : {"0", "1", "2", "RR", "Mi", "Min-Latency"})
    EXPECT_EQ(why(settings.set("policy", policy)), "accepted") << policy;
  EXPECT_EQ(why(settings.set("policy", "fast")),
            "policy=fast: expected rr (round-robin), mi (min-inflight) or ml (min-latency)");
  EXPECT_EQ(why(settings.set("reconnect_min", "0")),
            "reconnect_min: '0' is too short: it must be greater than 0");
  for (const std::string wrong : {"9999us", "61m"})
    EXPECT_EQ(why(settings.set("heartbeat_interval", wrong)),
              "heartbeat_interval=" + wrong + ": expected 10ms to 1h");
  for (const std::string key : {"reconnect_min", "reconnect_max"})
    EXPECT_EQ(why(settings.set(key, "1us")), key + "=1us: expected 1ms to 1h");
  for (const auto& [key, value] : {std::pair<const char*, const char*>{"heartbeat_interval", "10ms"},
                                   {"heartbeat_interval", "1h"},
                                   {"reconnect_min", "1ms"},
                                   {"reconnect_max", "1h"}})
    EXPECT_EQ(why(settings.set(key, value)), "accepted") << key;
  EXPECT_EQ(why(settings.set("device", "")), "device=: is empty");
  EXPECT_EQ(why(settings.set("path", "a@b@c")),
            "path 'a@b@c': more than one '@' or ','; give each path separately");
  EXPECT_EQ(why(settings.set("devcie", "d")),
            "unknown parameter 'devcie'; did you mean device=? nbdkit-urtrs --help lists them all");
  EXPECT_EQ(why(settings.set("sesion", "a")),
            "unknown parameter 'sesion'; did you mean session=? nbdkit-urtrs --help lists them all");
  EXPECT_EQ(why(settings.set("xyzzy", "a")), "unknown parameter 'xyzzy'; nbdkit-urtrs --help lists them all");
}

// In the help text, each line that starts with KEY= describes a parameter. If a letter is appended to the
// key, the error must suggest the key.
TEST(Settings, MisspeltParametersGiveASuggestion) {
  const std::string help = plugin::settings_help();
  unsigned count = 0;
  for (std::size_t line = 0; line < help.find("TIME is"); line = help.find('\n', line) + 1) {
    const std::size_t end = help.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", line);
    if (end == line || help[end] != '=') continue;
    const std::string key = help.substr(line, end - line);
    if (key == "tls_key") continue;  // "tls_keyx" is equally similar to tls_keys
    Settings settings;
    const std::string answer = settings.set(key + "x", "1").error();
    EXPECT_NE(answer.find("did you mean " + key + "=?"), std::string::npos) << answer;
    ++count;
  }
  EXPECT_GE(count, 20U);
}

// The width is the same as for the help of all programs (help_test).
TEST(Settings, HelpFitsTheWidth) {
  std::istringstream help(plugin::settings_help());
  for (std::string line; std::getline(help, line);) EXPECT_LE(line.size(), 80U) << line;
}

TEST(Settings, CrcRequiresTheTcpFabric) {
  Settings settings;
  ASSERT_TRUE(settings.set("path", "10.0.0.2"));
  EXPECT_FALSE(settings.fabric.crc);
  ASSERT_TRUE(settings.set("crc", "on"));
  EXPECT_TRUE(settings.fabric.crc);
  EXPECT_EQ(why(settings.complete("h", 1, "/")), "accepted");
  ASSERT_TRUE(settings.set("fabric", "libfabric"));
  EXPECT_EQ(why(settings.complete("h", 1, "/")), "crc= requires fabric=tcp");
}

// The paths must be made absolute, because nbdkit may change its working directory before the files are read.
TEST(Settings, TlsFilesAreRelativeToTheStartFolder) {
  Settings settings;
  for (const auto& [key, value] : {std::pair<const char*, const char*>{"path", "10.0.0.2"},
                                   {"tls_keys", "k"},
                                   {"tls_identity", "i"},
                                   {"tls_cert", "c"},
                                   {"tls_key", "p"},
                                   {"tls_ca", "a"},
                                   {"tls_crl", "r"},
                                   {"tls_server_name", "s"},
                                   {"tls_kernel", "off"}})
    EXPECT_EQ(why(settings.set(key, value)), "accepted") << key;
  ASSERT_EQ(why(settings.complete("host", 1, "/home/me")), "accepted");
  const tls::Credentials wanted{.cert = "/home/me/c",
                                .key = "/home/me/p",
                                .ca = "/home/me/a",
                                .crl = "/home/me/r",
                                .keys = "/home/me/k",
                                .identity = "i",
                                .server_name = "s",
                                .kernel = false};
  EXPECT_TRUE(settings.fabric.tls.credentials == wanted);
}

TEST(Settings, MissingParametersAreReported) {
  Settings settings;
  EXPECT_EQ(why(settings.complete("h", 1, "/")),
            "path= is missing: the address of the server, for example path=10.0.0.2");
  ASSERT_TRUE(settings.set("path", "10.0.0.2"));
  ASSERT_TRUE(settings.set("session", "a/b"));
  EXPECT_EQ(why(settings.complete("h", 1, "/")), "session=a/b: '/' and '.' are not allowed");
}

TEST(Settings, AcceptsAnyNumberOfDevices) {
  Settings settings;
  ASSERT_TRUE(settings.set("path", "10.0.0.2"));
  EXPECT_EQ(why(settings.complete("h", 1, "/")), "accepted");
  EXPECT_FALSE(settings.one_device());
  ASSERT_TRUE(settings.set("device", "a"));
  EXPECT_TRUE(settings.one_device());
  ASSERT_TRUE(settings.set("device", "b"));
  EXPECT_EQ(why(settings.complete("h", 1, "/")), "accepted");
  EXPECT_EQ(settings.devices, (std::vector<std::string>{"a", "b"}));
  ASSERT_TRUE(settings.set("device", "a"));
  EXPECT_EQ(why(settings.complete("h", 1, "/")), "device=a: is given twice");
  settings.devices.assign(1, std::string(255, 'x'));
  EXPECT_NE(why(settings.complete("h", 1, "/")).find("expected 1 to 254 characters"), std::string::npos);
  settings.devices.clear();
  for (int i = 0; i < 65; ++i) settings.devices.push_back(std::to_string(i));
  EXPECT_EQ(why(settings.complete("h", 1, "/")), "more than 64 devices are given");
}

TEST(Settings, FilesOfDifferentOptionsMustDiffer) {
  using Two = std::array<const char*, 2>;
  for (const Two& keys : {Two{"trace", "trace_dump"}, Two{"trace", "status"}, Two{"trace_dump", "status"}}) {
    Settings settings;
    ASSERT_TRUE(settings.set("path", "10.0.0.2"));
    ASSERT_TRUE(settings.set("device", "d"));
    ASSERT_TRUE(settings.set(keys[0], "x/../f"));
    ASSERT_TRUE(settings.set(keys[1], "/home/me/f"));
    EXPECT_EQ(why(settings.complete("h", 1, "/home/me")),
              std::string(keys[1]) + "=/home/me/f: is the file of " + keys[0] + "= too; use another file");
  }
}

TEST(Settings, DuplicatePathsAreRejectedInEverySpelling) {
  for (const auto& [one, other] : {std::pair{"10.0.0.2", "10.0.0.2"},
                                   {"10.0.0.2", "ip:10.0.0.2"},
                                   {"127.0.0.1", "127.1"},
                                   {"10.0.0.1@10.0.0.2", "ip:10.0.0.1,ip:10.0.0.2"},
                                   {"fd00::1@fd00::2", "FD00:0::1@[fd00::0:2]"},
                                   {"Storage1", "storage1"},
                                   {"gid:fe80::1", "gid:FE80::1"}}) {
    Settings settings;
    ASSERT_TRUE(settings.set("path", "10.9.9.9"));
    ASSERT_TRUE(settings.set("path", one)) << one;
    ASSERT_TRUE(settings.set("path", other)) << other;
    ASSERT_TRUE(settings.set("device", "d"));
    const std::string as =
        one == std::string(other) ? "is given twice" : std::string("is the same path as path=") + one;
    EXPECT_EQ(why(settings.complete("h", 1, "/")),
              std::string("path=") + other + ": " + as + "; each path needs a different pair of addresses");
  }
  Settings settings;
  for (const char* path :
       {"10.0.0.2", "10.0.0.1@10.0.0.2", "10.0.0.3@10.0.0.2", "10.0.0.1@10.0.0.3", "10.0.0.20"})
    ASSERT_TRUE(settings.set("path", path));
  ASSERT_TRUE(settings.set("device", "d"));
  EXPECT_EQ(why(settings.complete("h", 1, "/")), "accepted");
}

TEST(Settings, SessionNameMustBeUtf8) {
  Settings settings;
  ASSERT_TRUE(settings.set("path", "10.0.0.2"));
  ASSERT_TRUE(settings.set("device", "d"));
  ASSERT_TRUE(settings.set("session",
                           "b\xc3\xbc"
                           "ro"));
  EXPECT_EQ(why(settings.complete("h", 1, "/")), "accepted");
  ASSERT_TRUE(settings.set("session", "b\xfcro"));
  EXPECT_EQ(why(settings.complete("h", 1, "/")), "session=b?ro: expected text in UTF-8");
  ASSERT_TRUE(settings.set("session", "a\nb"));
  EXPECT_EQ(why(settings.complete("h", 1, "/")), "session=a\nb: control characters are not allowed");
}

TEST(Settings, NbdkitReadOnlySetsTheModeAndConflictsWithRw) {
  Settings settings;
  ASSERT_TRUE(settings.set("path", "10.0.0.2"));
  ASSERT_TRUE(settings.set("device", "d"));
  settings.read_only_asked = true;
  ASSERT_TRUE(settings.complete("h", 1, "/"));
  EXPECT_EQ(settings.access_mode, wire::rnbd::AccessMode::read_only);
  ASSERT_TRUE(settings.set("access_mode", "rw"));
  EXPECT_EQ(why(settings.complete("h", 1, "/")),
            "access_mode=rw: nbdkit -r makes the device read-only; remove one of the two");
}

TEST(Settings, FindsReadOnlyInEveryOptionForm) {
  using Line = std::vector<std::string>;
  for (const Line& line :
       {Line{"nbdkit", "-r", "urtrs"}, Line{"nbdkit", "-fr", "urtrs"},
        Line{"nbdkit", "urtrs", "device=d", "--readonly"}, Line{"nbdkit", "-U", "-", "--read-only", "urtrs"}})
    EXPECT_TRUE(asks_for_read_only(line));
  for (const Line& line : {Line{"nbdkit", "-f", "urtrs"}, Line{"nbdkit", "--run", "-r", "urtrs"},
                           Line{"nbdkit", "-U", "-r", "urtrs"}, Line{"nbdkit", "-Prun.pid", "urtrs"},
                           Line{"nbdkit", "urtrs", "--", "-r"}, Line{"-r"}, Line{}})
    EXPECT_FALSE(asks_for_read_only(line));
}

TEST(Settings, DefaultSessionNameHasTheHostAndAUniquePart) {
  Settings settings;
  ASSERT_TRUE(settings.set("path", "10.0.0.2"));
  ASSERT_TRUE(settings.set("device", "d"));
  ASSERT_TRUE(settings.complete("box", 42, "/"));
  EXPECT_EQ(settings.session, "box-nbdkit-0000002a");
}

TEST(Settings, ExportsOptionConflictsWithDevice) {
  Settings settings;
  for (const auto& [key, value] : {std::pair{"path", "10.0.0.1"}, {"exports", "mapped"}})
    ASSERT_EQ(why(settings.set(key, value)), "accepted");
  ASSERT_EQ(why(settings.complete("host", 1, "/")), "accepted");
  EXPECT_TRUE(settings.only_mapped);
  ASSERT_EQ(why(settings.set("device", "d")), "accepted");
  EXPECT_EQ(why(settings.complete("host", 1, "/")),
            "exports= and device= exclude each other; remove one of them");
}

}  // namespace
}  // namespace rtrs::nbdkit::settings_test
