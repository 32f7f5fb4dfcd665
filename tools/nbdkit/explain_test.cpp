#include "tools/nbdkit/explain.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "backends/bindings/asio/error.hpp"

namespace rtrs::nbdkit::explain_test {
namespace {

using plugin::Settings;

Settings some_settings() {
  Settings settings;
  settings.paths = {"10.0.0.2", "10.0.1.2"};
  settings.devices = {"disk"};
  settings.session = "me";
  return settings;
}

boost::system::error_code of_server(int error) {
  return {error, boost::system::generic_category()};
}

TEST(Explain, ServerErrnoIsExplained) {
  const Settings settings = some_settings();
  EXPECT_EQ(explain_map_failure(settings, "disk", settings.access_mode, of_server(ENOENT), {}),
            "the server exports no device named 'disk': No such file or directory (errno 2). Check the name, "
            "and the exports and dev_search_path of the server");
  EXPECT_NE(explain_map_failure(settings, "disk", settings.access_mode, of_server(EPERM), {})
                .find("another client writes to it"),
            std::string::npos);
  EXPECT_NE(explain_map_failure(settings, "disk", settings.access_mode, of_server(EROFS), {})
                .find("Use access_mode=ro"),
            std::string::npos);
  EXPECT_NE(explain_map_failure(settings, "disk", settings.access_mode, of_server(EROFS), {}, "the mode ro")
                .find("Use the mode ro"),
            std::string::npos);
  EXPECT_EQ(
      explain_map_failure(settings, "disk", settings.access_mode, of_server(EACCES), {}),
      "the server refuses to open 'disk' for writing: Permission denied (errno 13); its allow lists "
      "exclude this client, or the export is read-only (then use access_mode=ro); the server's log says "
      "which");
  EXPECT_NE(explain_map_failure(settings, "disk", settings.access_mode, of_server(EIO), {})
                .find("Input/output error"),
            std::string::npos);
  EXPECT_EQ(explain_map_failure(settings, "disk", settings.access_mode, of_server(EINVAL), {}),
            "the server cannot open 'disk', or reports an unsupported size or block size: Invalid argument "
            "(errno 22). See the server's log for details");
}

TEST(Explain, ReadOnlyIsNotSuggestedForAReadOnlyRequest) {
  Settings settings = some_settings();
  settings.access_mode = wire::rnbd::AccessMode::read_only;
  for (const int error : {EPERM, EACCES, EROFS})
    EXPECT_EQ(
        explain_map_failure(settings, "disk", settings.access_mode, of_server(error), {}).find("access_mode"),
        std::string::npos);
}

TEST(Explain, UnknownExportIsReportedWithTheKnownOnes) {
  Settings settings = some_settings();
  settings.devices = {"a", "b"};
  EXPECT_EQ(explain_unknown_export(settings, "c"), "no export named 'c'; device= gives a, b");
  settings.devices = {};
  EXPECT_NE(explain_unknown_export(settings, "").find("no export is named"), std::string::npos);
  settings.only_mapped = true;
  EXPECT_EQ(explain_unknown_export(settings, "c"), "the device 'c' is not mapped; \"urtrs map\" maps it");
}

TEST(Explain, NamesFromNbdClientsAreEscaped) {
  Settings settings = some_settings();
  EXPECT_EQ(explain_unknown_export(settings, "a\nnbdkit: urtrs: error: all is lost"),
            "no export named 'a\\x0anbdkit: urtrs: error: all is lost'; device= gives disk");
  const std::string names[] = {
      explain_map_failure(settings, "a\x1b[2J", settings.access_mode, of_server(ENOENT), {}),
      explain_timeout(settings, "a\x1b[2J", seconds(1), {}), explain_unknown_export(settings, "a\x1b[2J")};
  for (const std::string& line : names) EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;
  EXPECT_LT(explain_unknown_export(settings, std::string(4096, 'x')).size(), 300U);
}

TEST(Explain, FailedRequestIsExplained) {
  const Settings settings = some_settings();
  BlockRequest io;
  io.opcode = wire::rnbd::Opcode::write;
  io.offset = 512;
  io.length = 4096;
  std::vector<PathStatus> paths(2);
  paths[0].state = PathState::connected;
  EXPECT_EQ(explain_failed_request(settings, "disk", io, EIO, paths),
            "write of 4096 bytes at 512 of 'disk' failed: Input/output error (errno 5); see the server's log "
            "for the reason, unless a line above gives it");
  EXPECT_NE(explain_failed_request(settings, "disk", io, ENOSPC, paths).find("storage is full"),
            std::string::npos);
  paths[0].state = PathState::waiting;
  paths[0].reason = Reason::connect_refused;
  const std::string without = explain_failed_request(settings, "disk", io, EIO, paths);
  EXPECT_NE(without.find("no path is connected, and IO is held for 2 min (queue_timeout): path 10.0.0.2: "
                         "connection refused"),
            std::string::npos)
      << without;
  paths[0].reason = Reason::attempts_exhausted;
  paths[0].last_cause = Reason::connect_timeout;
  EXPECT_NE(explain_failed_request(settings, "disk", io, EIO, paths)
                .find("all reconnect attempts failed, the last of them: no answer to the connect request"),
            std::string::npos);
  io.opcode = wire::rnbd::Opcode::flush;
  EXPECT_EQ(explain_failed_request(settings, "disk", io, EIO, paths).rfind("flush of 'disk' failed", 0), 0U);
}

TEST(Explain, RejectedReopenIsExplainedWithTheWait) {
  Settings settings = some_settings();
  std::vector<PathStatus> paths(1);
  paths[0].state = PathState::connected;
  std::string line = explain_failed_request(settings, "disk", {}, ENOENT, paths, ENOENT);
  EXPECT_NE(line.find("IO is held for 2 min (queue_timeout): the server has no device with this name"),
            std::string::npos)
      << line;
  line = explain_failed_request(settings, "disk", {}, EPERM, paths, EPERM);
  EXPECT_EQ(line.find("queue_timeout"), std::string::npos) << line;
  EXPECT_NE(line.find("does not allow this client to open the device"), std::string::npos) << line;
}

TEST(Explain, TimedOutRequestNamesTheTimeouts) {
  Settings settings = some_settings();
  settings.protocol.request_timeout = seconds(3);
  settings.protocol.queue_timeout = seconds(5);
  const std::string lost = "or the request lost its path each time that it was sent, for 8 s (both together)";
  const std::string late = "or the server did not answer within 3 s (request_timeout)";
  for (const PathState state : {PathState::connected, PathState::waiting}) {
    std::vector<PathStatus> paths(1);
    paths[0].state = state;
    const std::string line = explain_failed_request(settings, "disk", {}, ETIMEDOUT, paths);
    EXPECT_NE(line.find(lost), std::string::npos) << line;
    EXPECT_NE(line.find(late), std::string::npos) << line;
  }
  settings.protocol.queue_timeout = kNever;
  const std::string line = explain_failed_request(settings, "disk", {}, ETIMEDOUT, {});
  EXPECT_EQ(line.find(lost), std::string::npos) << line;
  EXPECT_NE(line.find(late), std::string::npos) << line;
}

TEST(Explain, ErrnoUnknownToNbdBecomesEio) {
  for (const bool can_be_unsupported : {false, true}) {
    EXPECT_EQ(nbd_errno(ENOENT, can_be_unsupported), EIO);
    EXPECT_EQ(nbd_errno(ENODEV, can_be_unsupported), EIO);
    EXPECT_EQ(nbd_errno(ENOSPC, can_be_unsupported), ENOSPC);
    EXPECT_EQ(nbd_errno(EPERM, can_be_unsupported), EPERM);
  }
  EXPECT_EQ(nbd_errno(EOPNOTSUPP, true), EOPNOTSUPP);
  EXPECT_EQ(nbd_errno(EOPNOTSUPP, false), EIO);
}

TEST(Explain, DurationsHaveAUnit) {
  EXPECT_EQ(duration_words(milliseconds(250)), "250 ms");
  EXPECT_EQ(duration_words(milliseconds(1500)), "1500 ms");
  EXPECT_EQ(duration_words(seconds(90)), "90 s");
  EXPECT_EQ(duration_words(seconds(120)), "2 min");
  EXPECT_EQ(duration_words(kNever), "for ever");
}

TEST(Explain, TimeoutIsExplainedForEachPath) {
  const Settings settings = some_settings();
  std::vector<PathStatus> paths(2);
  paths[0].state = PathState::waiting;
  paths[0].reason = Reason::connect_refused;
  paths[1].state = PathState::connecting;
  EXPECT_EQ(explain_timeout(settings, "disk", settings.connect_timeout, paths),
            "no path came up within 15 s (connect_timeout): path 10.0.0.2: " +
                reason_words(Reason::connect_refused, 0) +
                " (no server listens at 10.0.0.2:1234: check that the server is running and that address and "
                "port are correct); path 10.0.1.2: no answer to the connect request within 15 s (no reply "
                "from 10.0.1.2:1234: check the address, that an RTRS server listens on it, and that "
                "firewalls allow its port)");
  paths[1].state = PathState::connected;
  EXPECT_NE(explain_timeout(settings, "disk", settings.connect_timeout, paths).find("did not open 'disk'"),
            std::string::npos);
}

TEST(Explain, PortInThePathIsUsedInMessages) {
  Settings settings = some_settings();
  settings.paths = {"10.0.0.2:7", "[fd00::2]:8"};
  std::vector<PathStatus> paths(2);
  paths[0].state = PathState::waiting;
  paths[0].reason = Reason::connect_refused;
  paths[1].state = PathState::waiting;
  paths[1].reason = Reason::connect_timeout;
  const std::string text = explain_timeout(settings, "disk", seconds(2), paths);
  EXPECT_NE(text.find("no server listens at 10.0.0.2:7:"), std::string::npos) << text;
  EXPECT_NE(text.find("no reply from [fd00::2]:8: "), std::string::npos) << text;
  EXPECT_EQ(text.find("1234"), std::string::npos) << text;
}

TEST(Explain, NameInUseIsExplainedWithDurationAndAdvice) {
  const Settings settings = some_settings();
  std::vector<PathStatus> paths(2);
  paths[0].state = paths[1].state = PathState::waiting;
  paths[0].reason = Reason::peer_closed;
  paths[1].reason = Reason::rejected;
  paths[1].peer_errno = ENOMEM;
  EXPECT_EQ(explain_timeout(settings, "disk", settings.name_in_use_timeout(), paths),
            "no path came up within 75 s: path 10.0.0.2: disconnected by the peer (the server closed the "
            "connection during the handshake: unless its log names a limit, another client probably holds "
            "the session name 'me'; a client that disappeared keeps it for the server's dead-peer time, 35 s "
            "with the default heartbeat. Stop that client, or set session= to another name; allow_sessions "
            "of the server may also exclude this name); path 10.0.1.2: the server reached its limit of "
            "sessions, connections or memory: Cannot allocate memory (errno 12) (close unused sessions, or "
            "raise max_sessions, max_host_sessions or connection_memory_mb of urtrsd: its log says which, "
            "and urtrs limits on its host shows the settings and their use)");
  paths.resize(1);
  paths[0].reason = Reason::name_refused;
  const std::string text = explain_timeout(settings, "disk", settings.name_in_use_timeout(), paths);
  EXPECT_NE(
      text.find("after it received the session name (another client probably holds the session name 'me'"),
      std::string::npos)
      << text;
  EXPECT_TRUE(is_name_refusal(Reason::name_refused, 0));
  EXPECT_TRUE(is_name_refusal(Reason::info_timeout, 0));
  EXPECT_TRUE(is_name_refusal(Reason::rejected, EPERM));
  EXPECT_FALSE(is_name_refusal(Reason::rejected, EEXIST));
  EXPECT_FALSE(is_name_refusal(Reason::bad_conn_rsp, 0));
  EXPECT_FALSE(is_name_refusal(Reason::rejected, ENOMEM));
  EXPECT_FALSE(is_name_refusal(Reason::connect_refused, 0));
}

TEST(Explain, NameInUseIsRetriedLongerThanTheDeadPeerTime) {
  Settings settings = some_settings();
  EXPECT_GE(settings.name_in_use_timeout(), dead_peer_time(HeartbeatConfig{}) + seconds(10));
  settings.protocol.heartbeat.interval = seconds(60);
  EXPECT_GE(settings.name_in_use_timeout(), dead_peer_time(settings.protocol.heartbeat) + seconds(10));
  settings.connect_timeout = seconds(10'000);
  EXPECT_EQ(settings.name_in_use_timeout(), settings.connect_timeout);
}

TEST(Explain, ReasonIncludesTheErrnoOfThePeer) {
  EXPECT_EQ(reason_words(Reason::rejected, ECONNRESET),
            "rejected by the server: Connection reset by peer (errno 104)");
  EXPECT_EQ(
      reason_words(Reason::rejected, ENOMEM),
      "the server reached its limit of sessions, connections or memory: Cannot allocate memory (errno 12)");
  EXPECT_EQ(reason_words(Reason::rejected, EEXIST),
            "another path of the session has the same two addresses: File exists (errno 17)");
}

TEST(Explain, AnotherFabricIsNotReportedAsANameInUse) {
  const Settings settings = some_settings();
  std::vector<PathStatus> paths(1);
  paths[0].state = PathState::waiting;
  paths[0].reason = Reason::bad_conn_rsp;
  const std::string text = explain_timeout(settings, "disk", seconds(15), paths);
  EXPECT_NE(text.find("both ends use the same fabric"), std::string::npos) << text;
  EXPECT_EQ(text.find("session name"), std::string::npos) << text;
}

TEST(Explain, RejectionNamesTheCredentialsOfTheFabric) {
  Settings settings = some_settings();
  std::vector<PathStatus> paths(1);
  paths[0].state = PathState::waiting;
  paths[0].reason = Reason::rejected;
  paths[0].peer_errno = EACCES;
  std::string text = explain_timeout(settings, "disk", seconds(2), paths);
  EXPECT_NE(text.find("tls_keys"), std::string::npos) << text;
  EXPECT_EQ(text.find("auth_keys"), std::string::npos) << text;
  settings.fabric.fabric = "verbs";
  text = explain_timeout(settings, "disk", seconds(2), paths);
  EXPECT_NE(text.find("auth_keys"), std::string::npos) << text;
  EXPECT_EQ(text.find("tls_keys"), std::string::npos) << text;
}

TEST(Explain, EarlyEndNamesWhatWasMissing) {
  EXPECT_EQ(explain_early_end("disk"), "asked to exit before 'disk' was open");
  EXPECT_EQ(explain_early_end(""), "asked to exit before the session was connected");
}

}  // namespace
}  // namespace rtrs::nbdkit::explain_test
