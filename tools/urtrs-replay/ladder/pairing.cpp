// Which connection of the server is which of a client, and which message arrived as which. Connections are
// reliable and ordered, so what one side received is, but for an end that never arrived, what the other sent:
// the sequences tell it without clocks. Where several fit equally, the nearest in time is taken.
#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "tools/urtrs-replay/ladder/build.hpp"

namespace rtrs::tool::ladder {

namespace {

struct Pairs {
  std::vector<std::pair<Index, Index>> of;  // sent, received
  std::size_t unexplained = 0;              // received, and never sent
};

class Pairing {
 public:
  explicit Pairing(Story& story) : story_(story) {}

  void run() {
    collect();
    guess_clocks();
    for (auto& [name, server] : servers_) choose(server);
    for (std::size_t i = 0; i < story_.connections.size(); ++i) join(static_cast<Index>(i));
    find_lost();
  }

 private:
  using Group = std::vector<Index>;  // connections
  const Step& step(Index at) const { return story_.steps[static_cast<std::size_t>(at)]; }
  Connection& connection(Index at) { return story_.connections[static_cast<std::size_t>(at)]; }
  const Machine& machine(const Connection& of) const {
    return story_.machines[static_cast<std::size_t>(of.machine)];
  }

  void collect() {
    for (std::size_t i = 0; i < story_.connections.size(); ++i) {
      const Connection& one = story_.connections[i];
      const Machine& owner = machine(one);
      if (owner.side == Side::client) {
        clients_[{owner.file, owner.instance, one.key.path}].push_back(static_cast<Index>(i));
      } else {
        // Without a connect request, in a trace that lost its beginning, the path's number has to do.
        const std::string name = one.path_uuid.empty()
                                     ? std::to_string(one.machine) + '/' + std::to_string(one.key.path)
                                     : one.path_uuid;
        servers_[{owner.file, name}].push_back(static_cast<Index>(i));
      }
    }
  }

  // Of one direction; notes of the wire are a sequence of their own.
  void pair_direction(const std::vector<Index>& sent, const std::vector<Index>& received, bool notes,
                      Pairs& out) const {
    constexpr std::size_t kFarthest = 4096;
    std::size_t next = 0;
    for (const Index arrival : received) {
      if (step(arrival).signature == 0 || (step(arrival).group == ladder::Group::wire) != notes) continue;
      std::size_t at = next;
      const std::size_t end = std::min(sent.size(), next + kFarthest);
      while (at < end && (step(sent[at]).signature != step(arrival).signature)) ++at;
      if (at >= end) {
        ++out.unexplained;
        continue;
      }
      out.of.emplace_back(sent[at], arrival);
      next = at + 1;
    }
  }

  Pairs pairs_of(const Connection& client, const Connection& server) const {
    Pairs pairs;
    for (const bool notes : {false, true}) {
      pair_direction(client.sent, server.received, notes, pairs);
      pair_direction(server.sent, client.received, notes, pairs);
    }
    return pairs;
  }

  Nanos first_time(const Connection& of) const {
    Nanos first = kNever;
    for (const auto* list : {&of.sent, &of.received}) {
      if (!list->empty()) first = std::min(first, step(list->front()).time);
    }
    return first;
  }

  // Clocks of different hosts begin anywhere. Files whose times do not overlap are taken to begin together.
  void guess_clocks() {
    begin_.assign(story_.files.size(), kNever);
    std::vector<Nanos> end(story_.files.size(), 0);
    for (const Step& one : story_.steps) {
      const auto file = static_cast<std::size_t>(one.file);
      begin_[file] = std::min(begin_[file], one.time);
      end[file] = std::max(end[file], one.time);
    }
    overlap_ = true;
    for (std::size_t file = 1; file < begin_.size(); ++file)
      overlap_ = overlap_ && begin_[file] <= end[0] && begin_[0] <= end[file];
  }
  Nanos distance(const Connection& a, const Connection& b) const {
    const auto place = [this](const Connection& of) {
      const Nanos base = overlap_ ? 0 : begin_[static_cast<std::size_t>(machine(of).file)];
      return static_cast<std::int64_t>(first_time(of) - base);
    };
    const std::int64_t apart = place(a) - place(b);
    return static_cast<Nanos>(apart < 0 ? -apart : apart);
  }

  struct Fit {
    std::size_t matched = 0;
    std::size_t unexplained = 0;
    Nanos distance = 0;
    std::vector<std::pair<Index, Index>> joined;  // client, server connections
    bool better_than(const Fit& other) const {
      return std::tuple(other.unexplained, matched, other.distance) >
             std::tuple(unexplained, other.matched, distance);
    }
  };

  Fit fit(const Group& client, const Group& server) {
    Fit fit;
    for (const Index right : server) {
      const Connection& theirs = connection(right);
      Index best = kNone;
      std::tuple<std::size_t, std::size_t, Nanos> best_rank;  // unexplained, -matched, distance
      for (const Index left : client) {
        const Connection& ours = connection(left);
        if (ours.peer != kNone || ours.key.con != theirs.key.con || ours.attempt != theirs.attempt) continue;
        if (!ours.path_uuid.empty() && !theirs.path_uuid.empty() && ours.path_uuid != theirs.path_uuid)
          continue;
        const Pairs pairs = pairs_of(ours, theirs);
        if (pairs.of.empty()) continue;
        const std::tuple rank(pairs.unexplained, std::numeric_limits<std::size_t>::max() - pairs.of.size(),
                              distance(ours, theirs));
        if (best == kNone || rank < best_rank) best = left, best_rank = rank;
      }
      if (best == kNone) continue;
      fit.unexplained += std::get<0>(best_rank);
      fit.matched += std::numeric_limits<std::size_t>::max() - std::get<1>(best_rank);
      fit.distance += std::get<2>(best_rank);
      fit.joined.emplace_back(best, right);
    }
    return fit;
  }

  void choose(const Group& server) {
    Fit best;
    for (const auto& [name, client] : clients_) {
      Fit one = fit(client, server);
      if (!one.joined.empty() && (best.joined.empty() || one.better_than(best))) best = std::move(one);
    }
    for (const auto& [left, right] : best.joined) {
      if (connection(left).peer != kNone) continue;
      connection(left).peer = right;
      connection(right).peer = left;
    }
  }

  void join(Index at) {
    Connection& client = connection(at);
    if (client.peer == kNone || machine(client).side != Side::client) return;
    for (const auto& [sent, received] : pairs_of(client, connection(client.peer)).of) {
      story_.steps[static_cast<std::size_t>(sent)].peer = received;
      story_.steps[static_cast<std::size_t>(received)].peer = sent;
    }
  }

  // Only where the peer was recorded at that time can be said that something never arrived.
  void find_lost() {
    for (const Connection& one : story_.connections) {
      const Side side = machine(one).side;
      if (!story_.has(side == Side::client ? Side::server : Side::client)) continue;
      for (const Index at : one.sent) {
        Step& sent = story_.steps[static_cast<std::size_t>(at)];
        // A connection without a peer: a connect request that never arrived, unless its peer is not here.
        if (one.peer == kNone && (side == Side::server || sent.group != ladder::Group::connect)) continue;
        sent.lost = sent.peer == kNone && !sent.may_vanish;
      }
    }
  }

  Story& story_;
  std::map<std::tuple<Index, std::uint16_t, std::uint16_t>, Group> clients_;  // file, instance, path
  std::map<std::pair<Index, std::string>, Group> servers_;                    // file, uuid of the path
  std::vector<Nanos> begin_;
  bool overlap_ = true;
};

}  // namespace

void pair_messages(Story& story) {
  Pairing(story).run();
}

}  // namespace rtrs::tool::ladder
