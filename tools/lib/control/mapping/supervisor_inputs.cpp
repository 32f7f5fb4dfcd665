// Handles the inputs of the supervisor: requests of users and answers of processes.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "tools/lib/control/mapping/supervisor.hpp"

namespace rtrs::mapping {

namespace {

// Returns true for a device that was never mapped, but that settle() has not removed yet.
bool is_left_over(const Supervisor::Device& device) {
  return !device.wanted && !device.kept && !device.mapped && !device.asked && device.ticket == 0;
}

}  // namespace

void Supervisor::take(const DeviceMapRequested& asked, Nanos now) {
  const auto refuse = [&](int error) {
    if (asked.ticket != 0) actions_.push_back(Done{asked.ticket, error});
  };
  Session* session = find(asked.session);
  if (session == nullptr && sessions_.size() >= kMostSessions) return refuse(ENOSPC);
  if (const Device* const there = find(asked.session, asked.device))
    if (!is_left_over(*there)) return refuse(there->wanted ? EEXIST : EBUSY);
  if (session != nullptr && session->devices.size() >= kMaxDevices) return refuse(ENOSPC);
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
  device = {};
  device.wish = asked.device_wish;
  device.wanted = true;
  device.ticket = asked.ticket;
  device.asked_at = now;
}

void Supervisor::take(const DeviceUnmapRequested& asked, Nanos now) {
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
  device->force = asked.force;
  device->ticket = asked.ticket;
  device->asked_at = now;
  if (!device->kept) return begin_unmap(asked.session, asked.device, *device, now);
  device->kept = false;
  device->change = Change::drop;
  save_ = true;
}

void Supervisor::begin_unmap(const std::string& session, const std::string& name, Device& device, Nanos now) {
  if (device.wanted && device.asked) actions_.push_back(Cancel{session, name});
  device.wanted = false;
  device.not_before = now;
}

void Supervisor::take(const RetryNow& hurry, Nanos now) {
  Session* const session = find(hurry.session);
  if (session == nullptr) return;
  session->not_before = now;
  for (auto& device : session->devices) device.second.not_before = now;
}

void Supervisor::take(const Found& found, Nanos now) {
  const bool wished = find(found.session) != nullptr;
  Session& session = sessions_[found.session];
  session.stray = !wished && !options_.ends_unwanted_processes;
  if (session.stray) {
    session.wish = found.wish;
    session.wish.devices.clear();
  }
  session.found = true;
  move(session, State::starting, now);
}

void Supervisor::adopt(Session& session, const Answers& answers) {
  session.stray = false;
  // Users may have added or removed paths since the process was started, so the current paths are used.
  SessionWish now = session.wish;
  now.paths = answers.paths;
  if (!check_session(now) && !same_paths(now, session.wish)) session.wish = now;
  for (const std::string& name : answers.devices) {
    if (check_device_name(name)) continue;  // the state file could not store this name
    if (session.devices.size() >= kMaxDevices && !session.devices.contains(name)) continue;
    Device& device = session.devices[name];
    const auto mode = answers.modes.find(name);
    const DeviceWish found = mode == answers.modes.end() ? DeviceWish{} : mode->second;
    // A pending Map request succeeds if the process has mapped the device in the same mode.
    device.outcome = device.wish == found ? 0 : EEXIST;
    device.wish = found;
    device.wanted = device.kept = device.mapped = true;
    device.change = Change::adopt;
    save_ = true;
  }
}

void Supervisor::take(const Answers& answers, Nanos now) {
  Session* const session = find(answers.session);
  if (session == nullptr || (session->state != State::starting && session->state != State::up)) return;
  const bool first = session->state == State::starting;
  session->heard = now;
  session->found = false;
  if (first) move(*session, State::up, now);
  for (auto& [name, device] : session->devices) {
    const bool there =
        std::find(answers.devices.begin(), answers.devices.end(), name) != answers.devices.end();
    // A pending Map request must be completed by the answer to its Map, even if the device is already mapped.
    const bool asks = device.wanted && device.ticket != 0;
    if (device.asked) continue;
    device.there = there;
    device.mapped = there && !asks;
  }
  if (session->stray) return adopt(*session, answers);
  // Unknown devices in the first answer are left over from an earlier urtrs-mapd and are unmapped. Unknown
  // devices in a later answer are kept, because an operator may have mapped them manually.
  if (!first || !options_.ends_unwanted_processes) return;
  for (const std::string& name : answers.devices) {
    if (session->devices.size() == kMaxDevices) return;
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
  session->stray = session->outdated = session->found = false;
  end_path_change(*session);
  move(*session, State::absent, now);
  for (auto& device : session->devices) {
    device.second.mapped = device.second.asked = device.second.there = false;
    if (unasked && device.second.wanted && device.second.ticket != 0) give_up(device.second, ENOTCONN);
  }
}

void Supervisor::take(const Mapped& mapped, Nanos now) {
  Device* const device = find(mapped.session, mapped.device);
  if (device == nullptr || !std::exchange(device->asked, false)) return;
  // A device that was already mapped stays mapped if the second Map fails.
  device->mapped = mapped.error == 0 || device->there;
  device->error = mapped.error;
  if (!device->wanted) return;  // settle() unmaps the device
  if (mapped.error == 0) {
    device->pause = 0;
    if (device->kept) return done(*device, 0);
    device->kept = true;
    device->change = Change::keep;
    save_ = true;
    return;
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
  if (device->unsaved) return done(*device, device->outcome, true);
  if (!std::exchange(device->dropped, false)) return done(*device, unmapped.error);
  device->wanted = device->kept = true;
  device->change = Change::restore;
  device->outcome = unmapped.error;
  save_ = true;
}

void Supervisor::take(const Saved& in, Nanos now) {
  save_at_ = in.error == 0 ? kNever : now + options_.save_pause;
  for (auto& [name, session] : sessions_) {
    for (auto& [device_name, device] : session.devices) saved(name, device_name, device, in.error, now);
    saved(name, session, in.error);
  }
}

void Supervisor::saved(const std::string& session, const std::string& name, Device& device, int error,
                       Nanos now) {
  switch (std::exchange(device.change, Change::none)) {
    case Change::none:
      return;
    case Change::keep:
      if (error == 0) return done(device, 0);
      // settle() unmaps the device and then reports the error.
      device.kept = device.wanted = false;
      device.force = true;
      device.not_before = now;
      device.outcome = error;
      device.unsaved = true;
      return;
    case Change::adopt:
      return error == 0 ? done(device, device.outcome) : done(device, error, true);
    case Change::drop:
      if (error == 0) {
        device.dropped = true;
        return begin_unmap(session, name, device, now);
      }
      device.kept = true;
      return done(device, error, true);
    case Change::restore:
      return done(device, device.outcome);
  }
}

}  // namespace rtrs::mapping
