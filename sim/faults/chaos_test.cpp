// Tests of whole runs under faults: the laws hold, data arrives unchanged, equal seeds give equal runs, and a
// copy behaves like the original.
#include <gtest/gtest.h>

#include "sim/faults/test_chaos.hpp"

namespace rtrs::sim::chaos_test {
namespace {

NetworkConfig quick(bool weak) {
  NetworkConfig config;
  config.capabilities = weak ? weak_capabilities() : default_capabilities();
  config.strict_send_queue = !weak;
  config.retry_budget = milliseconds(40);
  config.retry_spread = milliseconds(40);
  config.retransmit = milliseconds(3);
  config.cm_timeout = milliseconds(10);
  config.cm_late_hold = milliseconds(40);
  config.ghost_hold = milliseconds(40);
  config.slow_drain_hold = milliseconds(20);
  config.info_cut_hold = milliseconds(20);
  config.torn_hold = microseconds(300);
  return config;
}

Chaos make(std::uint64_t seed, ChoiceSource& choice) {
  FaultOptions options = draw_fault_options(choice, milliseconds(40));
  return Chaos(quick(seed % 3 == 2), options);
}

void expect_no_violations(const Chaos& chaos, std::uint64_t seed) {
  for (const Violation& violation : chaos.network.monitor().violations()) {
    ADD_FAILURE() << "seed " << seed << ", law A" << violation.law << ": " << violation.text << " at "
                  << violation.time;
  }
  EXPECT_EQ(chaos.corrupt, 0u) << "seed " << seed;
  EXPECT_EQ(chaos.out_of_order, 0u) << "seed " << seed;
  EXPECT_EQ(chaos.after_closed, 0u) << "seed " << seed;
}

std::uint64_t run_seed(std::uint64_t seed) {
  SeededChoice choice(seed);
  Chaos chaos = make(seed, choice);
  chaos.arm(choice);
  chaos.run(400, choice);
  chaos.heal(choice);
  const std::uint64_t before = chaos.arrived;
  chaos.run(300, choice);
  expect_no_violations(chaos, seed);
  EXPECT_GT(chaos.arrived, before) << "seed " << seed << ": nothing arrives after all faults ended";
  return chaos.network.hash();
}

TEST(Chaos, LawsHoldAndDataArrivesUnderAllFaults) {
  for (std::uint64_t seed = 0; seed < 300 && !::testing::Test::HasFailure(); ++seed) run_seed(seed);
}

TEST(Chaos, EveryFaultStrikesInSomeRun) {
  std::array<std::uint64_t, kFaultClasses> struck{};
  NetworkStats sum;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SeededChoice choice(seed);
    Chaos chaos = make(seed, choice);
    chaos.arm(choice);
    chaos.run(400, choice);
    for (unsigned i = 0; i < kFaultClasses; ++i) struck[i] += chaos.faults.struck(static_cast<FaultClass>(i));
    const NetworkStats& stats = chaos.network.stats();
    sum.torn += stats.torn;
    sum.ghosts += stats.ghosts;
    sum.rnr_waits += stats.rnr_waits;
    sum.retry_exceeded += stats.retry_exceeded;
    sum.cm_lost += stats.cm_lost;
    sum.cm_late += stats.cm_late;
    sum.qp_errors += stats.qp_errors;
    sum.late_placements += stats.late_placements;
  }
  for (unsigned i = 0; i < static_cast<unsigned>(FaultClass::qp_error_at_step); ++i) {
    EXPECT_GT(struck[i], 0u) << to_string(static_cast<FaultClass>(i));
  }
  EXPECT_GT(sum.torn, 0u);
  EXPECT_GT(sum.ghosts, 0u);
  EXPECT_GT(sum.rnr_waits, 0u);
  EXPECT_GT(sum.retry_exceeded, 0u);
  EXPECT_GT(sum.cm_lost, 0u);
  EXPECT_GT(sum.cm_late, 0u);
  EXPECT_GT(sum.qp_errors, 0u);
  EXPECT_GT(sum.late_placements, 0u);
}

TEST(Chaos, NothingArrivesWhileAllLinksAreCut) {
  SeededChoice choice(3);
  FaultOptions options;
  options.weight[static_cast<unsigned>(FaultClass::cut_all)] = 1;
  options.budget = 1;
  options.mean_gap = milliseconds(1);
  options.min_hold = milliseconds(30);
  options.mean_hold = milliseconds(1);
  Chaos chaos(quick(false), options);
  chaos.run(50, choice);
  chaos.arm(choice);
  while (chaos.faults.struck(FaultClass::cut_all) == 0) chaos.run(1, choice);
  chaos.run(2, choice);  // delivers messages that were in flight
  const std::uint64_t cut = chaos.arrived;
  chaos.run(20, choice);
  EXPECT_EQ(chaos.arrived, cut);
  chaos.run(300, choice);
  EXPECT_GT(chaos.arrived, cut);
  expect_no_violations(chaos, 3);
}

// Two clients with the same ports: a port of the server has two links, a port of a client has one.
TEST(Chaos, CutPortCutsEveryLinkOfOnePort) {
  FaultOptions options;
  options.weight[static_cast<unsigned>(FaultClass::cut_port)] = 1;
  options.budget = 1;
  std::array<unsigned, 3> runs{};  // indexed by the number of cut links
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    SeededChoice choice(seed);
    Network network(quick(false));
    for (unsigned node = 0; node < 3; ++node) network.add_node();
    for (const NodeId client : {1u, 2u})
      for (std::uint32_t port = 0; port < 2; ++port) network.link(client, port, 0, port);
    FaultDriver faults(options, {1, 2}, {0});
    faults.arm(network, choice);
    std::vector<WorldFault> world;
    while (faults.struck(FaultClass::cut_port) == 0) {
      network.run_until(faults.next_time(), choice);
      faults.advance(network, choice, world);
    }
    std::vector<LinkInfo> cut;
    for (LinkId link = 0; link < network.link_count(); ++link)
      if (network.link_info(link).cut[0] && network.link_info(link).cut[1])
        cut.push_back(network.link_info(link));
    ASSERT_TRUE(cut.size() == 1 || cut.size() == 2) << "seed " << seed;
    ++runs[cut.size()];
    EXPECT_EQ(cut.front().server_port, cut.back().server_port) << "seed " << seed;
  }
  EXPECT_GT(runs[1], 0u) << "ports of clients";
  EXPECT_GT(runs[2], 0u) << "ports of the server";
}

// Makes the fault `which` strike once on two connected nodes. Returns the faults that the owner of the world
// has to carry out.
std::vector<WorldFault> strike_once(FaultClass which) {
  SeededChoice choice(1);
  FaultOptions options;
  options.weight[static_cast<unsigned>(which)] = 1;
  options.budget = 1;
  Network network(quick(false));
  for (unsigned node = 0; node < 2; ++node) network.add_node();
  network.link(1, 0, 0, 0);
  FaultDriver faults(options, {1}, {0});
  faults.arm(network, choice);
  std::vector<WorldFault> world;
  network.run_until(faults.next_time(), choice);
  faults.advance(network, choice, world);
  EXPECT_EQ(faults.next_time(), kNever);
  return world;
}

TEST(Chaos, WorldLiesAndOversleeps) {
  const auto lie = strike_once(FaultClass::lie);
  ASSERT_EQ(lie.size(), 1U);
  EXPECT_EQ(lie[0].kind, WorldFault::Kind::lie);
  const auto oversleep = strike_once(FaultClass::oversleep);
  ASSERT_EQ(oversleep.size(), 1U);
  EXPECT_EQ(oversleep[0].kind, WorldFault::Kind::oversleep);
  EXPECT_LE(oversleep[0].node, 1U);
}

TEST(Chaos, SameSeedGivesSameRun) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) EXPECT_EQ(run_seed(seed), run_seed(seed));
  EXPECT_NE(run_seed(1), run_seed(2));
}

TEST(Chaos, CopyContinuesLikeTheOriginal) {
  SeededChoice choice(11);
  Chaos original = make(0, choice);
  original.arm(choice);
  original.run(150, choice);
  Chaos copy = original;
  SeededChoice copied_choice = choice;
  original.run(150, choice);
  EXPECT_NE(copy.network.hash(), original.network.hash());
  copy.run(150, copied_choice);
  EXPECT_EQ(copy.network.hash(), original.network.hash());
  EXPECT_EQ(copy.arrived, original.arrived);
  expect_no_violations(copy, 11);
}

TEST(Chaos, LogRepeatsTheRun) {
  SeededChoice seeded(5);
  seeded.record(true);
  Chaos first = make(5, seeded);
  first.arm(seeded);
  first.run(200, seeded);
  LoggedChoice choice_log(seeded.choice_log().draws);
  Chaos second = make(5, choice_log);
  second.arm(choice_log);
  second.run(200, choice_log);
  EXPECT_EQ(first.network.hash(), second.network.hash());
  EXPECT_EQ(choice_log.mismatches(), 0u);
}

TEST(Chaos, ZeroChoicesMeanNoFaults) {
  ZeroChoice calm;
  const FaultOptions options = draw_fault_options(calm, seconds(1));
  EXPECT_EQ(options.budget, 0u);
  EXPECT_EQ(options.describe(), "none budget=0");
}

}  // namespace
}  // namespace rtrs::sim::chaos_test
