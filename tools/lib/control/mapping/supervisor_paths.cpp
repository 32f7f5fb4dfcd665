// Adds a path to a session or removes a path from it.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/proto/limits.hpp"
#include "tools/lib/control/mapping/supervisor.hpp"

namespace rtrs::mapping {

using Step = Supervisor::PathChange::Step;

void Supervisor::take(const PathChangeRequested& asked, Nanos now) {
  Session* const session = find(asked.session);
  int refusal = 0;
  if (session == nullptr || !session->in_use())
    refusal = ENOENT;
  else if (session->paths.step != Step::none)
    refusal = EALREADY;
  else if (session->found || session->stray)
    refusal = EAGAIN;
  else if (asked.add && find_path(session->wish, asked.path))
    refusal = EEXIST;
  else if (asked.add && session->wish.paths.size() >= kMaxPaths)
    refusal = ENOSPC;
  else if (!asked.add && session->state != State::up && !find_path(session->wish, asked.path))
    refusal = ENOENT;
  else if (!asked.add && session->wish.paths.size() == 1)
    refusal = EBUSY;
  if (refusal != 0) {
    if (asked.ticket != 0) actions_.push_back(Done{asked.ticket, refusal});
    return;
  }
  PathChange& paths = session->paths;
  paths = {Step::act, asked.add, asked.path, session->wish.paths, false, asked.ticket, now, 0};
  if (session->state == State::up) {
    actions_.push_back(ChangePath{asked.session, asked.path, asked.add, asked.force});
    return;
  }
  change_paths(*session);
}

void Supervisor::change_paths(Session& session) {
  PathChange& paths = session.paths;
  auto& wished = session.wish.paths;
  const auto at = find_path(session.wish, paths.path);
  if (paths.add) {
    wished.push_back(paths.path);
  } else if (at && wished.size() > 1) {
    wished.erase(wished.begin() + static_cast<std::ptrdiff_t>(*at));
  } else {
    // The removed path is not in the file, because an operator added the path manually. So nothing has to be
    // saved.
    paths.step = Step::none;
    return done(paths, 0);
  }
  paths.step = Step::save;
  save_ = true;
}

void Supervisor::take(const PathChanged& in, Nanos) {
  Session* const session = find(in.session);
  if (session == nullptr) return;
  PathChange& paths = session->paths;
  if (paths.step == Step::undo) {
    paths.step = Step::none;
    return done(paths, paths.error, true);
  }
  if (paths.step != Step::act) return;
  if (in.error != 0) {
    paths.step = Step::none;
    return done(paths, in.error);
  }
  paths.acted = true;
  if (!paths.add && !in.path.empty()) paths.path = in.path;
  change_paths(*session);
  if (paths.add && !in.path.empty()) paths.path = in.path;
}

void Supervisor::saved(const std::string& name, Session& session, int error) {
  PathChange& paths = session.paths;
  if (paths.step != Step::save) return;
  if (error == 0) {
    // The process is still starting, with the old paths, so it must be replaced.
    if (!paths.acted && session.state == State::starting) session.outdated = true;
    paths.step = Step::none;
    return done(paths, 0);
  }
  session.wish.paths = paths.before;
  // Without a process there is no path to undo.
  if (!paths.acted || session.state != State::up) {
    paths.step = Step::none;
    return done(paths, error, true);
  }
  paths.step = Step::undo;
  paths.error = error;
  actions_.push_back(ChangePath{name, paths.path, !paths.add, true});
}

void Supervisor::end_path_change(Session& session) {
  PathChange& paths = session.paths;
  const bool undone = paths.step == Step::undo;
  if (undone || paths.step == Step::act) done(paths, undone ? paths.error : ENOTCONN, undone);
  paths.step = Step::none;
}

}  // namespace rtrs::mapping
