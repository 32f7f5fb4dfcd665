// A node that has nothing to do does nothing. Otherwise next_deadline() leaves out a timer, which runs only
// when something else has the node polled. And a poll serves the timers that are due: one that is due after
// every poll would keep the node busy for ever, although what it sends makes time go on.
#include "sim/cluster/world.hpp"

namespace rtrs::sim {

namespace {

template <class Node>
std::string name_of(const Node& node) {
  return node.id == 0 ? "the server" : "client " + std::to_string(node.id);
}

}  // namespace

// `deadline`: by the clock of the node.
bool World::has_nothing_to_do(const Node& node, Nanos deadline) const {
  return node.up && node.paused_until <= now() && !due(node, deadline) && deadline > now(node);
}

// After a poll. `timer`: when the next one is due, by the clock of the node.
void World::watch_timer(Node& node, Nanos timer) {
  constexpr unsigned kMostPolls = 1000;
  node.overdue = timer <= now(node) ? node.overdue + 1 : 0;
  if (node.overdue > kMostPolls)
    stalled(name_of(node) + " has a timer that stays due, polled " + std::to_string(kMostPolls) + " times");
}

// Just before something happens at `until`, polls those that nothing asks to be polled.
void World::check_idle(Nanos until) {
  if (until <= now() + 1) return;
  network_.run_until(until - 1, choice_);
  const auto judge = [this](const Node& node, std::uint64_t acts_before, std::size_t results) {
    if (results == 0 && node.fabric->acts() == acts_before) return;
    judge_.fail(Oracle::liveness, now(),
                name_of(node) + " does something before next_deadline() although nothing happened to it");
  };
  if (server_.up && has_nothing_to_do(server_, server_.driver->next_deadline())) {
    const std::uint64_t acts = server_.fabric->acts();
    judge(server_, acts, server_.driver->poll(*server_.fabric, now(server_)));
  }
  for (const auto& client : clients_) {
    if (!client->up || !has_nothing_to_do(*client, client->driver->next_deadline())) continue;
    const std::uint64_t acts = client->fabric->acts();
    std::array<IoCompletion, 1> done;
    judge(*client, acts, client->driver->poll(*client->fabric, now(*client), done));
  }
}

}  // namespace rtrs::sim
