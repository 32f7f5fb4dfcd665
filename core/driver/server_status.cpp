// What a server tells an operator.
#include "core/driver/server_impl.hpp"

namespace rtrs {

std::vector<ServerSessionStatus> Server::sessions() const {
  std::vector<ServerSessionStatus> all;
  for (const auto& session : impl_->sessions) {
    if (session == nullptr) continue;
    ServerSessionStatus one;
    one.session = session->machine.index();
    one.opened = session->opened;
    one.name = session->name;
    for (unsigned index = 0; index < kMaxPaths; ++index) {
      const ServerPath& path = session->machine.path(index);
      if (path.state == PathState::absent) continue;
      one.paths.push_back({index, path.state, path.reason, session->peers[index], session->devices[index],
                           path.in_use, path.open_cons, path.extensions, session->since[index],
                           session->traffic[index], session->times[index].get()});
    }
    all.push_back(std::move(one));
  }
  return all;
}

Errc Server::reset_statistics(std::uint16_t session, unsigned path) noexcept {
  Impl::Session* found = impl_->find(session);
  if (found == nullptr || path >= kMaxPaths || found->machine.path_state(path) == PathState::absent)
    return Errc::no_such_path;
  found->traffic[path] = Traffic{};
  if (found->times[path] != nullptr) found->times[path]->clear();
  return Errc::ok;
}

}  // namespace rtrs
