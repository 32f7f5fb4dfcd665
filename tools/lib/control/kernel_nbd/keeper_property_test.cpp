// Property test of Keeper in a random world: a kernel with devices, and an nbdkit that dies and restarts,
// sometimes with another export. Every action must be valid in the current state of the world. At the end, if
// nbdkit keeps running, each device must be connected; if nbdkit does not return, each device must be
// detached, because its IO would otherwise wait forever.
#include <gtest/gtest.h>

#include <cerrno>
#include <deque>
#include <random>
#include <set>

#include "tools/lib/control/kernel_nbd/keeper.hpp"

namespace rtrs::kernel_nbd::keeper_property_test {
namespace {

constexpr std::uint64_t kWorldBytes = 1 << 20;
constexpr std::uint16_t kWorldFlags = 0x16d;

class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {}

  void play(int steps) {
    for (int step = 0; step < steps && !testing::Test::HasFailure(); ++step) {
      switch (draw(8)) {
        case 0:
          return_nbdkit(draw(4) != 0);
          break;
        case 1:
          die();
          break;
        case 2:
          attach();
          break;
        case 3:
          if (!devices_.empty() && draw(3) == 0) devices_.erase(any());
          break;
        case 4:
          if (draw(4) == 0) keeper_ = Keeper(Keeper::Options()), open_.clear(), opened_.clear();
          break;
        default:
          break;
      }
      if (!open_.empty() && draw(2) == 0) answer_one();
      pass(draw(3) == 0 ? seconds(draw(20)) : milliseconds(draw(200)));
    }
    if (draw(3) == 0) return keep_server_down();
    // From now on nbdkit keeps running, and every action gets its answer.
    return_nbdkit(true);
    for (int turn = 0; turn < 2000 && !testing::Test::HasFailure(); ++turn) {
      while (!open_.empty()) answer_one();
      pass(milliseconds(100));
    }
    for (const auto& [index, device] : devices_) EXPECT_TRUE(device.connected) << "nbd" << index;
    EXPECT_TRUE(opened_.empty()) << "connections that nobody closed";
  }

 private:
  struct Device {
    Attached what;
    bool connected = true;
  };

  void keep_server_down() {
    die();
    for (int turn = 0; turn < 400 && !testing::Test::HasFailure(); ++turn) {
      while (!open_.empty()) answer_one();
      pass(seconds(1));
    }
    for (const auto& [index, device] : devices_) ADD_FAILURE() << "IO of nbd" << index << " waits for ever";
  }
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  unsigned any() {
    auto at = devices_.begin();
    std::advance(at, static_cast<long>(draw(devices_.size())));
    return at->first;
  }
  void attach() {
    const auto index = static_cast<unsigned>(draw(4));
    if (!up_ || wrong_ || devices_.contains(index)) return;
    devices_[index] = {
        {index, {kWorldFlags, static_cast<unsigned>(10 + draw(2) * 290), "/s", "disk0"}, kWorldBytes}, true};
  }
  void die() {
    up_ = false;
    for (auto& [index, device] : devices_)
      if (std::exchange(device.connected, false)) {
        if (draw(8) != 0)
          give(Lost{index});
        else
          give(NewsMissed{});
      }
  }
  void return_nbdkit(bool right) {
    die();
    up_ = true;
    wrong_ = !right;
  }
  void answer_one() {
    const Open open = *open_.begin();
    open_.erase(open_.begin());
    if (!up_) return give(NotOpened{open.serial, "nobody listens", true});
    opened_.insert(open.serial);
    give(Opened{open.serial,
                {kWorldBytes, static_cast<std::uint16_t>(wrong_ ? kWorldFlags | 2 : kWorldFlags), 512}});
  }
  void pass(Nanos time) {
    const Nanos end = now_ + time;
    for (int turn = 0; keeper_.next_tick() <= end; ++turn) {
      now_ = std::max(now_, keeper_.next_tick());
      give(Tick{});
      ASSERT_LT(turn, 10000) << "it does not get on";
    }
    now_ = end;
  }

  // Passes an input to the keeper, as Driver::give() does: the input waits until the actions of earlier
  // inputs are carried out.
  void give(const Input& input) {
    inputs_.push_back(input);
    if (inputs_.size() > 1) return;
    for (; !inputs_.empty(); inputs_.pop_front())
      for (const Action& action : keeper_.on(inputs_.front(), now_))
        std::visit([this](const auto& one) { carry_out(one); }, action);
  }
  void carry_out(const List&) {
    Listed listed;
    for (const auto& [index, device] : devices_) listed.devices.push_back(device.what);
    give(listed);
  }
  void carry_out(const Open& open) {
    for (const Open& other : open_) EXPECT_FALSE(other.index == open.index && other.serial == open.serial);
    open_.push_back(open);
  }
  void carry_out(const HandOver& one) {
    EXPECT_EQ(opened_.erase(one.serial), 1U);
    EXPECT_FALSE(wrong_) << "another export";
    const auto found = devices_.find(one.index);
    if (found == devices_.end() || found->second.what.what != one.what)
      return give(HandedOver{one.index, EINVAL});
    found->second.connected = true;
    give(HandedOver{one.index, 0});
  }
  void carry_out(const Close& one) { EXPECT_EQ(opened_.erase(one.serial), 1U); }
  void carry_out(const QuerySize&) {}
  void carry_out(const Resize&) { ADD_FAILURE() << "no size has changed"; }
  void carry_out(const Detach& one) {
    const auto found = devices_.find(one.index);
    if (found == devices_.end() || found->second.what.what != one.what) return;
    EXPECT_FALSE(found->second.connected) << "it has a connection";
    devices_.erase(found);
  }
  void carry_out(const Tell& tell) { EXPECT_FALSE(tell.line.empty()); }

  std::mt19937_64 random_;
  std::deque<Input> inputs_;  // the first input is being processed
  Keeper keeper_{Keeper::Options()};
  Nanos now_ = seconds(1);
  bool up_ = true;
  bool wrong_ = false;
  std::map<unsigned, Device> devices_;
  std::vector<Open> open_;
  std::set<Serial> opened_;
};

TEST(KeeperProperty, EveryDeviceIsFinallyConnectedOrDetached) {
  for (std::uint64_t seed = 0; seed < 500 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    World(seed).play(100);
  }
}

}  // namespace
}  // namespace rtrs::kernel_nbd::keeper_property_test
