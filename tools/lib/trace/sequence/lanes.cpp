// Places the lanes of clients, paths and connections, and finds the time spans of path states.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/proto/limits.hpp"
#include "tools/lib/trace/sequence/build.hpp"
#include "tools/lib/trace/sequence/fields.hpp"

namespace rtrs::tools::sequence {

namespace {

class Layout {
 public:
  explicit Layout(Story& story) : story_(story) {}

  void run() {
    find_clients();
    place_client_connections();
    place_server_connections();
    name_clients();
    make_lanes();
    walk();
  }

 private:
  const Machine& machine(Index at) const { return story_.machines[static_cast<std::size_t>(at)]; }
  Connection& connection(Index at) { return story_.connections[static_cast<std::size_t>(at)]; }

  Index client_view(Index file, std::uint16_t instance) {
    const auto [at, fresh] = views_.try_emplace({file, instance}, static_cast<Index>(story_.clients.size()));
    if (fresh) story_.clients.push_back({file, instance, {}});
    return at->second;
  }

  void find_clients() {
    for (const Machine& one : story_.machines) {
      if (one.side == Side::client) client_view(one.file, one.instance);
    }
  }

  Index path_of(Index owner, std::uint16_t number) {
    const auto [at, fresh] = paths_.try_emplace({owner, number}, static_cast<Index>(story_.paths.size()));
    if (fresh) story_.paths.push_back({owner, number, {}});
    return at->second;
  }

  void place_client_connections() {
    for (Connection& one : story_.connections) {
      const Machine& owner = machine(one.machine);
      if (owner.side == Side::client)
        one.path = path_of(client_view(owner.file, owner.instance), one.key.path);
    }
  }

  // Assigns each server path to the client that one of its connections was matched to, or else to a
  // placeholder for a client that was not recorded.
  void place_server_connections() {
    std::map<std::pair<Index, std::string>, Index> known;  // paths, by (file, uuid of the path)
    const auto name = [this](const Connection& one) {
      return std::pair(machine(one.machine).file, one.path_uuid.empty() ? std::to_string(one.machine) + '/' +
                                                                              std::to_string(one.key.number())
                                                                        : one.path_uuid);
    };
    for (const Connection& one : story_.connections) {
      if (machine(one.machine).side == Side::server && one.peer != kNone)
        known.try_emplace(name(one), connection(one.peer).path);
    }
    for (Connection& one : story_.connections) {
      if (machine(one.machine).side != Side::server) continue;
      auto [at, fresh] = known.try_emplace(name(one), kNone);
      if (fresh) {
        const std::uint16_t session = one.key.session;
        const auto [ghost, first] = ghosts_.try_emplace({machine(one.machine).file, session},
                                                        static_cast<Index>(story_.clients.size()));
        if (first) story_.clients.push_back({kNone, session, {}});
        at->second = path_of(ghost->second, one.key.path);
      }
      one.path = at->second;
      if (one.path != kNone) story_.paths[static_cast<std::size_t>(one.path)].uuid = one.path_uuid;
    }
  }

  void name_clients() {
    for (std::size_t i = 0; i < story_.clients.size(); ++i) {
      ClientView& client = story_.clients[i];
      client.name = story_.clients.size() == 1 ? "client" : "client " + std::to_string(i + 1);
    }
  }

  void make_lanes() {
    for (std::size_t client = 0; client < story_.clients.size(); ++client) {
      const auto owner = static_cast<Index>(client);
      story_.lanes.push_back({Lane::Kind::client, story_.clients[client].name, owner, kNone, 0,
                              story_.clients[client].file != kNone});
      // Each entry: path number, con, index of the path.
      std::set<std::tuple<std::uint16_t, std::uint16_t, Index>> wanted;
      for (const Connection& one : story_.connections) {
        if (one.path == kNone) continue;
        const Path& path = story_.paths[static_cast<std::size_t>(one.path)];
        if (path.owner == owner) wanted.insert({path.number, one.key.con, one.path});
      }
      for (const auto& [number, con, path] : wanted) {
        lanes_[{path, con}] = static_cast<Index>(story_.lanes.size());
        story_.lanes.push_back({Lane::Kind::connection, std::to_string(number) + '.' + std::to_string(con),
                                owner, path, con, true});
      }
    }
    bool any_server = false;
    for (std::size_t file = 0; file < story_.files.size(); ++file) {
      if (!story_.files[file].has_server) continue;
      any_server = true;
      story_.lanes.push_back({Lane::Kind::server, "server", static_cast<Index>(file), kNone, 0, true});
      story_.lanes.push_back({Lane::Kind::storage, "storage", static_cast<Index>(file), kNone, 0, true});
    }
    if (!any_server) story_.lanes.push_back({Lane::Kind::server, "server", kNone, kNone, 0, false});
    for (Connection& one : story_.connections) {
      const auto lane = lanes_.find({one.path, one.key.con});
      if (lane != lanes_.end()) one.lane = lane->second;
    }
  }

  using SpanKey = std::tuple<Index, std::uint16_t>;  // index of the machine, path number

  void close_span(Index path, Side side, Index at) {
    const auto open = open_.find({path, side});
    if (open == open_.end()) return;
    story_.path_spans[static_cast<std::size_t>(open->second)].to = at;
    open_.erase(open);
  }

  void change(const Step& step, Index path, Side side, Index at) {
    close_span(path, side, at);
    const std::string state(value_of(step.fields, "state"));
    if (state == "absent") return;
    open_[{path, side}] = static_cast<Index>(story_.path_spans.size());
    story_.path_spans.push_back({path, side, state, std::string(value_of(step.fields, "reason")), at, kNone});
  }

  // Ends the open spans of all paths of a state machine. Called when the machine ends or begins again.
  void forget(const Machine& owner, Index at) {
    for (auto it = numbers_.begin(); it != numbers_.end();) {
      const Machine& other = machine(std::get<0>(it->first));
      const bool same = other.file == owner.file && other.instance == owner.instance;
      if (same) close_span(it->second, owner.side, at);
      it = same ? numbers_.erase(it) : std::next(it);
    }
  }

  void walk() {
    for (std::size_t i = 0; i < story_.steps.size(); ++i) {
      const auto at = static_cast<Index>(i);
      Step& step = story_.steps[i];
      if (step.machine == kNone) continue;
      const Machine& owner = machine(step.machine);
      if (step.event.starts_with("Begin") || step.event == "End") forget(owner, at);
      if (step.connection != kNone) {
        const Connection& one = connection(step.connection);
        step.path = one.path;
        if (step.path != kNone && owner.side == Side::server)
          numbers_[{step.machine, one.key.path}] = step.path;
      } else if (!value_of(step.fields, "path").empty()) {
        step.path = numbered(step, owner, static_cast<std::uint16_t>(number_of(step.fields, "path")));
      } else if (step.event == "FailedOver") {
        step.path = numbered(step, owner, static_cast<std::uint16_t>(number_of(step.fields, "to")));
      }
      if (step.event == "PathChanged" && step.path != kNone) change(step, step.path, owner.side, at);
    }
  }

  Index numbered(const Step& step, const Machine& owner, std::uint16_t number) {
    if (owner.side == Side::client) {
      const auto found = paths_.find({client_view(owner.file, owner.instance), number});
      if (found == paths_.end()) return kNone;
      numbers_[{step.machine, number}] = found->second;
      return found->second;
    }
    const auto found = numbers_.find({step.machine, number});
    return found == numbers_.end() ? kNone : found->second;
  }

  Story& story_;
  std::map<std::pair<Index, std::uint16_t>, Index> views_;   // clients by (file, instance)
  std::map<std::pair<Index, std::uint16_t>, Index> ghosts_;  // placeholder clients by (server file, session)
  std::map<std::pair<Index, std::uint16_t>, Index> paths_;   // paths by (client, path number)
  std::map<std::pair<Index, std::uint16_t>, Index> lanes_;   // lanes by (path, connection number)
  std::map<SpanKey, Index> numbers_;                         // paths by (machine, path number)
  std::map<std::pair<Index, Side>, Index> open_;             // open spans by (path, side)
};

}  // namespace

void lay_out(Story& story) {
  Layout(story).run();
}

}  // namespace rtrs::tools::sequence
