// Places the lanes of clients, paths and connections.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "tools/lib/trace/sequence/build.hpp"

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

  Story& story_;
  std::map<std::pair<Index, std::uint16_t>, Index> views_;   // clients by (file, instance)
  std::map<std::pair<Index, std::uint16_t>, Index> ghosts_;  // placeholder clients by (server file, session)
  std::map<std::pair<Index, std::uint16_t>, Index> paths_;   // paths by (client, path number)
  std::map<std::pair<Index, std::uint16_t>, Index> lanes_;   // lanes by (path, connection number)
};

}  // namespace

void lay_out(Story& story) {
  Layout(story).run();
}

}  // namespace rtrs::tools::sequence
