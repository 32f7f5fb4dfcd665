// Property test of Supervisor in a random world: processes die, hang and refuse requests, answers are late or
// missing, users map and unmap devices. Then all faults end, and the processes must converge to the desired
// state.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/lib/control/mapping/supervisor.hpp"

namespace rtrs::mapping::supervisor_property_test {
namespace {

using State = Supervisor::State;

const std::vector<std::string> kSessions{"s", "t"};
const std::vector<std::string> kDevices{"a", "b", "c"};
const std::string kPath = "10.0.0.9";

struct Process {
  bool runs = false;
  bool end_requested = false;
  std::uint16_t port = 0;  // port of the session when the process was started
  std::set<std::string> mapped;
  std::deque<Action> asked;         // Map and Unmap requests that the process has not answered
  std::set<std::string> cancelled;  // devices whose Map was cancelled
  bool added = false;               // the process uses the path kPath
};

class World {
 public:
  explicit World(const Wishes& wishes, Supervisor::Options options = {}) : machine_(wishes, options) {
    for (const std::string& session : kSessions) processes_[session];
    for (const auto& [name, session] : wishes)
      for (const auto& device : session.devices) last_word_[{name, device.first}] = true;
  }

  void give(const Input& input) {
    std::optional<Input> next = input;
    while (next) {
      for (const Action& action : machine_.on(*std::exchange(next, std::nullopt), now_)) {
        std::visit([this](const auto& one) { act(one); }, action);
        if (std::holds_alternative<Save>(action)) next = save(disk_fails_ && *rc::gen::arbitrary<bool>());
      }
    }
    for (const auto& [name, session] : machine_.sessions()) {
      RC_ASSERT(session.pause <= seconds(30));
      if (session.state == State::absent) RC_ASSERT(session.not_before <= now_ + seconds(90));
      for (const auto& device : session.devices) RC_ASSERT(device.second.pause <= seconds(30));
    }
  }

  // Adds a process that ran before the state machine started. `unwished`: port of the process if the desired
  // state does not contain the session.
  void has_run(const std::string& session, const std::set<std::string>& mapped, std::uint16_t unwished) {
    const auto wished = machine_.sessions().find(session);
    const std::uint16_t port = wished == machine_.sessions().end() ? unwished : wished->second.wish.port;
    processes_[session] = {true, false, port, mapped, {}, {}, false};
  }
  // Passes in Found for each running process.
  void adopt() {
    for (const std::string& session : running()) give(Found{session});
  }
  // Like adopt(), but the desired state was lost. Each process answers immediately.
  void adopt_with_lost_state() {
    SessionWish wish;
    wish.paths = {"10.0.0.2"};
    for (const std::string& session : running()) {
      give(Found{session, wish});
      answer(session);
      for (const std::string& device : processes_[session].mapped) last_word_[{session, device}] = true;
    }
  }

  // Causes one random event.
  void disturb() {
    const std::string session = *rc::gen::elementOf(kSessions);
    const std::string device = *rc::gen::elementOf(kDevices);
    Process& process = processes_[session];
    switch (*rc::gen::inRange(0, 10)) {
      case 0: {
        SessionWish wish;
        wish.paths = {"10.0.0.2"};
        // Like urtrs-mapd, keeps the port of a session that is in use.
        const auto there = machine_.sessions().find(session);
        const bool used = there != machine_.sessions().end() && there->second.in_use();
        wish.port = used ? there->second.wish.port : *rc::gen::element<std::uint16_t>(1, 2);
        waiting_[++tickets_] = {session, device, true};
        return give(DeviceMapRequested{session, wish, device, {}, tickets_});
      }
      case 1:
        waiting_[++tickets_] = {session, device, false};
        return give(DeviceUnmapRequested{session, device, *rc::gen::arbitrary<bool>(), tickets_});
      case 2:
        return die(session);
      case 3:
        return answer(session);
      case 4:
      case 5:
        return carry_out(session, *rc::gen::element(0, 0, 0, EBUSY, ENOENT, ETIMEDOUT));
      case 6:
        if (process.end_requested) die(session);
        return;
      case 7:
        return give(RetryNow{session});
      case 8: {
        const bool add = *rc::gen::arbitrary<bool>();
        waiting_[++tickets_] = {session, "", add};
        return give(PathChangeRequested{session, kPath, add, false, tickets_});
      }
      default:
        now_ += *rc::gen::element(milliseconds(1), milliseconds(150), seconds(1), seconds(31), seconds(70));
        return give(Tick{});
    }
  }

  // Runs without faults until the state machine is idle: every request is answered, and no process ends
  // without a request. Returns the duration.
  Nanos run_until_idle() {
    const Nanos began = now_;
    disk_fails_ = false;
    for (unsigned round = 0; round < 1000; ++round) {
      for (const std::string& session : kSessions) {
        if (processes_[session].end_requested) die(session);
        answer(session);
        while (!processes_[session].asked.empty()) carry_out(session, 0);
      }
      if (machine_.next_tick() == kNever) break;
      now_ = std::max(now_, machine_.next_tick());
      give(Tick{});
    }
    return now_ - began;
  }

  void check_converged() {
    RC_ASSERT(machine_.next_tick() == kNever);
    RC_ASSERT(waiting_.empty());
    const Wishes wishes = machine_.wishes();
    for (const std::string& session : kSessions) {
      const auto wished = wishes.find(session);
      const Process& process = processes_[session];
      RC_ASSERT(process.runs == (wished != wishes.end()));
      std::set<std::string> devices;
      if (wished != wishes.end())
        for (const auto& device : wished->second.devices) devices.insert(device.first);
      RC_ASSERT(process.mapped == devices);
      if (process.runs) RC_ASSERT(process.added == find_path(wished->second, kPath).has_value());
      // The last Done of each device must be in effect.
      for (const std::string& device : kDevices)
        RC_ASSERT(devices.contains(device) == last_word_[std::pair(session, device)]);
    }
    RC_ASSERT(saved_ == wishes);
  }

  Saved save(bool fails = false) {
    if (fails) return {ENOSPC};
    saved_ = machine_.wishes();
    return {};
  }

 private:
  struct Waiter {
    std::string session;
    std::string device;
    bool maps = false;
  };

  std::vector<std::string> running() const {
    std::vector<std::string> names;
    for (const auto& [name, process] : processes_)
      if (process.runs) names.push_back(name);
    return names;
  }

  void act(const Start& start) {
    Process& process = processes_[start.session];
    RC_ASSERT(!process.runs);  // a session never has two processes
    process = {};
    process.runs = true;
    const SessionWish& wish = machine_.sessions().at(start.session).wish;
    process.port = wish.port;
    process.added = find_path(wish, kPath).has_value();
  }
  void act(const End& end) {
    Process& process = processes_[end.session];
    RC_ASSERT(process.runs);
    RC_ASSERT(!end.kill || process.end_requested);
    process.end_requested = true;
  }
  void act(const Map& map) {
    Process& process = processes_[map.session];
    RC_ASSERT(process.runs && !process.end_requested);
    RC_ASSERT(process.port == machine_.sessions().at(map.session).wish.port);
    process.asked.emplace_back(map);
    RC_ASSERT(process.asked.size() <= Supervisor::kMaxAsked);
  }
  void act(const Cancel& cancel) {
    Process& process = processes_[cancel.session];
    RC_ASSERT(process.runs && !process.end_requested);
    RC_ASSERT(std::ranges::any_of(process.asked, [&](const Action& one) {
      const auto* map = std::get_if<Map>(&one);
      return map != nullptr && map->device == cancel.device;
    }));
    process.cancelled.insert(cancel.device);
  }
  void act(const Unmap& unmap) {
    Process& process = processes_[unmap.session];
    RC_ASSERT(process.runs && !process.end_requested);
    process.asked.emplace_back(unmap);
  }
  void act(const ChangePath& change) {
    Process& process = processes_[change.session];
    RC_ASSERT(process.runs && !process.end_requested);
    process.asked.emplace_back(change);
  }
  void act(const Save&) {}
  void act(const Done& done) {
    const auto found = waiting_.find(done.ticket);
    RC_ASSERT(found != waiting_.end());  // each request gets exactly one Done
    const Waiter& waiter = found->second;
    const auto saved = saved_.find(waiter.session);
    const bool kept = saved != saved_.end() && saved->second.devices.contains(waiter.device);
    const std::pair key(waiter.session, waiter.device);
    if (waiter.device.empty()) {
      // The request was to add or remove a path.
      if (done.error == 0 && saved != saved_.end())
        RC_ASSERT(find_path(saved->second, kPath).has_value() == waiter.maps);
    } else if (done.error == 0) {
      RC_ASSERT(kept == waiter.maps);  // the change must be saved before its Done
      last_word_[key] = waiter.maps;
      timed_out_unmaps_.erase(key);
    } else if (!waiter.maps && done.error == ETIMEDOUT && last_word_[key]) {
      // The unmap continues after its timeout. A later unmap may report that the process refused it.
      last_word_[key] = false;
      timed_out_unmaps_.insert(key);
    } else if (!waiter.maps && done.error == EBUSY && !done.unsaved && timed_out_unmaps_.erase(key) != 0) {
      last_word_[key] = true;
    }
    waiting_.erase(found);
  }

  void die(const std::string& session) {
    if (!processes_[session].runs) return;
    processes_[session] = {};
    give(Ended{session});
  }
  void answer(const std::string& session) {
    const Process& process = processes_[session];
    if (process.runs) give(Answers{session, {process.mapped.begin(), process.mapped.end()}});
  }
  // The process answers one of its pending requests, chosen at random.
  void carry_out(const std::string& session, int error) {
    Process& process = processes_[session];
    if (process.asked.empty()) return;
    const auto which = *rc::gen::inRange<std::size_t>(0, process.asked.size());
    const Action action = process.asked[which];
    process.asked.erase(process.asked.begin() + static_cast<std::ptrdiff_t>(which));
    if (const auto* map = std::get_if<Map>(&action)) {
      // A cancelled Map can still succeed, if the process has already mapped the device.
      if (process.cancelled.erase(map->device) != 0 && error != 0) error = ECANCELED;
      if (error == 0) process.mapped.insert(map->device);
      return give(Mapped{session, map->device, error});
    }
    if (const auto* change = std::get_if<ChangePath>(&action)) {
      // An undo always succeeds here, because the process would have wrong paths after a refused undo.
      if (change->force) error = 0;
      if (error == 0) process.added = change->add;
      return give(PathChanged{session, change->path, error});
    }
    const auto& unmap = std::get<Unmap>(action);
    if (error == ETIMEDOUT) error = EBUSY;  // only the Supervisor itself reports ETIMEDOUT
    if (error == 0 || error == ENOENT) process.mapped.erase(unmap.device);
    give(Unmapped{session, unmap.device, error});
  }

  Supervisor machine_;
  Nanos now_ = seconds(1);
  std::map<std::string, Process> processes_;
  std::map<Ticket, Waiter> waiting_;
  std::map<std::pair<std::string, std::string>, bool> last_word_;
  std::set<std::pair<std::string, std::string>> timed_out_unmaps_;  // devices whose unmap request timed out
  Ticket tickets_ = 0;
  bool disk_fails_ = true;
  Wishes saved_;
};

Wishes draw_wishes() {
  Wishes wishes;
  for (const std::string& session : kSessions)
    for (const std::string& device : kDevices)
      if (*rc::gen::arbitrary<bool>()) {
        wishes[session].paths = {"10.0.0.2"};
        wishes[session].devices[device];
      }
  return wishes;
}

RC_GTEST_PROP(SupervisorProperty, ProcessesConvergeToTheWishes, ()) {
  World world(draw_wishes());
  world.save();
  for (const std::string& session : kSessions)
    if (*rc::gen::arbitrary<bool>())
      world.has_run(session,
                    *rc::gen::container<std::set<std::string>>(
                        rc::gen::element<std::string>("a", "b", "c", "left over")),
                    0);
  world.adopt();
  const auto steps = *rc::gen::inRange(0, 150);
  for (int step = 0; step < steps; ++step) world.disturb();
  // The limit is long enough for a pause, a hanging process, and the recovery from it.
  RC_ASSERT(world.run_until_idle() <= seconds(300));
  world.check_converged();
}

RC_GTEST_PROP(SupervisorProperty, LostWishesAreAdoptedFromRunningProcesses, ()) {
  Supervisor::Options lost;
  lost.ends_unwanted_processes = false;
  World world({}, lost);
  world.save();
  for (const std::string& session : kSessions)
    if (*rc::gen::arbitrary<bool>())
      world.has_run(session,
                    *rc::gen::container<std::set<std::string>>(rc::gen::element<std::string>("a", "b", "c")),
                    SessionWish().port);
  world.adopt_with_lost_state();
  const auto steps = *rc::gen::inRange(0, 150);
  for (int step = 0; step < steps; ++step) world.disturb();
  RC_ASSERT(world.run_until_idle() <= seconds(300));
  world.check_converged();
}

}  // namespace
}  // namespace rtrs::mapping::supervisor_property_test
