// Crash test of Supervisor with its state file. At each step of writing the file, urtrs-mapd is killed, the
// power is lost, or the step fails. The next urtrs-mapd starts from the remaining file. Each acknowledged
// change must then be in effect, and the change without an acknowledgement must be in effect either
// completely or not at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tools/lib/control/mapping/state_file.hpp"
#include "tools/lib/control/mapping/state_text.hpp"
#include "tools/lib/control/mapping/supervisor.hpp"

namespace rtrs::mapping::state_crash_test {
namespace {

const std::string kFile = "/state.json";

struct Crash {};

// A disk that loses file contents and file names at a loss of power, unless they were synced.
class FakeDisk final : public StateDisk {
 public:
  unsigned crash_at = 0;  // crash before this step, from 1; 0: never
  unsigned fail_at = 0;   // number of the step, from 1, that returns `failure`; 0: none
  int failure = 0;
  unsigned steps = 0;

  int create(const std::string& file) override {
    if (const int error = step()) return error;
    made_ = std::make_shared<Inode>();
    names_[file] = made_;
    return 0;
  }
  int write(const std::string& text) override {
    made_->content = text.substr(0, text.size() / 2);
    if (const int error = step()) return error;
    made_->content = text;
    return 0;
  }
  int sync() override {
    if (const int error = step()) return error;
    made_->stored = made_->content;
    return 0;
  }
  int rename(const std::string& from, const std::string& to) override {
    if (const int error = step()) return error;
    names_[to] = names_.at(from);
    names_.erase(from);
    return 0;
  }
  int sync_folder_of(const std::string&) override {
    if (const int error = step()) return error;
    stored_names_ = names_;
    return 0;
  }
  void remove(const std::string& file) override { names_.erase(file); }

  // Simulates a loss of power. If `names` or `content` is true, file names or contents that were not synced
  // survive.
  void lose_power(bool names, bool content) {
    if (!names) names_ = stored_names_;
    for (auto& [name, inode] : names_) {
      inode->content = inode->stored ? *inode->stored : content ? inode->content : "";
      inode->stored = inode->content;
    }
    stored_names_ = names_;
  }
  std::optional<std::string> read(const std::string& file) const {
    const auto found = names_.find(file);
    return found == names_.end() ? std::nullopt : std::optional(found->second->content);
  }

 private:
  struct Inode {
    std::string content;
    std::optional<std::string> stored;
  };
  using Names = std::map<std::string, std::shared_ptr<Inode>>;

  int step() {
    ++steps;
    if (steps == crash_at) throw Crash{};
    return steps == fail_at ? failure : 0;
  }

  Names names_, stored_names_;
  std::shared_ptr<Inode> made_;
};

struct Process {
  std::set<std::string> mapped;
  std::set<std::string> paths;
  bool operator==(const Process&) const = default;
  friend void PrintTo(const Process& one, std::ostream* out) {
    for (const auto* words : {&one.mapped, &one.paths})
      for (const std::string& word : *words) *out << word << " ";
  }
};
using Processes = std::map<std::string, Process>;

// Returns the devices and paths of each session.
Processes shape_of(const Wishes& wishes) {
  Processes shape;
  for (const auto& [name, session] : wishes) {
    shape[name].paths = {session.paths.begin(), session.paths.end()};
    for (const auto& device : session.devices) shape[name].mapped.insert(device.first);
  }
  return shape;
}

// Simulates urtrs-mapd with processes that carry out each request immediately.
class Host {
 public:
  Host(FakeDisk& disk, Processes& processes) : disk_(disk), processes_(processes), machine_(load(), {}) {}

  void start() {
    const Processes running = processes_;
    for (const auto& one : running) give(Found{one.first});
    for (const auto& one : running)
      if (processes_.contains(one.first)) give(answers(one.first));
    give(Tick{});
  }
  // Passes the input to the supervisor. Returns the Done of the input, if any. Throws Crash at a simulated
  // crash.
  std::optional<Done> ask(Input input) {
    told_.reset();
    give(std::move(input));
    return told_;
  }
  // Runs timers until none is pending.
  void rest() {
    for (unsigned i = 0; i < 100 && machine_.next_tick() != kNever; ++i) {
      now_ = std::max(now_, machine_.next_tick());
      give(Tick{});
    }
    EXPECT_EQ(machine_.next_tick(), kNever);
  }
  Processes shape() const { return shape_of(machine_.wishes()); }
  bool busy = false;  // processes refuse to unmap devices

 private:
  Wishes load() {
    const auto text = disk_.read(kFile);
    if (!text) return {};
    auto wishes = parse_state(*text);
    EXPECT_TRUE(wishes) << wishes.error().why << ":\n" << *text;
    return wishes ? *wishes : Wishes{};
  }
  void give(Input input) {
    std::vector<Input> next{std::move(input)};
    while (!next.empty()) {
      const Input now = next.front();
      next.erase(next.begin());
      for (const Action& action : machine_.on(now, now_))
        std::visit([&](const auto& one) { act(one, next); }, action);
    }
  }
  Input answers(const std::string& session) {
    const auto& mapped = processes_.at(session).mapped;
    return Answers{session, {mapped.begin(), mapped.end()}};
  }

  using Next = std::vector<Input>;
  void act(const Start& start, Next& next) {
    const auto& paths = machine_.sessions().at(start.session).wish.paths;
    processes_[start.session].paths = {paths.begin(), paths.end()};
    next.push_back(answers(start.session));
  }
  void act(const End& end, Next& next) {
    processes_.erase(end.session);
    next.emplace_back(Ended{end.session});
  }
  void act(const Map& map, Next& next) {
    processes_.at(map.session).mapped.insert(map.device);
    next.emplace_back(Mapped{map.session, map.device, 0});
  }
  void act(const Cancel&, Next&) {}
  void act(const Unmap& unmap, Next& next) {
    const int error = busy && !unmap.force ? EBUSY : 0;
    if (error == 0) processes_.at(unmap.session).mapped.erase(unmap.device);
    next.emplace_back(Unmapped{unmap.session, unmap.device, error});
  }
  void act(const ChangePath& change, Next& next) {
    auto& paths = processes_.at(change.session).paths;
    if (change.add)
      paths.insert(change.path);
    else
      paths.erase(change.path);
    next.emplace_back(PathChanged{change.session, change.path, 0});
  }
  // The supervisor requires that Saved is the next input.
  void act(const Save&, Next& next) {
    next.insert(next.begin(), Saved{write_state(kFile, state_text(machine_.wishes()), disk_)});
  }
  void act(const Done& done, Next&) { told_ = done; }

  FakeDisk& disk_;
  Processes& processes_;
  Supervisor machine_;
  std::optional<Done> told_;
  Nanos now_ = seconds(1000);
};

struct Operation {
  const char* name;
  Input input;
  bool busy = false;
};

std::vector<Operation> operations() {
  SessionWish s, t;
  s.paths = {"10.0.0.2"};
  t.paths = {"10.0.1.2", "10.0.2.2"};
  return {
      {"map s/a", DeviceMapRequested{"s", s, "a", {}, 1}},
      {"map s/b", DeviceMapRequested{"s", s, "b", {}, 1}},
      {"map t/c", DeviceMapRequested{"t", t, "c", {}, 1}},
      {"unmap s/a in use", DeviceUnmapRequested{"s", "a", false, 1}, true},
      {"unmap s/a", DeviceUnmapRequested{"s", "a", false, 1}},
      {"add a path", PathChangeRequested{"s", "10.0.0.3", true, false, 1}},
      {"remove a path", PathChangeRequested{"s", "10.0.0.2", false, false, 1}},
      {"unmap s/b", DeviceUnmapRequested{"s", "b", false, 1}},
  };
}

// Returns the contents of the file before the first operation and after each operation, if no step fails.
const std::vector<Processes>& history() {
  static const std::vector<Processes> all = [] {
    FakeDisk disk;
    Processes processes;
    Host host(disk, processes);
    host.start();
    std::vector<Processes> shapes{host.shape()};
    for (const Operation& one : operations()) {
      host.busy = one.busy;
      const auto told = host.ask(one.input);
      EXPECT_TRUE(told && told->error == (one.busy ? EBUSY : 0)) << one.name;
      shapes.push_back(host.shape());
    }
    return shapes;
  }();
  return all;
}

unsigned steps_of_all() {
  FakeDisk disk;
  Processes processes;
  Host host(disk, processes);
  host.start();
  for (const Operation& one : operations()) {
    host.busy = one.busy;
    host.ask(one.input);
  }
  return disk.steps;
}

// Starts the next urtrs-mapd on the same disk and returns its state.
Processes restarted(FakeDisk& disk, Processes& processes) {
  disk.crash_at = disk.fail_at = 0;
  Host next(disk, processes);
  next.start();
  next.rest();
  Processes shape = next.shape();
  EXPECT_EQ(processes.size(), shape.size());
  for (const auto& [name, process] : processes) EXPECT_EQ(process.mapped, shape[name].mapped) << name;
  return shape;
}

TEST(StateCrash, CrashAtAnyStepKeepsAcknowledgedChanges) {
  const unsigned steps = steps_of_all();
  ASSERT_GT(steps, 40U) << "five steps for each save";
  enum class Loss { kill, power };
  for (unsigned at = 1; at <= steps; ++at)
    for (const auto& [loss, names, content] :
         {std::tuple{Loss::kill, true, true}, std::tuple{Loss::power, false, false},
          std::tuple{Loss::power, true, false}, std::tuple{Loss::power, true, true}}) {
      FakeDisk disk;
      Processes processes;
      disk.crash_at = at;
      std::size_t number = 0;
      const auto all = operations();
      {
        Host host(disk, processes);
        host.start();
        try {
          for (; number < all.size(); ++number) {
            host.busy = all[number].busy;
            ASSERT_TRUE(host.ask(all[number].input)) << all[number].name;
          }
        } catch (const Crash&) {
        }
      }
      ASSERT_LT(number, all.size());
      if (loss == Loss::power) {
        disk.lose_power(names, content);
        processes.clear();
      }
      const Processes left = restarted(disk, processes);
      // An unmap that the process refuses first removes the device from the file and then restores it. After
      // a crash, the file may contain the intermediate state.
      const Processes& between = history()[number + (all[number].busy ? 2 : 1)];
      EXPECT_TRUE(left == history()[number] || left == between)
          << all[number].name << ", step " << at << (loss == Loss::power ? ", power" : ", kill") << names
          << content;
      EXPECT_EQ(shape_of(*parse_state(disk.read(kFile).value_or(state_text({})))), left);
    }
}

TEST(StateCrash, ChangeThatCannotBeSavedIsUndoneAndReported) {
  const unsigned steps = steps_of_all();
  for (unsigned at = 1; at <= steps; ++at)
    for (const int failure : {ENOSPC, EIO}) {
      FakeDisk disk;
      Processes processes;
      disk.fail_at = at;
      disk.failure = failure;
      Host host(disk, processes);
      host.start();
      const auto all = operations();
      bool failed = false;
      for (std::size_t number = 0; number < all.size() && !failed; ++number) {
        host.busy = all[number].busy;
        const auto told = host.ask(all[number].input);
        ASSERT_TRUE(told) << all[number].name;
        failed = disk.steps >= at;
        // If the process refuses the unmap, the error is EBUSY even if the file could not be written.
        const bool refused = all[number].busy && told->error == EBUSY;
        EXPECT_EQ(told->error, refused ? EBUSY : failed ? failure : 0) << all[number].name << " " << at;
        EXPECT_EQ(told->unsaved, failed && !refused);
        EXPECT_EQ(host.shape(), history()[number + (failed ? 0 : 1)]) << all[number].name << " " << at;
      }
      ASSERT_TRUE(failed);
      host.rest();  // gives the supervisor time to write the file again
      EXPECT_EQ(host.shape(), shape_of(*parse_state(disk.read(kFile).value_or(state_text({})))));
      EXPECT_EQ(processes, host.shape()) << "step " << at;
      disk.lose_power(false, false);
      processes.clear();
      EXPECT_EQ(restarted(disk, processes), host.shape()) << "step " << at;
    }
}

}  // namespace
}  // namespace rtrs::mapping::state_crash_test
