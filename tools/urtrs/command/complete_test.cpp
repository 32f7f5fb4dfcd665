// Tests of shell completion.
#include "tools/urtrs/command/complete.hpp"

#include <gtest/gtest.h>

#include "tools/urtrs/command/arguments.hpp"

namespace rtrs::admin::complete_test {
namespace {

using Words = std::vector<std::string>;

class PlayedNames : public Names {
 public:
  Words sessions() override { return {"web1", "web2", "db"}; }
  Words paths(const std::string& session) override { return {"ip:10.0.0.1@ip:10.0.0.2#" + session}; }
  Words devices(const std::string&) override { return {"disk0"}; }
  Words exports() override { return {"disk0", "iso"}; }
  Words rdma_devices() override { return {"mlx5_0", "rxe0"}; }
  Words mapped_sessions() override { return {"web1@10_0_0_2"}; }
  Words mapped_devices() override { return {"disk7", "disk8"}; }
  Words sockets() override { return {"/run/urtrs/urtrsd-1.sock"}; }
};

Words next(const Words& words, const std::string& current = "") {
  PlayedNames names;
  return complete(words, current, names).words;
}
bool files(const Words& words, const std::string& current = "") {
  PlayedNames names;
  return complete(words, current, names).files;
}
bool has(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

TEST(Complete, OffersNounsAndVerbsFirst) {
  for (const std::string& side : {std::string(), std::string("client")}) {
    const Words all = next(side.empty() ? Words{} : Words{side});
    for (const Form& form : forms()) {
      if (is_client(form.noun) != is_client(side)) continue;
      const std::string noun = form.noun;
      const std::string first = noun == side ? form.verb : side.empty() ? noun : noun.substr(side.size() + 1);
      EXPECT_TRUE(has(all, first)) << noun << " " << form.verb;
    }
  }
  EXPECT_TRUE(has(next({}), "client"));
  EXPECT_EQ(next({"client", "session"}, "r"), Words{"recover"});
  EXPECT_EQ(next({"client", "session", "policy", "web1"}, "r"), Words{"round-robin"});
  EXPECT_EQ(next({}, "se"), Words{"session"});
  EXPECT_EQ(next({"server"}, "pa"), Words{"path"});
}

TEST(Complete, OffersTheVerbsOfANoun) {
  EXPECT_EQ(next({"session"}), (Words{"list", "show", "disconnect"}));
  EXPECT_EQ(next({"sessions"}, "d"), Words{"disconnect"});
  EXPECT_EQ(next({"--json", "path"}, "s"), Words{"show"});
}

TEST(Complete, OffersNamesOfExistingObjects) {
  EXPECT_EQ(next({"session", "show"}), (Words{"web1", "web2", "db"}));
  EXPECT_EQ(next({"session", "show"}, "web"), (Words{"web1", "web2"}));
  EXPECT_EQ(next({"path", "list", "json"}, "d"), Words{"db"});
  EXPECT_EQ(next({"path", "disconnect", "web2"}), Words{"ip:10.0.0.1@ip:10.0.0.2#web2"});
  EXPECT_EQ(next({"device", "close"}), Words{"disk0"});
  EXPECT_EQ(next({"device", "close", "disk0"}, "w"), (Words{"web1", "web2"}));
  EXPECT_EQ(next({"device", "close", "disk0", "web1"}), Words{"force"});
  EXPECT_EQ(next({"export", "remove"}, "i"), Words{"iso"});
  EXPECT_EQ(next({"export", "remove", "iso"}), Words{"force"});
  EXPECT_EQ(next({"reset"}, "w"), (Words{"web1", "web2"}));
  EXPECT_EQ(next({"reset", "web1"}), Words{"ip:10.0.0.1@ip:10.0.0.2#web1"});
}

TEST(Complete, OffersNothingAfterTheLastArgument) {
  EXPECT_EQ(next({"session", "show", "web1"}), Words{});
  EXPECT_EQ(next({"session", "list"}), Words{});
  EXPECT_EQ(next({"nonsense"}), Words{});
}

TEST(Complete, OffersOptionsAndTheirValues) {
  EXPECT_EQ(next({"path", "list"}, "--j"), Words{"--json"});
  EXPECT_TRUE(has(next({}, "--"), "--unit="));
  EXPECT_TRUE(has(next({}, "--"), "--nbd-wait="));
  EXPECT_EQ(next({"path", "list"}, "--unit=K"), Words{"--unit=K"});
  EXPECT_EQ(next({"path", "list", "--unit"}, "K"), Words{"K"});
  EXPECT_EQ(next({"--socket"}), Words{"/run/urtrs/urtrsd-1.sock"});
  EXPECT_EQ(next({"doctor", "--rdma"}, "--rdma-device=r"), Words{"--rdma-device=rxe0"});
  EXPECT_EQ(next({"doctor"}, "--rdma"), (Words{"--rdma", "--rdma-device="}));
  EXPECT_EQ(next({"session", "show", "--"}, "-"), Words{}) << "after -- every word is an argument";
}

TEST(Complete, OffersMappedDevicesAndSessions) {
  EXPECT_EQ(next({"map"}), Words{}) << "devices of a server are not known here";
  EXPECT_EQ(next({"map", "disk0"}), Words{"from"});
  EXPECT_EQ(next({"map", "disk0", "from"}), Words{"web1@10_0_0_2"});
  EXPECT_EQ(next({"map", "disk0", "from", "10.0.0.2"}), (Words{"ro", "rw", "migration"}));
  EXPECT_EQ(next({"map", "disk0", "from", "s", "10.0.0.2", "10.0.1.2"}, "r"), (Words{"ro", "rw"}));
  EXPECT_EQ(next({"unmap"}), (Words{"disk7", "disk8"}));
  EXPECT_EQ(next({"unmap", "disk7"}), Words{"web1@10_0_0_2"});
  EXPECT_EQ(next({"unmap", "disk7", "web1@10_0_0_2"}), Words{"force"});
  EXPECT_EQ(next({"remap"}, "disk8"), Words{"disk8"});
  EXPECT_EQ(next({"mapping", "show"}), (Words{"disk7", "disk8"}));
  EXPECT_EQ(next({"mapping", "list"}), Words{"web1@10_0_0_2"});
  EXPECT_EQ(next({"client", "device", "map"}), Words{"disk0"}) << "of a client, not of urtrs-mapd";
  EXPECT_EQ(next({"map", "disk0"}, "--fabric="),
            (Words{"--fabric=tcp", "--fabric=libfabric", "--fabric=verbs"}));
  EXPECT_EQ(next({"map", "disk0"}, "--tls="), (Words{"--tls=off", "--tls=require"}));
}

TEST(Complete, OffersLogLevels) {
  EXPECT_EQ(next({"log"}, "w"), Words{"warn"});
}

TEST(Complete, OffersFileNames) {
  EXPECT_EQ(next({"trace"}, "st"), (Words{"start", "stop"}));
  EXPECT_TRUE(files({"trace", "start"}));
  EXPECT_TRUE(files({"--socket"}));
  EXPECT_FALSE(files({"trace", "stop"}));
  EXPECT_FALSE(files({"session", "show"}));
}

}  // namespace
}  // namespace rtrs::admin::complete_test
