#include "sim/hunt/feature_watch.hpp"

#include <algorithm>

#include "sim/oracles/digest.hpp"

namespace rtrs::sim::hunt {

namespace {

using Kind = Journal::Kind;

// Options are drawn from a few values; a draw from more values is a time or a size, whose half is enough.
constexpr std::uint32_t kFewValues = 8;
// Margins below this many eighths of a bound are normal.
constexpr unsigned kNearBound = 4;

// Requests are so frequent that only their failures are events here.
bool is_event(const Journal::Entry& entry) noexcept {
  switch (entry.kind) {
    case Kind::submitted:
    case Kind::delivered:
    case Kind::applied:
      return false;
    case Kind::completed:
      return entry.b != 0 || entry.c != 0;
    case Kind::answered:
      return entry.b != 0;
    default:
      return true;
  }
}

// Names the event without numbers of sessions, requests and paths, and without times.
std::uint64_t event_of(const Journal::Entry& entry) noexcept {
  const std::uint64_t kind = (static_cast<std::uint64_t>(entry.kind) << 1 | (entry.node == 0 ? 0 : 1)) << 16;
  switch (entry.kind) {
    case Kind::path:
      return kind | entry.b << 8 | (entry.c & 0xff);
    case Kind::completed:
      return kind | (entry.b << 8 & 0xff00) | (entry.c & 0xff);
    case Kind::session:
    case Kind::answered:
      return kind | (entry.b & 0xffff);
    case Kind::link:
    case Kind::operated:
    case Kind::phase:
    case Kind::struck:
      return kind | (entry.a & 0xffff);
    default:
      return kind;
  }
}

// State of the server's end of a client's path. Net::link() would create a link that the run has not created
// yet.
PathState state_across(Cluster& cluster, const ClientNode& client, std::uint32_t path) {
  for (LinkId link = 0; link < cluster.network.link_count(); ++link) {
    const LinkInfo info = cluster.network.link_info(link);
    if (info.client == client.id && info.client_port == path && info.server == cluster.server.id &&
        info.server_port == path)
      return cluster.server_state(link);
  }
  return PathState::absent;
}

std::uint64_t both(std::uint64_t a, std::uint64_t b) noexcept {
  return fold(fold(0x68756e74, a), b);
}

}  // namespace

std::uint32_t feature_of(FeatureKind kind, std::uint64_t what) noexcept {
  return static_cast<std::uint32_t>(kind) * kFeaturesPerKind +
         static_cast<std::uint32_t>(mix(what) % kFeaturesPerKind);
}

void FeatureWatch::add(FeatureKind kind, std::uint64_t what) {
  const std::uint32_t feature = feature_of(kind, what);
  if (seen_[feature]) return;
  seen_[feature] = true;
  found_.push_back({feature, static_cast<std::uint32_t>(drawn_)});
}

void FeatureWatch::watch(World& world) {
  world_ = &world;
  world.cluster().journal.observe(this);
  look_at_judge();
}

void FeatureWatch::end() {
  if (world_ == nullptr) return;
  look_at_judge();
  world_->cluster().journal.observe(nullptr);
  world_ = nullptr;
}

void FeatureWatch::drawn(const Draw& draw) {
  ++drawn_;
  if (world_ != nullptr) return;
  const auto label = static_cast<std::size_t>(draw.label);
  const std::uint64_t ordinal = draws_of_label_[label]++;
  if (draw.value == 0) return;  // the default of an option
  const std::uint64_t value = draw.n <= kFewValues ? draw.value : draw.value > draw.n / 2 ? 1 : 0;
  add(FeatureKind::option, both(both(label, ordinal), value));
}

void FeatureWatch::look_at_judge() {
  const Judge& judge = world_->cluster().judge;
  if (judge.marks() != marks_) {
    const std::array<bool, kMarks> before = marks_;
    marks_ = judge.marks();
    for (unsigned mark = 0; mark < kMarks; ++mark) {
      if (!marks_[mark] || before[mark]) continue;
      add(FeatureKind::mark, mark);
      for (unsigned other = 0; other < kMarks; ++other)
        if (before[other]) add(FeatureKind::mark_pair, both(other, mark));
    }
  }
  if (judge.margins() == margins_) return;
  margins_ = judge.margins();
  for (unsigned oracle = 0; oracle < kOracles; ++oracle)
    if (margins_[oracle] >= kNearBound) add(FeatureKind::margin, both(oracle, margins_[oracle]));
}

void FeatureWatch::look_at_states() {
  Cluster& cluster = world_->cluster();
  for (const auto& client : cluster.clients) {
    if (!client->up) continue;
    const auto paths = client->driver->session().paths();
    for (std::uint32_t path = 0; path < paths.size() && path < cluster.scenario.paths; ++path) {
      add(FeatureKind::state_pair, both(static_cast<std::uint64_t>(paths[path].state),
                                        static_cast<std::uint64_t>(state_across(cluster, *client, path))));
    }
  }
}

// A set of states: one bit for each state that a path of the node has, and one for requests in flight.
std::uint64_t FeatureWatch::states_of(std::uint32_t node) const {
  const Cluster& cluster = world_->cluster();
  std::uint64_t states = 0;
  if (node == 0) {
    for (const PathState state : cluster.server.path_state)
      if (state != PathState::absent) states |= std::uint64_t{1} << static_cast<unsigned>(state);
    return states | (cluster.in_storage() != 0 ? std::uint64_t{1} << 16 : 0);
  }
  if (node > cluster.clients.size()) return 0;
  const ClientNode& client = *cluster.clients[node - 1];
  if (!client.up) return 0;
  for (const PathStatus& path : client.driver->session().paths())
    states |= std::uint64_t{1} << static_cast<unsigned>(path.state);
  return states | (client.under_way != 0 ? std::uint64_t{1} << 16 : 0);
}

void FeatureWatch::add_fault(const Journal::Entry& entry) {
  Cluster& cluster = world_->cluster();
  const std::uint64_t number = entry.c & 0xffff;
  const auto path = static_cast<std::uint32_t>(entry.c >> 16 & 0xffff);
  if (number == 0 || number > cluster.clients.size())
    return add(FeatureKind::fault, both(entry.a, states_of(0)));
  ClientNode& client = *cluster.clients[number - 1];
  if (!client.up || path >= client.driver->session().paths().size() || path >= cluster.scenario.paths)
    return add(FeatureKind::fault, both(entry.a, states_of(client.id)));
  add(FeatureKind::fault,
      both(entry.a, both(static_cast<std::uint64_t>(client.driver->session().paths()[path].state),
                         static_cast<std::uint64_t>(state_across(cluster, client, path)))));
}

void FeatureWatch::noted(const Journal::Entry& entry) {
  look_at_judge();
  if (!is_event(entry)) return;
  const std::uint64_t event = event_of(entry);
  add(FeatureKind::step, both(event, states_of(entry.node)));
  if (entry.kind == Kind::struck) add_fault(entry);
  if (entry.kind == Kind::path) look_at_states();
  if (entry.node >= last_event_.size()) return;
  add(FeatureKind::order, both(last_event_[entry.node], event));
  last_event_[entry.node] = event;
}

}  // namespace rtrs::sim::hunt
