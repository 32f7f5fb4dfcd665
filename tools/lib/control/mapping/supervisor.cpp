#include "tools/lib/control/mapping/supervisor.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace rtrs::mapping {

namespace {

std::size_t asked_of(const Supervisor::Session& session) {
  return static_cast<std::size_t>(std::count_if(session.devices.begin(), session.devices.end(),
                                                [](const auto& one) { return one.second.asked; }));
}

bool has_waiters(const Supervisor::Session& session) {
  return std::any_of(session.devices.begin(), session.devices.end(),
                     [](const auto& one) { return one.second.ticket != 0; });
}

bool is_due(const Supervisor::Device& device) {
  return !device.asked && device.wanted != device.mapped;
}

}  // namespace

bool Supervisor::Session::in_use() const {
  return stray || std::any_of(devices.begin(), devices.end(),
                              [](const auto& one) { return one.second.wanted || one.second.dropped; });
}

const char* to_string(Supervisor::State state) noexcept {
  switch (state) {
    case Supervisor::State::absent:
      return "waiting";
    case Supervisor::State::starting:
      return "starting";
    case Supervisor::State::up:
      return "up";
    case Supervisor::State::ending:
      return "ending";
  }
  return "";
}

Supervisor::Supervisor(const Wishes& wishes, Options options) : options_(options) {
  for (const auto& [name, wish] : wishes) {
    Session& session = sessions_[name];
    session.wish = wish;
    session.wish.devices.clear();
    for (const auto& [device, device_wish] : wish.devices) {
      Device& one = session.devices[device];
      one.wish = device_wish;
      one.wanted = one.kept = true;
    }
  }
}

Actions Supervisor::on(const Input& input, Nanos now) {
  actions_.clear();
  std::visit([&](const auto& one) { take(one, now); }, input);
  if (now >= save_at_) {
    save_at_ = kNever;
    save_ = true;
  }
  // After Found, only the session of the process is settled, because processes of other sessions may be found
  // next.
  const auto* const found = std::get_if<Found>(&input);
  for (auto at = sessions_.begin(); at != sessions_.end();) {
    const bool waits = found != nullptr && at->first != found->session;
    at = waits || settle(at->first, at->second, now) ? std::next(at) : sessions_.erase(at);
  }
  if (std::exchange(save_, false)) actions_.push_back(Save{});
  return std::exchange(actions_, {});
}

Supervisor::Session* Supervisor::find(const std::string& session) {
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? nullptr : &found->second;
}

Supervisor::Device* Supervisor::find(const std::string& session, const std::string& device) {
  Session* const of = find(session);
  if (of == nullptr) return nullptr;
  const auto found = of->devices.find(device);
  return found == of->devices.end() ? nullptr : &found->second;
}

void Supervisor::move(Session& session, State state, Nanos now) {
  session.state = state;
  session.since = now;
}

Nanos Supervisor::longer(Nanos pause) const {
  return std::clamp(2 * pause, options_.least_pause, options_.most_pause);
}

void Supervisor::done(Device& device, int error, bool unsaved) {
  device.outcome = 0;
  device.unsaved = false;
  if (const Ticket ticket = std::exchange(device.ticket, 0); ticket != 0)
    actions_.push_back(Done{ticket, error, unsaved});
}

void Supervisor::done(PathChange& paths, int error, bool unsaved) {
  if (const Ticket ticket = std::exchange(paths.ticket, 0); ticket != 0)
    actions_.push_back(Done{ticket, error, unsaved});
}

// Fails the Map request for a device that was never mapped.
void Supervisor::give_up(Device& device, int error) {
  done(device, error);
  device.wanted = false;
}

bool Supervisor::settle(const std::string& name, Session& session, Nanos now) {
  settle_devices(name, session, now);
  const bool needed = !session.devices.empty() || session.stray;
  const bool goes_on = needed && !session.outdated;
  switch (session.state) {
    case State::absent:
      if (!needed) return false;
      // Waits until changed paths are saved, because a process must not start with unsaved paths.
      if (now < session.not_before || session.paths.step == PathChange::Step::save) break;
      move(session, State::starting, now);
      actions_.push_back(Start{name});
      break;
    case State::starting:
      if (goes_on && now - session.since < options_.start_timeout) break;
      if (goes_on) {
        // The process hangs. The next start is delayed as if the process had ended without a request.
        for (auto& device : session.devices)
          if (device.second.wanted && device.second.ticket != 0) give_up(device.second, ETIMEDOUT);
        if (session.stray) break;  // the process must keep running, because its mapped devices are unknown
        session.pause = longer(session.pause);
        session.not_before = now + options_.end_timeout + session.pause;
      }
      move(session, State::ending, now);
      actions_.push_back(End{name, false});
      break;
    case State::up:
      give_up_on_silence(name, session, now);
      if (goes_on) break;
      move(session, State::ending, now);
      actions_.push_back(End{name, false});
      break;
    case State::ending:
      if (now - session.since < options_.end_timeout) break;
      move(session, State::ending, now);
      actions_.push_back(End{name, true});
      break;
  }
  return true;
}

void Supervisor::settle_devices(const std::string& name, Session& session, Nanos now) {
  std::size_t asked = asked_of(session);
  for (auto at = session.devices.begin(); at != session.devices.end();) {
    Device& device = at->second;
    // While the session is `starting`, the device is kept, because a found process may have mapped it.
    if (!device.wanted && !device.mapped && !device.asked && session.state != State::starting) {
      done(device, device.outcome, device.unsaved);
      at = session.devices.erase(at);
      continue;
    }
    if (session.state == State::up && !session.outdated && is_due(device) && now >= device.not_before &&
        asked < kMaxAsked) {
      device.asked = true;
      ++asked;
      if (device.wanted)
        actions_.push_back(Map{name, at->first, device.wish.mode});
      else
        actions_.push_back(Unmap{name, at->first, device.force});
    }
    ++at;
  }
}

Nanos Supervisor::next_of(const Session& session) const {
  switch (session.state) {
    case State::absent:
      return session.not_before;
    case State::starting:
      return session.stray && !has_waiters(session) ? kNever : session.since + options_.start_timeout;
    case State::ending:
      return session.since + options_.end_timeout;
    case State::up:
      break;
  }
  Nanos next = kNever;
  const bool has_room = asked_of(session) < kMaxAsked;
  for (const auto& [name, device] : session.devices) {
    if (has_room && is_due(device)) next = std::min(next, device.not_before);
    if (device.ticket != 0) next = std::min(next, silent_at(session, device.asked_at));
  }
  if (session.paths.ticket != 0) next = std::min(next, silent_at(session, session.paths.asked_at));
  return next;
}

Nanos Supervisor::silent_at(const Session& session, Nanos asked) const {
  return std::max(session.heard, asked) + options_.silence;
}

void Supervisor::give_up_on_silence(const std::string& name, Session& session, Nanos now) {
  for (auto& [device_name, device] : session.devices) {
    if (device.ticket == 0 || now < silent_at(session, device.asked_at)) continue;
    if (!device.wanted) {  // the unmap continues, although no request waits for its result any more
      done(device, device.unsaved ? device.outcome : ETIMEDOUT, device.unsaved);
      continue;
    }
    if (device.asked) actions_.push_back(Cancel{name, device_name});
    give_up(device, ETIMEDOUT);
  }
  PathChange& paths = session.paths;
  if (paths.ticket != 0 && now >= silent_at(session, paths.asked_at))
    done(paths, paths.step == PathChange::Step::undo ? paths.error : ETIMEDOUT,
         paths.step == PathChange::Step::undo);
}

Nanos Supervisor::next_tick() const {
  Nanos next = save_at_;
  for (const auto& session : sessions_) next = std::min(next, next_of(session.second));
  return next;
}

Wishes Supervisor::wishes() const {
  Wishes wishes;
  for (const auto& [name, session] : sessions_)
    for (const auto& [device, one] : session.devices) {
      if (!one.kept) continue;
      const auto [at, made] = wishes.try_emplace(name);
      if (made) at->second = session.wish;
      at->second.devices[device] = one.wish;
    }
  return wishes;
}

}  // namespace rtrs::mapping
