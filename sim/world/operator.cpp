#include "sim/world/operator.hpp"

#include <algorithm>

namespace rtrs::sim {

void Operator::start() {
  if (scenario_.admin_gap != kNever) next_operation_ = now() + scenario_.admin_gap;
  if (scenario_.recover_gap != kNever) next_recovery_ = now() + scenario_.recover_gap;
  if (scenario_.close_gap != kNever) next_closing_ = now() + scenario_.close_gap;
}

void Operator::due() {
  if (next_operation_ <= now()) change_paths();
  if (next_recovery_ <= now()) recover_due();
}

void Operator::change_paths() {
  next_operation_ = now() + draw_exponential(choice_, microseconds(1), scenario_.admin_gap, Label::admin);
  if (choice_.skips(Label::admin)) return;
  const ScopedGroup group(choice_, Label::admin);
  const auto which = choice_.draw(static_cast<std::uint32_t>(clients_.size()), Label::admin);
  ClientNode& client = *clients_[which];
  if (!client.up || client.paused_until > now()) return;
  const bool adds = scenario_.removes_all && !client.missing.empty();
  if (client.driver->session().link_up() || adds) operate(client);
}

// No connected path is required: an operator also recovers a session that has lost all its paths.
void Operator::recover_due() {
  next_recovery_ = now() + draw_exponential(choice_, microseconds(1), scenario_.recover_gap, Label::recover);
  if (choice_.skips(Label::recover)) return;
  const ScopedGroup group(choice_, Label::recover);
  ClientNode& client = *clients_[choice_.draw(static_cast<std::uint32_t>(clients_.size()), Label::recover)];
  if (client.up && client.paused_until <= now()) operate(client, PathOperation::recover, 0);
}

void Operator::recover(ClientNode& client) {
  ClientEnd& end = *client.driver;
  const auto paths = end.session().paths();
  const std::vector<PathStatus> before(paths.begin(), paths.end());
  const unsigned tried = end.session().recover(*client.fabric, now(client));
  client.promises->recovered(before, end.session().paths(), tried, now(client));
  if (tried != 0) judge_.mark(Mark::operator_recover);
}

void Operator::restore_missing_path(ClientNode& client) {
  const auto paths = client.driver->session().paths();
  std::size_t index = 0;
  while (index < paths.size() && paths[index].state != PathState::absent) ++index;
  if (client.driver->session().add_path(*client.fabric, now(client), client.missing.back()) != Errc::ok)
    return;
  client.address_of[index] = client.missing.back();
  client.missing.pop_back();
  judge_.mark(Mark::path_removed);
}

void Operator::remove(ClientNode& client, std::uint32_t path) {
  const PathStatus before = client.driver->session().paths()[path];
  if (before.state == PathState::connecting) judge_.mark(Mark::removed_connecting);
  const PathAddress address = client.address_of[path];
  // A path that is already being removed may be removed again.
  const bool again = std::find(client.missing.begin(), client.missing.end(), address) != client.missing.end();
  if (client.driver->session().remove_path(*client.fabric, now(client), path) == Errc::ok && !again)
    client.missing.push_back(address);
}

void Operator::operate(ClientNode& client) {
  const std::uint32_t operation = choice_.draw(6, Label::admin);
  const std::uint32_t path = choice_.draw(scenario_.paths, Label::admin);
  operate(client, static_cast<PathOperation>(operation), path);
}

void Operator::operate(ClientNode& client, PathOperation operation, std::uint32_t path) {
  note(Journal::Kind::operated, client.id, static_cast<std::uint64_t>(operation), path);
  const bool ends = operation == PathOperation::disconnect || operation == PathOperation::remove;
  if (ends) client.promises->asked_to_end(path, now(client));
  switch (operation) {
    case PathOperation::disconnect:
      if (client.driver->session().disconnect_path(*client.fabric, now(client), path) == Errc::ok)
        judge_.mark(Mark::operator_disconnect);
      break;
    case PathOperation::reconnect:
      if (client.driver->session().reconnect_path(*client.fabric, now(client), path) == Errc::ok)
        judge_.mark(Mark::operator_reconnect);
      break;
    case PathOperation::remove:
      if (!scenario_.directed && !may_remove(client, path)) break;
      // The load assumes that no request executes after it failed. Without the fence extension, only the path
      // itself can prove this, so it must not be removed while its requests wait for the proof.
      if (!scenario_.can_fence() && scenario_.fenced) break;
      remove(client, path);
      if (client.missing.size() == scenario_.paths) judge_.mark(Mark::all_removed);
      break;
    case PathOperation::add:
      if (!client.missing.empty()) restore_missing_path(client);
      break;
    case PathOperation::policy:
      client.driver->session().set_policy(*client.fabric, now(client),
                                          static_cast<MultipathPolicy>(path % 3));
      judge_.mark(Mark::policy_changed);
      break;
    case PathOperation::recover:
      recover(client);
      break;
    case PathOperation::drop:
      if (!server_.up || server_.paused_until > now()) break;
      for (std::uint16_t session = 0; session < server_.session_of.size(); ++session)
        if (server_.session_of[session] == client.id - 1 &&
            server_.driver->disconnect_path(*server_.fabric, now(server_), session, path) == Errc::ok)
          judge_.mark(Mark::operator_drop);
  }
}

// A random operator leaves at least one path unless the scenario allows removing all. If removed paths stay
// removed, the remaining path must have a working link.
bool Operator::may_remove(const ClientNode& client, std::uint32_t path) const {
  if (scenario_.removes_all) return !client.is_missing(client.address_of[path]);
  if (!scenario_.removes_for_good) return client.missing.empty() && scenario_.paths > 1;
  if (client.is_missing(client.address_of[path])) return false;
  std::uint32_t others = 0;
  for (std::uint32_t port = 0; port < scenario_.paths; ++port) {
    const bool dies = scenario_.dead_links.holds(client.id - 1, port);
    const bool this_one = client.address_of[path].source == cluster_.address(client.id - 1, port).source;
    if (!dies && !this_one && cluster_.lives(client, port)) ++others;
  }
  return others != 0;
}

void Operator::closings_due() {
  if (next_closing_ <= now()) close_random_node();
  if (server_.closing && server_.driver->closed()) {
    server_.closing.reset();
    if (std::exchange(server_.comes_back, false)) processes_.restart_now(server_.id);
  } else if (server_.closing && server_.paused_until <= now()) {
    server_.closing->check(server_.fabric->connections().all_ended(), now(server_));
  }
  for (const auto& client : clients_) {
    if (!client->closing) continue;
    if (client->driver->closed() && client->under_way == 0) {
      client->closing.reset();
      if (!std::exchange(client->comes_back, false)) continue;
      if (client->disks) client->disks->dies();
      processes_.rejoin(*client);
    } else if (client->paused_until <= now()) {
      client->closing->check(client->fabric->connections().all_ended(), now(*client));
    }
  }
}

void Operator::close_random_node() {
  next_closing_ = now() + draw_exponential(choice_, microseconds(1), scenario_.close_gap, Label::closing);
  if (choice_.skips(Label::closing)) return;
  const ScopedGroup group(choice_, Label::closing);
  if (choice_.draw(4, Label::closing) == 3) {
    if (!server_.up || server_.retired || server_.paused_until > now()) return;
    note(Journal::Kind::closing, server_.id);
    if (server_.driver->transport().session_count() != 0) judge_.mark(Mark::shut_down);
    server_.comes_back = true;
    return processes_.begin_shutdown();
  }
  const auto which = choice_.draw(static_cast<std::uint32_t>(clients_.size()), Label::closing);
  ClientNode& client = *clients_[which];
  if (!client.up || client.leaving || client.paused_until > now()) return;
  note(Journal::Kind::closing, client.id);
  if (client.under_way != 0)
    judge_.mark(client.driver->session().link_up() ? Mark::left_busy : Mark::left_dead);
  client.leaving = client.comes_back = true;
  client.wanted.clear();
  processes_.begin_close(client);
}

}  // namespace rtrs::sim
