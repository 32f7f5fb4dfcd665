// Tests the attributes of a server: names, formats, and results of writes. The formats must match Linux 6.12
// (docs/protocol.md, section 8).
#include "tools/lib/control/attributes/server_tree.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

namespace rtrs::attributes::server_tree_test {
namespace {

class Operations : public ServerOperations {
 public:
  int disconnect_path(std::uint16_t session, unsigned path) override {
    return note("disconnect " + std::to_string(session) + " " + std::to_string(path));
  }
  int reset_traffic(std::uint16_t session, unsigned path) override {
    return note("reset " + std::to_string(session) + " " + std::to_string(path));
  }
  int force_close(std::uint64_t handle) override { return note("close " + std::to_string(handle)); }
  std::vector<std::string> done;
  int answer = 0;

 private:
  int note(std::string what) {
    done.push_back(std::move(what));
    return answer;
  }
};

ServerPathStatus path(unsigned index, std::string peer, PathState state) {
  ServerPathStatus one;
  one.path = index;
  one.state = state;
  one.peer = std::move(peer);
  one.device = {"rxe0", 1};
  one.traffic.add(Direction::read, 4096 + 32);
  one.traffic.add(Direction::write, 512 + 32);
  one.traffic.add(Direction::write, 1024 + 32);
  return one;
}

class ServerTreeTest : public testing::Test {
 protected:
  ServerTreeTest() {
    ServerSessionStatus blya;
    blya.session = 3;
    blya.opened = true;
    blya.name = "blya";
    blya.paths = {path(0, "10.0.0.1:40112 > 10.0.0.2:1234", PathState::connected),
                  path(2, "[fe80::1]:40112 > [fe80::2]:1234", PathState::closing)};
    ServerSessionStatus opening;
    opening.session = 4;
    opening.paths = {path(0, "10.0.0.9:1 > 10.0.0.2:1234", PathState::connecting)};
    model->sessions = {blya, opening};
    model->devices = {{"/srv/disk0.img",
                       {{"blya", 17, wire::rnbd::AccessMode::read_write, "disk0", 0},
                        {"other", 18, wire::rnbd::AccessMode::migration, "img/0", 0}}},
                      {"memory:ram", {{"blya", 19, wire::rnbd::AccessMode::read_only, "ram", 0}}}};
    model->parameters = {true, 131072, 512, 1234, "/srv/%SESSNAME%"};
  }
  std::string read(const std::string& path) {
    const auto node = tree().find(path);
    return node && node->kind() == Node::Kind::file ? node->read() : "no file";
  }
  int write(const std::string& path, std::string_view text) {
    const auto node = tree().find(path);
    return node ? node->write(text) : -1;
  }
  std::vector<std::string> names(const std::string& path) {
    std::vector<std::string> all;
    const auto node = tree().find(path);
    if (node)
      for (const auto& [name, make] : node->entries()) all.push_back(name);
    return all;
  }
  Node tree() { return server_tree(model, operations); }

  std::shared_ptr<ServerModel> model = std::make_shared<ServerModel>();
  Operations operations;
};

using Names = std::vector<std::string>;
constexpr const char* kPath = "devices/virtual/rtrs-server/blya/paths/ip:10.0.0.1@ip:10.0.0.2";

TEST_F(ServerTreeTest, SessionIsListedWhileAPathIsConnected) {
  EXPECT_EQ(names("class/rtrs-server"), Names{"blya"});
  EXPECT_EQ(tree().find("class/rtrs-server/blya")->target(), "../../devices/virtual/rtrs-server/blya");
  model->sessions[0].paths[0].state = PathState::closing;
  EXPECT_EQ(names("class/rtrs-server"), Names{});
  EXPECT_EQ(names("devices/virtual/rtrs-server"), Names{});
}

TEST_F(ServerTreeTest, ClosingPathIsNotListed) {
  EXPECT_EQ(names("devices/virtual/rtrs-server/blya/paths"), Names{"ip:10.0.0.1@ip:10.0.0.2"});
}

TEST_F(ServerTreeTest, PathFilesHaveTheFormatOfLinux) {
  const std::string at = kPath;
  EXPECT_EQ(names(at), (Names{"disconnect", "dst_addr", "hca_name", "hca_port", "src_addr", "stats"}));
  EXPECT_EQ(read(at + "/src_addr"), "ip:10.0.0.1\n");
  EXPECT_EQ(read(at + "/dst_addr"), "ip:10.0.0.2\n");
  EXPECT_EQ(read(at + "/hca_name"), "rxe0\n");
  EXPECT_EQ(read(at + "/hca_port"), "1\n");
  EXPECT_EQ(read(at + "/disconnect"), "Usage: echo 1 > disconnect\n");
  EXPECT_EQ(read(at + "/stats/rdma"), "1 4128 2 1600\n");
}

TEST_F(ServerTreeTest, OnlyWritingOneStartsTheOperation) {
  const std::string at = kPath;
  EXPECT_EQ(write(at + "/disconnect", "1\n"), 0);
  EXPECT_EQ(write(at + "/disconnect", "1"), 0);
  EXPECT_EQ(write(at + "/stats/rdma", "1\n"), 0);
  EXPECT_EQ(operations.done, (Names{"disconnect 3 0", "disconnect 3 0", "reset 3 0"}));
  for (const char* text : {"", "0", "1\n\n", " 1", "11", "normal"}) {
    EXPECT_EQ(write(at + "/disconnect", text), EINVAL) << text;
    EXPECT_EQ(write(at + "/stats/rdma", text), EINVAL) << text;
  }
  EXPECT_EQ(write(at + "/src_addr", "1"), EACCES);
  EXPECT_EQ(operations.done.size(), 3U);
}

TEST_F(ServerTreeTest, WriteReturnsTheErrnoOfTheOperation) {
  operations.answer = ENOENT;
  EXPECT_EQ(write(std::string(kPath) + "/disconnect", "1"), ENOENT);
}

TEST_F(ServerTreeTest, DevicesAreListedByTheNameOfTheirBackingFile) {
  const std::string devices = "devices/virtual/rnbd-server/ctl/devices";
  EXPECT_EQ(names(devices), (Names{"disk0.img", "memory:ram"}));
  EXPECT_EQ(names(devices + "/disk0.img"), (Names{"block_dev", "sessions"}));
  EXPECT_EQ(tree().find(devices + "/disk0.img/block_dev")->target(), "/srv/disk0.img");
  EXPECT_EQ(names(devices + "/disk0.img/sessions"), (Names{"blya", "other"}));
  const std::string use = devices + "/disk0.img/sessions/other";
  EXPECT_EQ(names(use), (Names{"access_mode", "force_close", "mapping_path", "read_only"}));
  EXPECT_EQ(read(use + "/access_mode"), "migration\n");
  EXPECT_EQ(read(use + "/read_only"), "0\n");
  EXPECT_EQ(read(use + "/mapping_path"), "img/0\n");
  EXPECT_EQ(read(devices + "/memory:ram/sessions/blya/read_only"), "1\n");
  EXPECT_EQ(write(use + "/force_close", "1"), 0);
  EXPECT_EQ(operations.done, Names{"close 18"});
}

TEST_F(ServerTreeTest, DevicesWithTheSameFileNameHaveSeparateFolders) {
  model->devices.push_back({"/other/disk0.img", {}});
  const std::string devices = "devices/virtual/rnbd-server/ctl/devices";
  EXPECT_EQ(names(devices), (Names{"!other!disk0.img", "!srv!disk0.img", "memory:ram"}));
  model->devices.push_back({"/", {}});
  EXPECT_EQ(names(devices), (Names{"!", "!other!disk0.img", "!srv!disk0.img", "memory:ram"}));
}

TEST_F(ServerTreeTest, ParametersOfTheModules) {
  EXPECT_EQ(read("module/rtrs_server/parameters/always_invalidate"), "Y\n");
  EXPECT_EQ(read("module/rtrs_server/parameters/max_chunk_size"), "131072\n");
  EXPECT_EQ(read("module/rtrs_server/parameters/sess_queue_depth"), "512\n");
  EXPECT_EQ(read("module/rnbd_server/parameters/port_nr"), "1234\n");
  EXPECT_EQ(read("module/rnbd_server/parameters/dev_search_path"), "/srv/%SESSNAME%\n");
}

TEST_F(ServerTreeTest, MissingPathIsNotFound) {
  for (const char* path : {"x", "class/x", "class/rtrs-server/blya/paths", "..", "devices/../class",
                           "devices/virtual/rtrs-server/blya/paths/ip:10.0.0.1@ip:10.0.0.2/src_addr/x"})
    EXPECT_FALSE(tree().find(path)) << path;
  EXPECT_TRUE(tree().find(""));
  EXPECT_TRUE(tree().find("//class//"));
}

TEST_F(ServerTreeTest, PeerChosenNamesCannotLeaveTheirFolder) {
  EXPECT_EQ(entry_name("../x"), "..!x");
  EXPECT_EQ(entry_name(".."), "!..");
  EXPECT_EQ(entry_name(""), "!");
  model->sessions[0].name = "../x";
  EXPECT_EQ(names("class/rtrs-server"), Names{"..!x"});
  EXPECT_EQ(names("devices/virtual/rtrs-server"), Names{"..!x"});
  model->devices[0].uses[0].session = "a/b";
  EXPECT_EQ(read("devices/virtual/rnbd-server/ctl/devices/disk0.img/sessions/a!b/mapping_path"), "disk0\n");
}

TEST(PathEnds, ParsesAnyText) {
  EXPECT_EQ(path_ends("10.0.0.1:1 > 10.0.0.2:2").source, "ip:10.0.0.1");
  EXPECT_EQ(path_ends("[fe80::1]:1 > [fe80::2]:2").destination, "ip:fe80::2");
  EXPECT_EQ(path_ends("[fe80::1%Eth7]:1 > [fe80::2%Eth7]:2").destination, "ip:fe80::2%Eth7");
  EXPECT_EQ(path_ends("loop").source, "ip:unknown");
  EXPECT_EQ(path_ends("").destination, "ip:unknown");
}

}  // namespace
}  // namespace rtrs::attributes::server_tree_test
