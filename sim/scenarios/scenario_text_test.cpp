// Parses valid and invalid scenario texts, and checks the error messages.
#include "sim/scenarios/scenario_text.hpp"

#include <gtest/gtest.h>

#include "sim/scenarios/directed.hpp"
#include "sim/world/world.hpp"

namespace rtrs::sim::scenario_text_test {
namespace {

std::vector<ScenarioText> read(std::string_view text) {
  Setups setups;
  std::string why;
  auto all = parse_scenarios(text, setups, why);
  EXPECT_TRUE(all) << why;
  return all ? std::move(*all) : std::vector<ScenarioText>{};
}
std::string refusal(std::string_view text) {
  Setups setups;
  std::string why;
  return parse_scenarios(text, setups, why) ? "accepted" : why;
}

TEST(ScenarioText, SetupsApplyInOrderAndBeforeTheSettingsOfTheScenario) {
  const auto all = read(
      "setup busy\n set workload.requests=200 workload.gap=50us\n"
      "setup three: busy\n\tset paths=3\n\n# a comment\n"
      "scenario X1: three\n  title what it is: busy\n  set paths=4 client.policy=min-latency\n"
      "  cut path=1\r\n  completed number=100\n"
      "scenario X2\n expect O9");
  ASSERT_EQ(all.size(), 2u);
  ZeroChoice calm;
  const Scenario s = world_of(all[0], calm);
  EXPECT_EQ(s.paths, 4u);
  EXPECT_EQ(s.workload.requests, 200u);
  EXPECT_EQ(s.workload.gap, microseconds(50));
  EXPECT_EQ(s.client.policy, MultipathPolicy::min_latency);
  ASSERT_EQ(s.script.size(), 2u);
  EXPECT_EQ(to_text(s.script[0]), "cut path=1");
  EXPECT_EQ(all[0].title, "what it is: busy");
  EXPECT_EQ(all[1].expect, "O9");
  EXPECT_EQ(world_of(all[1], calm).paths, 2u);
}

TEST(ScenarioText, ExtensionsAreNamesOrTheNumberOfTheByte) {
  const auto client_offers = [](const std::string& text) {
    ZeroChoice calm;
    return world_of(read("scenario X\n set client.extensions=" + text)[0], calm).client.extensions;
  };
  ZeroChoice calm;
  const auto described = [&calm](const std::string& lines) {
    return world_of(read("scenario X\n" + lines)[0], calm).describe();
  };
  EXPECT_NE(described("set client.extensions=fence server.extensions=fence").find(", extensions fence, "),
            std::string::npos);
  EXPECT_NE(described("set client.extensions=fence+probe server.extensions=none")
                .find(", extensions fence+probe (client) and none (server), "),
            std::string::npos);
  EXPECT_EQ(client_offers("none"), wire::Extensions::none);
  EXPECT_EQ(client_offers("keys_stay"), wire::Extensions::keys_stay);
  EXPECT_EQ(client_offers("data_with_answer"), wire::Extensions::data_with_answer);
  EXPECT_EQ(client_offers("probe+fence"), wire::Extensions::fence | wire::Extensions::probe);
  EXPECT_EQ(client_offers("130"), wire::Extensions{0x80} | wire::Extensions::generation);
  for (const char* wrong : {"256", "fences", "fence+", "+fence", "fence,probe"})
    EXPECT_EQ(refusal(std::string("scenario A\nset client.extensions=") + wrong),
              std::string("line 2: '") + wrong + "' is not a value of client.extensions");
}

TEST(ScenarioText, ErrorsNameTheLine) {
  EXPECT_EQ(refusal("cut path=1"), "line 1: a scenario begins with 'scenario ID'");
  EXPECT_EQ(refusal("scenario"), "line 1: missing name (no spaces allowed)");
  EXPECT_EQ(refusal("scenario A B"), "line 1: missing name (no spaces allowed)");
  EXPECT_EQ(refusal("scenario A: none"), "line 1: unknown setup 'none': define it above this line");
  EXPECT_EQ(refusal("scenario A\nset pahts=2"), "line 2: unknown option 'pahts'");
  EXPECT_EQ(refusal("scenario A\nset paths"), "line 2: expected NAME=VALUE instead of 'paths'");
  EXPECT_EQ(refusal("scenario A\nset paths=many"), "line 2: 'many' is not a value of paths");
  EXPECT_EQ(refusal("scenario A\nset paths=-1"), "line 2: '-1' is not a value of paths");
  EXPECT_EQ(
      refusal("scenario A\nset workload.gap=99999999999999999999s"),
      "line 2: '99999999999999999999s' is not a value of workload.gap, a time in s, ms, us or ns, or never");
  EXPECT_EQ(
      refusal("scenario A\nset workload.gap=18446744073709551615s"),
      "line 2: '18446744073709551615s' is not a value of workload.gap, a time in s, ms, us or ns, or never");
  EXPECT_EQ(
      refusal("scenario A\nset client.reconnect_jitter=333333333"),
      "line 2: '333333333' is not a value of client.reconnect_jitter, a time in s, ms, us or ns, or never");
  EXPECT_EQ(refusal("scenario A\nset workload.own_disks=true"),
            "line 2: unknown option 'workload.own_disks'");
  EXPECT_EQ(refusal("scenario A\ntitle t\nset paths=129\ncut path=5"),
            "line 3: A: \"paths\" of the scenario is out of range");
  EXPECT_EQ(refusal("scenario A\nset dead_paths_1=2\nset paths=2\nset clients=3"),
            "line 4: A: \"clients\" of the scenario must be 1 or 2");
  EXPECT_EQ(refusal("scenario A\ncrash client=2"),
            "line 2: A: 'crash client=2' is none of the clients 1 to 1 (set clients=)");
  EXPECT_EQ(refusal("scenario A\ncut path=2\nscenario B\nset paths=3"),
            "line 2: A: 'cut path=2' is none of the paths 0 to 1 (set paths=)");
  EXPECT_EQ(refusal("scenario A\nset paths=3 clients=2\ncut path=2 client=2\ncrash client=0"), "accepted");
  EXPECT_EQ(refusal("setup a\nset paths=129\nscenario B: a"),
            "line 2: a: \"paths\" of the scenario is out of range");
  EXPECT_EQ(refusal("setup a\nset paths=2\nscenario B: a\nset dead_paths_1=3"),
            "line 4: B: at least one path of each client in the scenario must not be dead");
  EXPECT_EQ(refusal("setup a\nset dead_paths_1=1\n\nscenario B: a\nset paths=1"),
            "line 5: B: at least one path of each client in the scenario must not be dead");
  EXPECT_EQ(refusal("setup a\ncut path=1"), "line 2: a setup may only contain 'set' lines");
  EXPECT_EQ(refusal("scenario A\n\n\nexplode"), "line 4: unknown verb 'explode'");
  EXPECT_EQ(refusal("scenario A\nexpect miracles"), "line 2: 'expect' needs ok or the id of an oracle");
  EXPECT_EQ(refusal("scenario A\nscenario A"), "line 2: duplicate scenario 'A'");
}

TEST(ScenarioText, TimesHaveUnitsOrAreNever) {
  const auto all = read("scenario A\nset client.queue_timeout=never workload.gap=0 client.close_timeout=2s");
  ZeroChoice calm;
  const Scenario s = world_of(all.at(0), calm);
  EXPECT_EQ(s.client.queue_timeout, kNever);
  EXPECT_EQ(s.workload.gap, 0u);
  EXPECT_EQ(s.client.close_timeout, seconds(2));
}

TEST(ScenarioText, ErrorsInBlockDeviceStepsNameTheLine) {
  const auto why = [](const std::string& line) { return refusal("scenario A\ndisks a b=128\n" + line); };
  EXPECT_EQ(refusal("scenario A\ndisks"), "line 2: 'disks' needs the names of disks");
  EXPECT_EQ(refusal("scenario A\ndisks a=0"),
            "line 2: expected NAME or NAME=SECTORS (1 to 4096) instead of 'a=0'");
  EXPECT_EQ(refusal("scenario A\ndisks a a"), "line 2: a disk 'a' already exists");
  EXPECT_EQ(refusal("scenario A\ncut path=1\ndisks a"), "line 3: 'disks' must come before all steps");
  EXPECT_EQ(refusal("setup s\ndisks a"), "line 2: a setup may only contain 'set' lines");
  EXPECT_EQ(why("disks c"), "line 3: duplicate 'disks' line");
  EXPECT_EQ(why("explode a"), "line 3: unknown verb 'explode' for block devices");
  EXPECT_EQ(why("open"), "line 3: open needs a name");
  EXPECT_EQ(why("open c"), "line 3: no disk 'c' in the line 'disks'");
  EXPECT_EQ(why("open a number=3"), "line 3: open takes no 'number=3'");
  EXPECT_EQ(why("read a fua"), "line 3: read takes no 'fua'");
  EXPECT_EQ(why("write a sector=9..3"), "line 3: invalid value: 'sector=9..3'");
  EXPECT_EQ(why("write a sector=3..3"), "line 3: invalid value: 'sector=3..3'");
  EXPECT_EQ(why("write a sectors=0"), "line 3: sectors= must be at least 1");
  EXPECT_EQ(why("write a sectors=4097"), "line 3: invalid value: 'sectors=4097'");
  EXPECT_EQ(why("write a is=EWHAT"), "line 3: invalid value: 'is=EWHAT'");
  EXPECT_EQ(why("break_path path=2"), "line 3: invalid value: 'path=2'");
  EXPECT_EQ(why("pass time=5"), "line 3: invalid value: 'time=5'");
  EXPECT_EQ(why("pass time=99999999h"), "line 3: invalid value: 'time=99999999h'");
  EXPECT_EQ(why("pass time=1..4000s"), "line 3: invalid value: 'time=1..4000s'");
  EXPECT_EQ(why("pass"), "line 3: pass needs time=");
  EXPECT_EQ(why("done first"), "line 3: done needs is=");
  EXPECT_EQ(why("end"), "line 3: 'end' without a 'repeat' or 'either' before it");
  EXPECT_EQ(why("repeat number=2\nor"), "line 4: 'or' without an 'either' before it");
  EXPECT_EQ(why("either\nover\nor\nover"), "line 3: A: this 'repeat' or 'either' has no 'end'");
  EXPECT_EQ(why("repeat number=2\nover\nend\neither\nrepeat number=1\nend\n"),
            "line 6: A: this 'repeat' or 'either' has no 'end'");
  EXPECT_EQ(why("open a\ndone first is=ok\nwrite a as=first"), "line 4: no IO before this line has as=first");
  for (const char* option : {"workload.requests=2", "workload.disks=1", "workload.block_device=true",
                             "other_server=true", "clients=2", "paths=1"})
    EXPECT_EQ(refusal(std::string("scenario A\nset ") + option + "\ndisks a\nopen a"),
              "line 2: A: a scenario of block devices must have one client, two paths to one server, and no "
              "load besides its steps")
        << option;
  EXPECT_EQ(refusal("scenario A\nset workload.max_queued=65537"),
            "line 2: A: \"max_queued\" of the scenario must be 256 to 65536, \"max_requests\" and "
            "\"server_actions\" 1 or more");
  EXPECT_EQ(why("write a"), "line 3: no line before this one maps a");
  EXPECT_EQ(why("map a is=EEXIST\nflush a"), "line 4: no line before this one maps a");
  EXPECT_EQ(why("unmapped nowhere"), "line 3: no line before this one maps nowhere");
  EXPECT_EQ(why("open a\nsize a sector=1 sectors=64"), "line 4: size takes no 'sector=1'");
  EXPECT_EQ(why("open a\nspread a number=9"), "line 4: spread needs number= up to 8");
  EXPECT_EQ(why("either\nover\nor\nrepeat number=0..3\nopen b\nend\nend\nflush b"), "accepted");
}

TEST(ScenarioText, BlockDeviceScenarioFailsAtAnUnmetLine) {
  const auto play = [](const std::string& lines) {
    const auto all = read("scenario A\n set workload.disk_time=2ms\n disks a\n" + lines);
    ZeroChoice calm;
    const Scenario scenario = world_of(all.at(0), calm);
    WorldOptions options;
    options.scenario = &scenario;
    return World(options, calm).run().failure.text;
  };
  EXPECT_EQ(play("open a\nwrite a as=x\ndone x is=ok\nread a is=ok\nopenings a number=1\nholders a number=1"),
            "");
  for (const std::string line :
       {"openings a number=2", "holders a number=0", "size a sectors=65", "not_open a", "write a is=failed",
        "write a is=EIO", "write a sector=64 is=ok", "refused a is=EPERM", "start", "unmapped a"})
    EXPECT_NE(play("open a\n" + line), "") << line;
  EXPECT_NE(play("map a is=EEXIST"), "");
  EXPECT_NE(play("either\nlink_up\nor\nopen a\nend\nwrite a is=ok"), "")
      << "the part that was not drawn maps it";
  EXPECT_EQ(play("open a\nrepeat number=3\nwrite a is=ok\nend\nacted a number=3"), "");
}

TEST(ScenarioText, BlockDeviceFailureNamesTheLineAndTheActualState) {
  const auto play = [](const std::string& lines) {
    const auto all = read("scenario A\ndisks a\nopen a\n" + lines);
    ZeroChoice calm;
    const Scenario scenario = world_of(all.at(0), calm);
    WorldOptions options;
    options.scenario = &scenario;
    return World(options, calm).run().failure.text;
  };
  EXPECT_EQ(play("write a sector=64 as=late\ndone late is=ok"),
            "line 5 'done late is=ok': 'write a sector=64 as=late' of line 4 ended with EIO (errno 5)");
  EXPECT_EQ(play("write a is=failed"), "line 4 'write a is=failed': it ended with success");
  EXPECT_EQ(play("write a sector=64 is=EPERM"),
            "line 4 'write a sector=64 is=EPERM': it ended with EIO (errno 5)");
  EXPECT_EQ(play("size a sectors=65"), "line 4 'size a sectors=65': the client knows 64 sectors, not 65");
  EXPECT_EQ(play("openings a number=2"), "line 4 'openings a number=2': it was opened 1 times, not 2");
  EXPECT_EQ(play("holders a number=0"), "line 4 'holders a number=0': it is held open by 1 sessions, not 0");
  EXPECT_EQ(play("repeat number=1\n  not_open a\nend"), "line 5 'not_open a': it is open");
  EXPECT_EQ(
      play("in_storage number=2"),
      "line 4 'in_storage number=2': not within ten virtual minutes: storage works for 2; it works for 0");
  EXPECT_EQ(play("refused a is=EPERM"),
            "line 4 'refused a is=EPERM': not within ten virtual minutes: a is refused with EPERM (errno 1); "
            "it is open");
}

TEST(ScenarioText, EveryOptionAcceptsTheDefaultInTheReference) {
  const std::string all = scenario_reference();
  std::size_t options = 0;
  for (std::size_t at = all.find("\n  ") + 3; at < all.find("\nsteps (");) {
    const std::string option = all.substr(at, all.find('\n', at) - at);
    EXPECT_EQ(refusal("scenario A\nset " + option), "accepted") << option;
    ++options;
    at = all.find('\n', at) + 3;
  }
  EXPECT_GT(options, 90U);
  for (const char* line :
       {"\n  connected client= path=                     waits: the client's path is connected\n",
        "\n  write client= affinity= number= sector=     submits", "\n  take_away DISK"})
    EXPECT_NE(all.find(line), std::string::npos) << line;
}

TEST(ScenarioText, BuiltInIdsCannotBeReused) {
  std::vector<std::string> ids;
  EXPECT_EQ(add_scenarios("scenario L01a\n", ids), "line 1: duplicate scenario 'L01a'");
  EXPECT_EQ(add_scenarios("scenario MyOwn: busy\n title mine\n completed number=10\n", ids), "");
  EXPECT_EQ(ids, std::vector<std::string>{"MyOwn"});
  const Directed* mine = find_directed("MyOwn");
  ASSERT_NE(mine, nullptr);
  ZeroChoice calm;
  const Scenario scenario = make_directed(*mine, calm);
  WorldOptions options;
  options.scenario = &scenario;
  EXPECT_FALSE(World(options, calm).run().failed);
}

}  // namespace
}  // namespace rtrs::sim::scenario_text_test
