// Tests of parse_command_line().
#include "tools/urtrsd/config/config.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/urtrsd/storage/test_files.hpp"

namespace rtrs::daemon::command_line_test {
namespace {

std::string usage_error(const std::vector<std::string>& arguments) {
  const CommandLine line = parse_command_line(arguments);
  EXPECT_FALSE(line.run);
  EXPECT_EQ(line.exit_code, 2);
  EXPECT_TRUE(line.output.empty());
  return line.errors;
}

const char* no_variable(const char*) {
  return nullptr;
}

TEST(CommandLine, FlagsOverrideTheFile) {
  TestDirectory directory;
  const std::string file = directory / "urtrsd.toml";
  std::ofstream(file) << "port = 1\nlisten = \"10.0.0.1\"\nbusy_poll = false\nalways_invalidate = true\n"
                         "[[export]]\nname = \"a\"\nmem = \"1M\"\n[[export]]\nname = \"b\"\nmem = \"1M\"\n";
  const CommandLine line = parse_command_line(
      {"--config", file, "--port=2", "--listen", "::1", "--listen", "127.0.0.1", "--busy-poll",
       "--always-invalidate=no", "-q", "64", "--export", "a=/srv/x,,y.img,ro,delay_ms=3", "-e", "c=mem:2K"});
  ASSERT_TRUE(line.run) << line.errors;
  EXPECT_EQ(line.exit_code, 0);
  EXPECT_EQ(line.run->port, 2U);
  EXPECT_EQ(line.run->listen, (std::vector<std::string>{"::1", "127.0.0.1"}));
  EXPECT_TRUE(line.run->busy_poll);
  EXPECT_EQ(line.run->always_invalidate, false);
  EXPECT_EQ(line.run->protocol.queue_depth, 64U);
  EXPECT_EQ(line.run->exports,
            (std::vector<ExportSpec>{
                {"a", "/srv/x,y.img", 0, true, 3}, {"b", "", 1 << 20, false, 0}, {"c", "", 2048, false, 0}}));
}

TEST(CommandLine, EmptyValueDoesNotConsumeTheNextArgument) {
  const CommandLine line = parse_command_line({"--control=", "--crc=true", "--export=a=mem:1M"});
  ASSERT_TRUE(line.run) << line.errors;
  EXPECT_EQ(line.run->control, "");
  EXPECT_TRUE(line.run->crc);
  EXPECT_EQ(usage_error({"--tls-keys=", "--crc=true", "--export=a=mem:1M"}),
            "urtrsd: --tls-keys: expected non-empty string, got \"\"\n");
}

TEST(CommandLine, HelpShowsPlaceholdersOfPaths) {
  const std::string help = parse_command_line({"--help-all"}).output;
  for (const char* option :
       {"--tls-keys FILE", "--auth-keys FILE", "--trace FILE", "--dev-search-path DIRECTORY"})
    EXPECT_NE(help.find(option), std::string::npos) << option << " in\n" << help;
}

TEST(CommandLine, UsageErrorsAreExplained) {
  EXPECT_EQ(usage_error({"--prot", "5"}), "urtrsd: unknown option \"--prot\"; did you mean \"--port\"?\n");
  EXPECT_EQ(usage_error({"--prot=5"}), "urtrsd: unknown option \"--prot=5\"; did you mean \"--port\"?\n");
  EXPECT_EQ(usage_error({"-e", "a=mem:1M", "--port", "abc"}),
            "urtrsd: --port: expected integer 0..65535, got \"abc\"\n");
  EXPECT_EQ(usage_error({"-e", "a=mem:1M", "--max-chunk-size", "1G"}),
            "urtrsd: --max-chunk-size: expected power of two 8K..256M, got \"1G\"\n");
  EXPECT_EQ(usage_error({"-e", "a=mem:1M", "--busy-poll=maybe"}),
            "urtrsd: --busy-poll: expected boolean, got \"maybe\"\n");
  EXPECT_EQ(
      usage_error({"-e", "a=mem:1M", "--log-level", "inof"}),
      "urtrsd: --log-level: expected one of trace, debug, info, warn, error, got \"inof\"; did you mean "
      "\"info\"?\n");
  EXPECT_EQ(usage_error({"-e", "disk"}),
            "urtrsd: --export: expected NAME=SOURCE, got \"disk\"; write --export "
            "NAME=SOURCE[,ro][,force][,delay_ms=N]\n");
  EXPECT_EQ(usage_error({"-e", "a\xff=mem:1M"}),
            "urtrsd: --export: export name \"a\\xff\" cannot be used; a name is 1 to 254 bytes of UTF-8, not "
            "only slashes, with no \"..\" and no control characters\n")
      << "neither NBD nor JSON could say it";
  EXPECT_EQ(usage_error({"-e", "a=mem:x"}),
            "urtrsd: --export: \"a=mem:x\": 'x' is not a size: expected a number of bytes, k, M, G or T, "
            "e.g. 4096, 64k, 1G\n");
  EXPECT_EQ(
      usage_error({"-e", "a=mem:511"}),
      "urtrsd: --export: expected mem:SIZE with at least 512 bytes, got \"mem:511\"; for example mem:64M\n");
  EXPECT_EQ(usage_error({"-c", "/nonexistent/u.toml", "-e", "a=mem:1M"}),
            "urtrsd: /nonexistent/u.toml: cannot be read: No such file or directory (2)\n");
  EXPECT_EQ(usage_error({"-c", "/", "-e", "a=mem:1M"}),
            "urtrsd: /: is a folder, and a configuration is a regular file\n");
  EXPECT_EQ(
      usage_error({"-e", "a=mem:1M", "-q", "1024", "--max-chunk-size", "524288"}),
      "urtrsd: --sess-queue-depth: sess_queue_depth 1024 and max_chunk_size 524288 do not fit together: they "
      "need "
      "10 + 19 bits of the 28 that address a buffer; with this max_chunk_size at most 512 IOs can be in "
      "flight\n");
  EXPECT_NE(usage_error({"--port"}).find("--help"), std::string::npos);
}

TEST(CommandLine, UnknownExportOptionsAreRejected) {
  const std::string hint =
      "options are ro, force and delay_ms=N; a comma in a file name is written twice, as in --export "
      "a=/srv/x,,y.img\n";
  EXPECT_EQ(usage_error({"-e", "a=/srv/x.img,RO"}),
            "urtrsd: --export: unknown option \"RO\" of export \"a\"; did you mean \"ro\"? " + hint);
  EXPECT_EQ(usage_error({"-e", "a=/srv/x.img,rx"}),
            "urtrsd: --export: unknown option \"rx\" of export \"a\"; did you mean \"ro\"? " + hint);
  EXPECT_EQ(usage_error({"-e", "a=/srv/x,y.img"}),
            "urtrsd: --export: unknown option \"y.img\" of export \"a\"; " + hint);
  EXPECT_EQ(usage_error({"-e", "a=/srv/x.img,"}),
            "urtrsd: --export: unknown option \"\" of export \"a\"; " + hint);
  EXPECT_EQ(usage_error({"-e", "a=/srv/x.img,delay_ms=x"}),
            "urtrsd: --export: expected delay_ms=0..600000, got \"delay_ms=x\"\n");
  const CommandLine odd = parse_command_line({"-e", "a=/srv/,,x,,,,RO,,,ro"});
  ASSERT_TRUE(odd.run) << odd.errors;
  EXPECT_EQ(odd.run->exports, (std::vector<ExportSpec>{{"a", "/srv/,x,,RO,", 0, true, 0}}));
}

TEST(CommandLine, FlagsOverrideTheEnvironmentWhichOverridesTheFile) {
  TestDirectory directory;
  const std::string file = directory / "u.toml";
  std::ofstream(file) << "port = 1\nmax_sessions = 2\nlog_level = \"warn\"\n[heartbeat]\nmissed_max = 7\n"
                         "[[export]]\nname = \"a\"\nmem = \"1M\"\n";
  const auto environment = [](const char* name) -> const char* {
    const std::string asked = name;
    return asked == "URTRS_PORT"                    ? "10"
           : asked == "URTRS_MAX_SESSIONS"          ? "20"
           : asked == "URTRS_HEARTBEAT_INTERVAL_MS" ? "1000"
           : asked == "URTRS_LISTEN"                ? "::1,127.0.0.1"
                                                    : nullptr;
  };
  const std::vector<std::string> arguments{"-c", file, "--port=100", "-e", "b=mem:1M"};
  const CommandLine line = parse_command_line(arguments, environment);
  ASSERT_TRUE(line.run) << line.errors;
  EXPECT_EQ(line.run->port, 100U);
  EXPECT_EQ(line.run->protocol.max_sessions, 20U);
  EXPECT_EQ(line.run->log_level, "warn");
  EXPECT_EQ(line.run->protocol.heartbeat.interval, seconds(1));
  EXPECT_EQ(line.run->protocol.heartbeat.missed_max, 7U);
  EXPECT_EQ(line.run->listen, (std::vector<std::string>{"::1", "127.0.0.1"}));
  std::vector<std::string> print = arguments;
  print.insert(print.end(), {"--print-config", "--origin"});
  const std::string shown = parse_command_line(print, environment).output;
  for (const char* part : {"port = 100                          # --port\n",
                           "max_sessions = 20                   # URTRS_MAX_SESSIONS\n",
                           "max_chunk_size = \"128K\"             # default\n",
                           "heartbeat_interval = \"1s\"           # URTRS_HEARTBEAT_INTERVAL_MS\n",
                           "listen = [\"::1\", \"127.0.0.1\"]       # URTRS_LISTEN\n",
                           "name = \"b\"                          # --export\n"})
    EXPECT_NE(shown.find(part), std::string::npos) << part << "in\n" << shown;
  EXPECT_NE(shown.find("log_level = \"warn\"                  # " + file + ":3:13\n"), std::string::npos)
      << shown;
  EXPECT_NE(shown.find("name = \"a\"                          # " + file + ":6"), std::string::npos) << shown;
  ConfigReader again;
  again.read_toml(shown, "printed");
  EXPECT_TRUE(again.problems().empty());
  EXPECT_EQ(again.config(), *line.run);
}

TEST(CommandLine, SpellingsOfEarlierReleasesAreAccepted) {
  ConfigReader older;
  older.read_toml(
      "shutdown_timeout_s = 0\nnbd_wait_s = 0\ntrace_size_mb = 64\npoll_us = 100\n"
      "[heartbeat]\ninterval_ms = 100\nmissed_max = 3\n",
      "f");
  EXPECT_TRUE(older.problems().empty());
  ConfigReader now;
  now.read_toml(
      "shutdown_timeout = \"never\"\nnbd_wait = 0\ntrace_size = \"64M\"\npoll = \"100us\"\n"
      "heartbeat_interval = \"100ms\"\nheartbeat_missed = 3\n",
      "f");
  EXPECT_TRUE(now.problems().empty());
  EXPECT_EQ(older.config(), now.config());
  EXPECT_EQ(now.config().shutdown_timeout, kNever);
  EXPECT_EQ(usage_error({"-e", "a=mem:1M", "--heartbeat-interval-ms=5"}),
            "urtrsd: --heartbeat-interval-ms: expected time 10ms..1h, got \"5\"\n");
  EXPECT_EQ(usage_error({"-e", "a=mem:1M", "--heartbeat-interval-ms=5s"}),
            "urtrsd: --heartbeat-interval-ms: expected integer, got \"5s\"\n");
}

TEST(CommandLine, ErrorNamesTheEnvironmentVariable) {
  const CommandLine line = parse_command_line({"-e", "a=mem:1M"}, [](const char* name) {
    return std::string(name) == "URTRS_PORT" ? "x" : no_variable(name);
  });
  EXPECT_EQ(line.exit_code, 2);
  EXPECT_EQ(line.errors, "urtrsd: URTRS_PORT: expected integer 0..65535, got \"x\"\n");
}

TEST(CommandLine, OriginRequiresPrintConfig) {
  EXPECT_EQ(usage_error({"-e", "a=mem:1M", "--origin"}),
            "urtrsd: --origin: it requires --print-config; write --print-config --origin\n");
}

TEST(CommandLine, LinkLocalAddressRequiresAnInterface) {
  EXPECT_EQ(usage_error({"-e", "a=mem:1M", "--listen", "fe80::1"}),
            "urtrsd: --listen: fe80::1 is a link-local address and needs its interface; for example "
            "fe80::1%eth0; 'ip address' lists the interfaces\n");
  EXPECT_TRUE(parse_command_line({"-e", "a=mem:1M", "--listen", "fe80::1%eth0"}).run);
}

TEST(CommandLine, DuplicateExportNamesAreRejected) {
  EXPECT_EQ(usage_error({"-e", "a=/srv/x.img,ro", "-e", "a=/srv/x.img"}),
            "urtrsd: --export: export \"a\" is configured twice\n");
}

TEST(CommandLine, DuplicatesInDifferentSpellingsAreRejected) {
  EXPECT_EQ(usage_error({"-e", "a=mem:1M", "-e", "/a=mem:1M"}),
            "urtrsd: --export: export \"/a\" is configured twice, first as \"a\"\n");
  EXPECT_EQ(usage_error({"-e", "a=mem:1M", "--listen", "::1", "--listen", "0:0:0:0:0:0:0:1"}),
            "urtrsd: --listen: 0:0:0:0:0:0:0:1 is given twice, first as ::1\n");
  EXPECT_EQ(usage_error({"-e", "a=mem:1M", "--listen", "127.0.0.1", "--listen", "::ffff:127.0.0.1"}),
            "urtrsd: --listen: ::ffff:127.0.0.1 is given twice, first as 127.0.0.1\n");
}

TEST(CommandLine, HelpAllShowsEverything) {
  const CommandLine line = parse_command_line({"--help-all"});
  EXPECT_EQ(line.exit_code, 0);
  EXPECT_FALSE(line.run);
  for (const char* word : {"--config", "--listen", "--port", "--export", "--dev-search-path",
                           "Examples:", "--check-config", "--print-config", "Exit codes", "[1234]"})
    EXPECT_NE(line.output.find(word), std::string::npos) << word;
}

TEST(CommandLine, PrintedConfigurationReadsBack) {
  const CommandLine printed = parse_command_line({"-e", "a=mem:1M", "--port", "7", "--print-config"});
  EXPECT_FALSE(printed.run);
  ASSERT_EQ(printed.exit_code, 0) << printed.errors;
  TestDirectory directory;
  std::ofstream(directory / "f.toml") << printed.output;
  const CommandLine read = parse_command_line({"-c", directory / "f.toml"});
  const CommandLine direct = parse_command_line({"-e", "a=mem:1M", "--port", "7"});
  ASSERT_TRUE(read.run) << read.errors;
  ASSERT_TRUE(direct.run);
  EXPECT_EQ(*read.run, *direct.run);
}

TEST(CommandLine, OptionsOfAnotherFabricAreRejected) {
  const CommandLine provider = parse_command_line({"-e", "a=mem:1M", "--provider=shm"});
  EXPECT_EQ(provider.exit_code, 2);
  EXPECT_FALSE(provider.run);
  EXPECT_NE(provider.errors.find("the provider 'shm' belongs to the fabric libfabric, not to tcp"),
            std::string::npos)
      << provider.errors;
  EXPECT_TRUE(parse_command_line({"-e", "a=mem:1M", "--provider=shm", "--fabric=libfabric"}).run);
  EXPECT_EQ(parse_command_line({"-e", "a=mem:1M", "--rdma-device=mlx5_0"}).exit_code, 2);
  EXPECT_EQ(parse_command_line({"-e", "a=mem:1M", "--fabric=libfabric", "--crc"}).exit_code, 2);
}

}  // namespace
}  // namespace rtrs::daemon::command_line_test
