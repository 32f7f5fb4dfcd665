#include "tools/lib/mapping/supervisor.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace rtrs::mapping {

namespace {

std::size_t asked_of(const Supervisor::Session& session) {
  return static_cast<std::size_t>(std::count_if(session.devices.begin(), session.devices.end(),
                                                [](const auto& one) { return one.second.asked; }));
}

// Of one that was never mapped: settle() forgets it as soon as it can.
bool is_left_over(const Supervisor::Device& device) {
  return !device.wanted && !device.kept && !device.mapped && !device.asked && device.ticket == 0;
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
                              [](const auto& one) { return one.second.wanted || one.second.kept; });
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
  // The processes of other sessions may be the next that are found: nothing is decided of them before.
  const auto* const found = std::get_if<Found>(&input);
  for (auto at = sessions_.begin(); at != sessions_.end();) {
    const bool waits = found != nullptr && at->first != found->session;
    at = waits || settle(at->first, at->second, now) ? std::next(at) : sessions_.erase(at);
  }
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

void Supervisor::done(Device& device, int error) {
  if (const Ticket ticket = std::exchange(device.ticket, 0); ticket != 0)
    actions_.push_back(Done{ticket, error});
}

// Of one that somebody asked for and that was never mapped.
void Supervisor::give_up(Device& device, int error) {
  done(device, error);
  device.wanted = false;
}

void Supervisor::take(const MapAsked& asked, Nanos now) {
  const auto refuse = [&](int error) {
    if (asked.ticket != 0) actions_.push_back(Done{asked.ticket, error});
  };
  Session* session = find(asked.session);
  if (session == nullptr && sessions_.size() >= kMostSessions) return refuse(ENOSPC);
  if (const Device* const there = find(asked.session, asked.device))
    if (!is_left_over(*there)) return refuse(there->wanted ? EEXIST : EBUSY);
  if (session != nullptr && session->devices.size() >= kMostDevices) return refuse(ENOSPC);
  const bool made = session == nullptr;
  if (made) session = &sessions_[asked.session];
  if (!session->in_use()) {
    SessionWish before = std::exchange(session->wish, asked.wish);
    session->wish.devices.clear();
    const bool runs = session->state == State::starting || session->state == State::up;
    if (runs && before != session->wish) session->outdated = true;
  }
  session->not_before = now;
  Device& device = session->devices[asked.device];
  device.wish = asked.device_wish;
  device.wanted = true;
  device.ticket = asked.ticket;
}

void Supervisor::take(const UnmapAsked& asked, Nanos now) {
  Device* const device = find(asked.session, asked.device);
  int refusal = 0;
  if (device == nullptr)
    refusal = ENOENT;
  else if (device->ticket != 0 && !device->wanted)
    refusal = EALREADY;
  if (refusal != 0) {
    if (asked.ticket != 0) actions_.push_back(Done{asked.ticket, refusal});
    return;
  }
  done(*device, ECANCELED);
  if (device->wanted && device->asked) actions_.push_back(Cancel{asked.session, asked.device});
  device->wanted = false;
  device->force = asked.force;
  device->ticket = asked.ticket;
  device->not_before = now;
}

void Supervisor::take(const Hurry& hurry, Nanos now) {
  Session* const session = find(hurry.session);
  if (session == nullptr) return;
  session->not_before = now;
  for (auto& device : session->devices) device.second.not_before = now;
}

void Supervisor::take(const Found& found, Nanos now) {
  const bool wished = find(found.session) != nullptr;
  Session& session = sessions_[found.session];
  session.stray = !wished && !options_.ends_strays;
  if (session.stray) {
    session.wish = found.wish;
    session.wish.devices.clear();
  }
  move(session, State::starting, now);
}

void Supervisor::adopt(Session& session, const Answers& answers) {
  session.stray = false;
  std::vector<std::pair<Device*, int>> asked;
  for (const std::string& name : answers.devices) {
    if (check_device_name(name)) continue;  // the state file cannot have it
    if (session.devices.size() >= kMostDevices && !session.devices.contains(name)) continue;
    Device& device = session.devices[name];
    const auto mode = answers.modes.find(name);
    const DeviceWish found = mode == answers.modes.end() ? DeviceWish{} : mode->second;
    // Who asked for it in the meantime has it, if in the same mode.
    asked.emplace_back(&device, device.wish == found ? 0 : EEXIST);
    device.wish = found;
    device.wanted = device.kept = device.mapped = true;
  }
  if (asked.empty()) return;
  actions_.push_back(Save{});
  for (const auto& [device, error] : asked) done(*device, error);
}

void Supervisor::take(const Answers& answers, Nanos now) {
  Session* const session = find(answers.session);
  if (session == nullptr || (session->state != State::starting && session->state != State::up)) return;
  const bool first = session->state == State::starting;
  if (first) move(*session, State::up, now);
  for (auto& [name, device] : session->devices) {
    const bool there =
        std::find(answers.devices.begin(), answers.devices.end(), name) != answers.devices.end();
    // Who asked for a device hears of it by the answer to Map, whoever else has mapped it.
    const bool asks = device.wanted && device.ticket != 0;
    if (device.asked) continue;
    device.there = there;
    device.mapped = there && !asks;
  }
  if (session->stray) return adopt(*session, answers);
  // What an earlier process left mapped. Later somebody else may map devices by hand.
  if (!first || !options_.ends_strays) return;
  for (const std::string& name : answers.devices) {
    if (session->devices.size() == kMostDevices) return;
    const auto [at, made] = session->devices.try_emplace(name);
    if (made) at->second.mapped = true;
  }
}

void Supervisor::take(const Ended& ended, Nanos now) {
  Session* const session = find(ended.session);
  if (session == nullptr || session->state == State::absent) return;
  const bool unasked = session->state != State::ending;
  const bool calm = session->state == State::up && now - session->since >= options_.calm;
  if (unasked) {
    session->pause = calm ? options_.least_pause : longer(session->pause);
    ++session->ended;
  }
  session->not_before = unasked ? now + session->pause : std::max(now, session->not_before);
  session->stray = session->outdated = false;
  move(*session, State::absent, now);
  for (auto& device : session->devices) {
    device.second.mapped = device.second.asked = device.second.there = false;
    if (unasked && device.second.wanted && device.second.ticket != 0) give_up(device.second, ENOTCONN);
  }
}

void Supervisor::take(const Mapped& mapped, Nanos now) {
  Device* const device = find(mapped.session, mapped.device);
  if (device == nullptr || !std::exchange(device->asked, false)) return;
  // One that the process had before stays as it was when another Map of it fails.
  device->mapped = mapped.error == 0 || device->there;
  device->error = mapped.error;
  if (!device->wanted) return;  // settle() goes on
  if (mapped.error == 0) {
    device->pause = 0;
    if (!std::exchange(device->kept, true)) actions_.push_back(Save{});
    return done(*device, 0);
  }
  if (device->ticket != 0) return give_up(*device, mapped.error);
  device->pause = longer(device->pause);
  device->not_before = now + device->pause;
}

void Supervisor::take(const Unmapped& unmapped, Nanos now) {
  Device* const device = find(unmapped.session, unmapped.device);
  if (device == nullptr || !std::exchange(device->asked, false)) return;
  const bool gone = unmapped.error == 0 || unmapped.error == ENOENT || unmapped.error == EALREADY;
  device->mapped = !gone;
  if (gone) return;
  device->pause = longer(device->pause);
  device->not_before = now + device->pause;
  if (device->ticket == 0) return;
  device->wanted = device->kept;
  done(*device, unmapped.error);
}

bool Supervisor::settle(const std::string& name, Session& session, Nanos now) {
  settle_devices(name, session, now);
  const bool needed = !session.devices.empty() || session.stray;
  const bool goes_on = needed && !session.outdated;
  switch (session.state) {
    case State::absent:
      if (!needed) return false;
      if (now < session.not_before) break;
      move(session, State::starting, now);
      actions_.push_back(Start{name});
      break;
    case State::starting:
      if (goes_on && now - session.since < options_.start_patience) break;
      if (goes_on) {
        // It hangs. The next one waits as after one that ended.
        for (auto& device : session.devices)
          if (device.second.wanted && device.second.ticket != 0) give_up(device.second, ETIMEDOUT);
        if (session.stray) break;  // nobody knows what it has
        session.pause = longer(session.pause);
        session.not_before = now + options_.end_patience + session.pause;
      }
      move(session, State::ending, now);
      actions_.push_back(End{name, false});
      break;
    case State::up:
      if (goes_on) break;
      move(session, State::ending, now);
      actions_.push_back(End{name, false});
      break;
    case State::ending:
      if (now - session.since < options_.end_patience) break;
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
    // While it starts nobody knows what one that was found has mapped.
    if (!device.wanted && !device.mapped && !device.asked && session.state != State::starting) {
      if (device.kept) actions_.push_back(Save{});
      device.kept = false;
      done(device, 0);
      at = session.devices.erase(at);
      continue;
    }
    if (session.state == State::up && !session.outdated && is_due(device) && now >= device.not_before &&
        asked < kMostAsked) {
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
      return session.stray && !has_waiters(session) ? kNever : session.since + options_.start_patience;
    case State::ending:
      return session.since + options_.end_patience;
    case State::up:
      break;
  }
  Nanos next = kNever;
  if (asked_of(session) < kMostAsked)
    for (const auto& device : session.devices)
      if (is_due(device.second)) next = std::min(next, device.second.not_before);
  return next;
}

Nanos Supervisor::next_tick() const {
  Nanos next = kNever;
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
