// What an operator of the clients and of the server does to paths.
#include <algorithm>

#include "sim/cluster/world.hpp"

namespace rtrs::sim {

void World::operator_due() {
  next_operation_ = now() + draw_exponential(choice_, microseconds(1), scenario_.admin_gap, Label::admin);
  if (choice_.skips(Label::admin)) return;
  const ScopedGroup group(choice_, Label::admin);
  const auto which = choice_.draw(static_cast<std::uint32_t>(clients_.size()), Label::admin);
  ClientNode& client = *clients_[which];
  if (!client.up || client.paused_until > now()) return;
  const bool adds = scenario_.removes_all && !client.missing.empty();
  if (client.driver->session().link_up() || adds) operate(client);
}

// With no path up too, which is when an operator does it.
void World::recover_due() {
  next_recovery_ = now() + draw_exponential(choice_, microseconds(1), scenario_.recover_gap, Label::recover);
  if (choice_.skips(Label::recover)) return;
  const ScopedGroup group(choice_, Label::recover);
  ClientNode& client = *clients_[choice_.draw(static_cast<std::uint32_t>(clients_.size()), Label::recover)];
  if (client.up && client.paused_until <= now()) operate(client, Operation::recover, 0);
}

void World::recover(ClientNode& client) {
  ClientEnd& end = *client.driver;
  const auto paths = end.session().paths();
  const std::vector<PathStatus> before(paths.begin(), paths.end());
  const unsigned tried = end.session().recover(*client.fabric, now(client));
  client.promises->recovered(before, end.session().paths(), tried, now(client));
  if (tried != 0) judge_.mark(Mark::operator_recover);
}

// By path, since when it is to be tried again; kNever: it is not.
std::array<Nanos, kMaxPaths> World::waiting_since(const ClientNode& client) const {
  std::array<Nanos, kMaxPaths> since;
  since.fill(kNever);
  const auto paths = client.driver->session().paths();
  for (std::size_t path = 0; path < paths.size(); ++path)
    if (paths[path].state == PathState::waiting) since[path] = paths[path].since;
  return since;
}

void World::add_missing(ClientNode& client) {
  const auto paths = client.driver->session().paths();
  std::size_t index = 0;
  while (index < paths.size() && paths[index].state != PathState::absent) ++index;
  if (client.driver->session().add_path(*client.fabric, now(client), client.missing.back()) != Errc::ok)
    return;
  client.address_of[index] = client.missing.back();
  client.missing.pop_back();
  judge_.mark(Mark::path_removed);
}

void World::remove(ClientNode& client, std::uint32_t path) {
  const PathStatus before = client.driver->session().paths()[path];
  if (before.state == PathState::connecting) judge_.mark(Mark::removed_connecting);
  const PathAddress address = client.address_of[path];
  // One that is on its way out already may be removed once more.
  const bool again = std::find(client.missing.begin(), client.missing.end(), address) != client.missing.end();
  if (client.driver->session().remove_path(*client.fabric, now(client), path) == Errc::ok && !again)
    client.missing.push_back(address);
}

void World::operate(ClientNode& client) {
  const std::uint32_t operation = choice_.draw(6, Label::admin);
  const std::uint32_t path = choice_.draw(scenario_.paths, Label::admin);
  operate(client, static_cast<Operation>(operation), path);
}

void World::operate(ClientNode& client, Operation operation, std::uint32_t path) {
  note(Journal::Kind::operated, client.id, static_cast<std::uint64_t>(operation), path);
  const bool ends = operation == Operation::disconnect || operation == Operation::remove;
  if (ends) client.promises->asked_to_end(path, now(client));
  switch (operation) {
    case Operation::disconnect:
      if (client.driver->session().disconnect_path(*client.fabric, now(client), path) == Errc::ok)
        judge_.mark(Mark::operator_disconnect);
      break;
    case Operation::reconnect:
      if (client.driver->session().reconnect_path(*client.fabric, now(client), path) == Errc::ok)
        judge_.mark(Mark::operator_reconnect);
      break;
    case Operation::remove:
      if (!scenario_.directed && !may_remove(client, path)) break;
      // Without a fence only the path itself can bring the proof that its requests wait for.
      if (!scenario_.can_fence() && scenario_.fenced) break;
      remove(client, path);
      if (client.missing.size() == scenario_.paths) judge_.mark(Mark::all_removed);
      break;
    case Operation::add:
      if (!client.missing.empty()) add_missing(client);
      break;
    case Operation::policy:
      client.driver->session().set_policy(*client.fabric, now(client),
                                          static_cast<MultipathPolicy>(path % 3));
      judge_.mark(Mark::policy_changed);
      break;
    case Operation::recover:
      recover(client);
      break;
    case Operation::drop:
      if (!server_.up || server_.paused_until > now()) break;
      for (std::uint16_t session = 0; session < server_.session_of.size(); ++session)
        if (server_.session_of[session] == client.id - 1 &&
            server_.driver->disconnect_path(*server_.fabric, now(server_), session, path) == Errc::ok)
          judge_.mark(Mark::operator_drop);
  }
}

}  // namespace rtrs::sim
