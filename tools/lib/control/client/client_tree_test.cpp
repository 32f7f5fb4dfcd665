// Tests the attributes of a client: names and formats, when writes complete, and their results. Formats and
// errnos must match Linux 6.12 (docs/protocol.md, section 8).
#include "tools/lib/control/client/client_tree.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/lib/control/client/test_fake_client.hpp"

namespace rtrs::control::client_tree_test {
namespace {

using Names = std::vector<std::string>;
using Done = std::pair<std::string, unsigned>;

const std::string kSession = "devices/virtual/rtrs-client/web1";
const std::string kUp = kSession + "/paths/ip:10.0.0.1@ip:10.0.0.2";
const std::string kDown = kSession + "/paths/ip:10.0.1.2";
const std::string kCtl = "devices/virtual/rnbd-client/ctl";
const std::string kDisk = "devices/virtual/block/rnbd3/rnbd";

class ClientTreeTest : public testing::Test {
 protected:
  ClientTreeTest() {
    client.shown.devices[0].number = 3;
    client.shown.devices[0].handle = 0;  // the handle that a client gives its first device
    client.shown.devices.push_back({"dir/idle", wire::rnbd::AccessMode::read_only, "idle", 0, 0, 0, true, 0});
    PathStatus& up = client.shown.paths[0].status;
    up.traffic.add(Direction::read, 4096 + 32);
    up.traffic.add(Direction::write, 512 + 32);
    up.traffic.add(Direction::write, 1024 + 32);
    up.failovers = 5;
    up.reconnects = 2;
    up.failed_attempts = 9;
    client.shown.policy = MultipathPolicy::min_latency;
  }
  std::string read(const std::string& path) {
    const auto answer = read_attribute(client, path);
    return answer ? (*answer)["text"].get<std::string>() : "errno " + std::to_string(answer.error().error);
  }
  Names names(const std::string& path) {
    Names all;
    const auto answer = look_at_attribute(client, path);
    if (answer)
      for (const auto& [name, kind] : (*answer)["entries"].items()) all.push_back(name);
    return all;
  }
  std::string target(const std::string& path) {
    const auto answer = look_at_attribute(client, path);
    return answer ? (*answer).value("target", "") : "";
  }
  // Starts a write. `ended` becomes 0 or an errno when it completes; nullopt until then.
  void begin(const std::string& path, const std::string& text) {
    ended.reset();
    control.write_attribute(path, text, [this](const auto& written) {
      EXPECT_FALSE(ended) << "told twice";
      ended = written ? 0 : written.error().error;
    });
  }
  std::optional<int> write(const std::string& path, const std::string& text) {
    begin(path, text);
    return ended;
  }
  PathStatus& up() { return client.shown.paths[0].status; }
  PathStatus& down() { return client.shown.paths[1].status; }
  PathStatus& third() { return client.shown.paths[2].status; }

  FakeClient client;
  ClientControl control{client, {}};
  std::optional<int> ended;
};

TEST_F(ClientTreeTest, FilesHaveThePathsOfLinux) {
  EXPECT_EQ(names(""), (Names{"block", "class", "devices"}));
  EXPECT_EQ(target("class/rtrs-client/web1"), "../../devices/virtual/rtrs-client/web1");
  EXPECT_EQ(target("class/rnbd-client/ctl"), "../../devices/virtual/rnbd-client/ctl");
  EXPECT_EQ(target("block/rnbd3"), "../devices/virtual/block/rnbd3");
  EXPECT_EQ(names(kSession), (Names{"add_path", "max_reconnect_attempts", "mpath_policy", "paths"}));
  EXPECT_EQ(names(kSession + "/paths"), (Names{"ip:10.0.0.1@ip:10.0.0.2", "ip:10.0.1.2"}))
      << "one was removed";
  EXPECT_EQ(names(kUp), (Names{"cur_latency", "disconnect", "dst_addr", "hca_name", "hca_port", "reconnect",
                               "remove_path", "src_addr", "state", "stats"}));
  EXPECT_EQ(names(kUp + "/stats"),
            (Names{"cpu_migration_from", "cpu_migration_to", "rdma", "reconnects", "reset_all"}));
  EXPECT_EQ(names(kCtl + "/devices"), Names{"disk0@web1"}) << "an idle device is not mapped";
  EXPECT_EQ(target(kCtl + "/devices/disk0@web1"), "../../../block/rnbd3");
  EXPECT_EQ(names("block"), Names{"rnbd3"});
  EXPECT_EQ(names(kDisk), (Names{"access_mode", "mapping_path", "nr_poll_queues", "remap_device", "resize",
                                 "session", "state", "unmap_device"}));
}

TEST_F(ClientTreeTest, SlashInADeviceNameBecomesAnExclamationMark) {
  client.shown.devices[1].state = "init";
  EXPECT_EQ(names(kCtl + "/devices"), (Names{"dir!idle@web1", "disk0@web1"}));
  EXPECT_EQ(read("devices/virtual/block/rnbd0/rnbd/mapping_path"), "dir/idle\n");
}

TEST_F(ClientTreeTest, FilesHaveTheFormatOfLinux) {
  for (const auto& [path, text] : std::map<std::string, std::string>{
           {kSession + "/max_reconnect_attempts", "-1\n"},
           {kSession + "/mpath_policy", "min-latency (ML: 2)\n"},
           {kUp + "/state", "connected\n"},
           {kUp + "/src_addr", "ip:10.0.0.1\n"},
           {kUp + "/dst_addr", "ip:10.0.0.2\n"},
           {kUp + "/hca_name", "rxe0\n"},
           {kUp + "/hca_port", "1\n"},
           {kUp + "/cur_latency", "41000 ns\n"},
           {kUp + "/reconnect", "Usage: echo 1 > reconnect\n"},
           {kUp + "/disconnect", "Usage: echo 1 > disconnect\n"},
           {kUp + "/remove_path", "Usage: echo 1 > remove_path\n"},
           {kUp + "/stats/rdma", "1 4128 2 1600 3 5\n"},
           {kUp + "/stats/reconnects", "2 9\n"},
           {kUp + "/stats/reset_all", "echo 1 to reset all statistics\n"},
           {kDown + "/state", "disconnected\n"},
           {kDown + "/src_addr", "\n"},
           {kDown + "/cur_latency", "0 ns\n"},
           {kDisk + "/state", "open\n"},
           {kDisk + "/session", "web1\n"},
           {kDisk + "/mapping_path", "disk0\n"},
           {kDisk + "/access_mode", "rw\n"},
           {kDisk + "/nr_poll_queues", "0\n"},
           {kDisk + "/unmap_device", "Usage: echo <normal|force> > unmap_device\n"},
           {kDisk + "/remap_device", "Usage: echo <1> > remap_device\n"},
           {kDisk + "/resize", "Usage: echo <new size in sectors> > resize\n"},
           {"devices/virtual/block/rnbd3/size", "2048\n"}})
    EXPECT_EQ(read(path), text) << path;
  const std::string migrations = read(kUp + "/stats/cpu_migration_from");
  EXPECT_EQ(migrations.substr(0, 2), "0 ");
  EXPECT_EQ(migrations.substr(migrations.size() - 2), " \n");
  EXPECT_EQ(read(kCtl + "/map_device").find("Usage: echo \"[dest_port="), 0U);
  client.shown.devices[0].state = "unmapping";
  EXPECT_EQ(read(kDisk + "/state"), "unmapped\n");
  EXPECT_EQ(read(kUp + "/none"), "errno " + std::to_string(ENOENT));
  EXPECT_EQ(read(kUp), "errno " + std::to_string(EISDIR));
}

TEST_F(ClientTreeTest, ReadOnlyFilesRefuseWrites) {
  for (const std::string& path :
       {kUp + "/state", kUp + "/cur_latency", kDisk + "/access_mode", kDisk + "/nr_poll_queues"}) {
    EXPECT_EQ((*look_at_attribute(client, path))["mode"], 0444) << path;
    EXPECT_EQ(write(path, "1"), EACCES) << path;
  }
  EXPECT_EQ((*look_at_attribute(client, kUp + "/stats/rdma"))["mode"], 0644);
}

TEST_F(ClientTreeTest, WritingOneResetsAStatistic) {
  for (const char* text : {"", "\n", "0", "2\n", "1x", " 1", "1\n\n"})
    for (const char* file : {"rdma", "reconnects", "reset_all", "cpu_migration_from", "cpu_migration_to"})
      EXPECT_EQ(write(kUp + "/stats/" + file, text), EINVAL) << file << text;
  EXPECT_TRUE(client.done.empty());
  for (const char* file : {"rdma", "reconnects", "reset_all", "cpu_migration_from", "cpu_migration_to"})
    EXPECT_EQ(write(kUp + "/stats/" + file, "1\n"), 0) << file;
  EXPECT_EQ(client.done, (std::vector<Done>{{"reset traffic", 0}, {"reset reconnects", 0}, {"reset", 0}}));
  EXPECT_EQ(write(kDown + "/stats/rdma", "1"), 0);
  EXPECT_EQ(client.done.back(), (Done{"reset traffic", 1}));
}

TEST_F(ClientTreeTest, SessionSettingsAreWrittenAndReadBack) {
  EXPECT_EQ(write(kSession + "/max_reconnect_attempts", "7\n"), 0);
  EXPECT_EQ(read(kSession + "/max_reconnect_attempts"), "7\n");
  EXPECT_EQ(write(kSession + "/max_reconnect_attempts", "10000"), EINVAL);
  EXPECT_EQ(write(kSession + "/max_reconnect_attempts", "2147483648"), ERANGE);
  EXPECT_EQ(write(kSession + "/mpath_policy", "RR\n"), 0);
  EXPECT_EQ(read(kSession + "/mpath_policy"), "round-robin (RR: 0)\n");
  EXPECT_EQ(write(kSession + "/mpath_policy", "3"), EINVAL);
}

TEST_F(ClientTreeTest, DisconnectReturnsWhenThePathIsClosed) {
  for (const char* text : {"", "0", "1\n\n", "disconnect"})
    EXPECT_EQ(write(kUp + "/disconnect", text), EINVAL) << text;
  EXPECT_TRUE(client.done.empty());
  up().state = PathState::closing;
  begin(kUp + "/disconnect", "1\n");
  EXPECT_EQ(client.done, (std::vector<Done>{{"disconnect", 0}}));
  EXPECT_EQ(ended, std::nullopt);
  control.go_on();
  EXPECT_EQ(ended, std::nullopt);
  up().state = PathState::closed;
  control.go_on();
  EXPECT_EQ(ended, 0);
}

TEST_F(ClientTreeTest, RemovePathReturnsWhenThePathIsRemoved) {
  up().state = PathState::draining;
  begin(kUp + "/remove_path", "1");
  EXPECT_EQ(client.done, (std::vector<Done>{{"remove", 0}}));
  EXPECT_EQ(ended, std::nullopt);
  up().state = PathState::absent;
  control.go_on();
  EXPECT_EQ(ended, 0);
  EXPECT_EQ(write(kUp + "/remove_path", "1"), ENOENT);
}

TEST_F(ClientTreeTest, ReconnectReturnsWhenItsAttemptEnds) {
  down().state = PathState::connecting;
  EXPECT_EQ(write(kDown + "/reconnect", "1"), EBUSY);
  down().state = PathState::closing;
  EXPECT_EQ(write(kDown + "/reconnect", "1"), EBUSY);
  EXPECT_TRUE(client.done.empty());
  for (const auto& [end, error] : std::vector<std::pair<PathState, int>>{{PathState::connected, 0},
                                                                         {PathState::waiting, ENOTCONN},
                                                                         {PathState::closed, ENOTCONN},
                                                                         {PathState::absent, ENOTCONN}}) {
    down().state = PathState::draining;
    begin(kDown + "/reconnect", "1\n");
    EXPECT_EQ(client.done.back(), (Done{"reconnect", 1}));
    down().state = PathState::connecting;
    control.go_on();
    EXPECT_EQ(ended, std::nullopt);
    down().state = end;
    control.go_on();
    EXPECT_EQ(ended, error) << to_string(end);
  }
  client.error = ENOENT;
  down().state = PathState::waiting;
  EXPECT_EQ(write(kDown + "/reconnect", "1"), ENOENT) << "a refusal by the client is returned at once";
}

TEST_F(ClientTreeTest, HeldBackPathHasNotFailed) {
  down().state = PathState::draining;
  begin(kDown + "/reconnect", "1");
  down().state = PathState::waiting;
  down().held_back = true;
  control.go_on();
  EXPECT_EQ(ended, std::nullopt);
}

TEST_F(ClientTreeTest, WriteTimesOutAfterItsLimit) {
  up().state = PathState::closing;
  begin(kUp + "/disconnect", "1");
  client.clock += ClientControl::kWriteBound - 1;
  control.go_on();
  EXPECT_EQ(ended, std::nullopt);
  client.clock += 1;
  control.go_on();
  EXPECT_EQ(ended, ETIMEDOUT);
}

TEST_F(ClientTreeTest, AddPathReturnsWhenThePathIsConnected) {
  for (const char* text : {"", "\n", "x", "ip:", "10.0.2.2", "gid:1", "ip:10.0.2.1@", "@ip:10.0.2.2"})
    EXPECT_EQ(write(kSession + "/add_path", text), EINVAL) << text;
  EXPECT_EQ(write(kSession + "/add_path", "ip:10.0.0.1,ip:10.0.0.2\n"), EEXIST);
  third().state = PathState::connecting;
  begin(kSession + "/add_path", "ip:10.0.2.1@ip:10.0.2.3\n");
  EXPECT_EQ(client.added.source, "10.0.2.1");
  EXPECT_EQ(client.added.port, 1234);
  EXPECT_EQ(ended, std::nullopt);
  third().state = PathState::connected;
  control.go_on();
  EXPECT_EQ(ended, 0);
  EXPECT_TRUE(client.done.empty());
}

TEST_F(ClientTreeTest, PathThatCannotConnectIsRemovedWithTheErrnoOfTheCause) {
  third().state = PathState::connecting;
  begin(kSession + "/add_path", "ip:10.0.2.9");
  third().state = PathState::waiting;
  third().reason = Reason::connect_refused;
  control.go_on();
  EXPECT_EQ(ended, ECONNREFUSED);
  EXPECT_EQ(client.done, (std::vector<Done>{{"remove", 2}}));
  third().state = PathState::connecting;
  begin(kSession + "/add_path", "ip:10.0.2.9");
  third().state = PathState::waiting;
  third().reason = Reason::rejected;
  third().peer_errno = EBUSY;
  control.go_on();
  EXPECT_EQ(ended, EBUSY) << "the errno of the server takes precedence";
}

TEST_F(ClientTreeTest, MapDeviceReturnsWhenTheServerHasOpenedTheDevice) {
  for (const auto& [text, error] : std::vector<std::pair<std::string, int>>{
           {"", EINVAL},
           {"sessname=web1", EINVAL},
           {"sessname=web1 device_path=d access_mode=zz", EINVAL},
           {"sessname=web1 device_path=d nr_poll_queues=1", EINVAL},
           {"sessname=web2 device_path=d", ENXIO},
           {"sessname=web2 device_path=d path=10.0.0.2", EPROTONOSUPPORT},
           {"sessname=web2 device_path=d path=ip:10.0.0.2 path=ip:10.0.0.2", EEXIST},
           {"sessname=web2 device_path=d path=ip:10.0.0.2", ENODEV},
           {"sessname=web1 device_path=disk0", EEXIST}})
    EXPECT_EQ(write(kCtl + "/map_device", text), error) << text;
  EXPECT_EQ(client.mapped, "");
  begin(kCtl + "/map_device", "sessname=web1 device_path=dir/idle access_mode=ro\n");
  EXPECT_EQ(client.mapped, "dir/idle ro");
  EXPECT_EQ(ended, std::nullopt);
  client.tell_mapped(0, {});
  EXPECT_EQ(ended, 0);
  begin(kCtl + "/map_device", "sessname=web1 device_path=other");
  EXPECT_EQ(client.mapped, "other rw");
  client.tell_mapped(EPERM, "no");
  EXPECT_EQ(ended, EPERM);
}

TEST_F(ClientTreeTest, UnmapDeviceReturnsWhenTheDeviceIsUnmapped) {
  for (const char* text : {"", "\n", "1", "Normal", "norm", "normal x", "force normal"})
    EXPECT_EQ(write(kDisk + "/unmap_device", text), EINVAL) << text;
  client.error = EBUSY;
  EXPECT_EQ(write(kDisk + "/unmap_device", " normal\n\n"), EBUSY);
  begin(kDisk + "/unmap_device", "force\n");
  EXPECT_EQ(client.unmapped, "disk0");
  EXPECT_EQ(ended, std::nullopt);
  client.shown.devices[0].state = "unmapping";
  control.go_on();
  EXPECT_EQ(ended, std::nullopt);
  client.shown.devices[0].state = "idle";
  control.go_on();
  EXPECT_EQ(ended, 0);
}

TEST_F(ClientTreeTest, DeviceIsRemappedAndResized) {
  for (const char* text : {"", "0", "11", "1x"})
    EXPECT_EQ(write(kDisk + "/remap_device", text), EINVAL) << text;
  EXPECT_EQ(write(kDisk + "/remap_device", " 1 \n"), 0);
  for (const char* text : {"", "x", "-1", " 4096"}) EXPECT_EQ(write(kDisk + "/resize", text), EINVAL) << text;
  EXPECT_EQ(write(kDisk + "/resize", "99999999999999999999"), ERANGE);
  EXPECT_EQ(write(kDisk + "/resize", "0x1000\n"), 0);
  EXPECT_EQ(read("devices/virtual/block/rnbd3/size"), "4096\n");
  client.error = EALREADY;
  EXPECT_EQ(write(kDisk + "/remap_device", "1"), EALREADY);
  client.error = ENOENT;
  EXPECT_EQ(write(kDisk + "/resize", "1"), ENOENT);
}

}  // namespace
}  // namespace rtrs::control::client_tree_test
