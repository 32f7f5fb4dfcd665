// Runs a Supervisor in a test. Returns its actions as text, and simulates saving the state file.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/lib/control/mapping/supervisor.hpp"

namespace rtrs::mapping {

using Words = std::vector<std::string>;

inline std::string text(const Action& action) {
  if (const auto* one = std::get_if<Start>(&action)) return "start " + one->session;
  if (const auto* one = std::get_if<End>(&action)) return (one->kill ? "kill " : "end ") + one->session;
  if (const auto* one = std::get_if<Map>(&action))
    return "map " + one->session + "/" + one->device + " " + wire::rnbd::to_string(one->mode);
  if (const auto* one = std::get_if<Unmap>(&action))
    return "unmap " + one->session + "/" + one->device + (one->force ? " force" : "");
  if (const auto* one = std::get_if<Done>(&action))
    return "done " + std::to_string(one->ticket) + " " + std::to_string(one->error) +
           (one->unsaved ? " unsaved" : "");
  if (const auto* one = std::get_if<ChangePath>(&action))
    return (one->add ? "add " : "remove ") + one->session + "/" + one->path + (one->force ? " force" : "");
  return std::holds_alternative<Save>(action) ? "save" : "cancel";
}

inline Wishes some_wishes(const Words& devices = {"a"}) {
  Wishes wishes;
  wishes["s"].paths = {"10.0.0.2"};
  for (const std::string& device : devices) wishes["s"].devices[device];
  return wishes;
}

class Play {
 public:
  explicit Play(const Wishes& wishes = {}, Supervisor::Options options = {}) : machine_(wishes, options) {}
  // Passes the input to the supervisor and answers each Save immediately. Returns all actions.
  Words on(const Input& input) {
    Words said;
    std::optional<Input> next = input;
    while (next) {
      const Actions actions = machine_.on(*std::exchange(next, std::nullopt), now_);
      for (const Action& action : actions) {
        said.push_back(text(action));
        if (std::holds_alternative<Save>(action)) next = Saved{disk_error};
      }
    }
    return said;
  }
  // Advances the time to next_tick() and passes in a Tick.
  Words tick() {
    now_ = std::max(now_, machine_.next_tick());
    return on(Tick{});
  }
  Words after(Nanos time) {
    now_ += time;
    return on(Tick{});
  }
  Words map(const std::string& device, Ticket ticket, const std::string& session = "s") {
    SessionWish wish;
    wish.paths = {"10.0.0.2"};
    return on(DeviceMapRequested{session, wish, device, {}, ticket});
  }
  Words up(const Words& devices = {}) { return on(Answers{"s", devices}); }
  Nanos left() const { return machine_.next_tick() == kNever ? kNever : machine_.next_tick() - now_; }
  const Supervisor& machine() const { return machine_; }
  Wishes wishes() const { return machine_.wishes(); }

  int disk_error = 0;  // error that the next Saved reports

 private:
  Supervisor machine_;
  Nanos now_ = seconds(1000);
};

}  // namespace rtrs::mapping
