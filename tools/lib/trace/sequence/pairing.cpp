// Finds the client connection of each server connection, and the receive of each sent message. Connections
// are reliable and ordered, so the received messages are a prefix of the sent ones. Therefore two ends can be
// matched by their messages, without clocks. The best match is taken first, and its clock offset limits the
// other matches. Of several equal matches, the nearest in time is taken. Long traces are matched by the first
// messages of each connection.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "tools/lib/trace/sequence/build.hpp"
#include "tools/lib/trace/sequence/survey.hpp"

namespace rtrs::tools::sequence {

namespace {

// Range of the server's clock minus the client's clock, in ns, computed from the messages between two files.
struct ClockRange {
  std::int64_t least = std::numeric_limits<std::int64_t>::min() / 4;
  std::int64_t most = std::numeric_limits<std::int64_t>::max() / 4;
  void add(const ClockRange& other) {
    least = std::max(least, other.least);
    most = std::min(most, other.most);
  }
  bool agrees(const ClockRange& other, std::int64_t slack) const {
    return std::max(least, other.least) <= std::min(most, other.most) + slack;
  }
};

struct Pairs {
  std::size_t matched = 0;
  std::size_t unexplained = 0;  // number of received messages that match no sent one
  bool hopeless() const { return unexplained > 16 + matched / 8; }
};

// A client connection and a server connection that may be the two ends of one connection.
struct Candidate {
  Index client = kNone, server = kNone;
  std::size_t matched = 0, unexplained = 0;
  Nanos distance = 0;
  ClockRange clock;
};
using PathName = std::tuple<Index, std::uint16_t, std::uint16_t>;  // file, instance, path number
using UuidName = std::pair<Index, std::string>;                    // file, uuid of the path

class Pairing {
 public:
  Pairing(const Survey& survey, Story& story) : survey_(survey), story_(story) {}

  void run() {
    place_clocks();
    collect();
    // Files from one host have one clock. All files are therefore assumed to have one clock, unless this
    // assumption pairs over 10 % fewer messages.
    const std::size_t anyhow = choose(false);
    if (choose(true) * 10 < anyhow * 9) choose(false);
    estimate_clocks();
    find_lost();
  }

 private:
  // Sent and received messages.
  const std::pair<Messages, Messages>& messages(const Connection& of) const {
    return survey_.messages(static_cast<std::size_t>(&of - story_.connections.data()));
  }
  Connection& connection(Index at) { return story_.connections[static_cast<std::size_t>(at)]; }
  const Machine& machine(const Connection& of) const {
    return story_.machines[static_cast<std::size_t>(of.machine)];
  }
  PathName path_name(const Connection& one) const {
    return {machine(one).file, machine(one).instance, one.key.path};
  }
  UuidName uuid_name(const Connection& one) const {
    // A trace that lacks its beginning has no connect request with a uuid. For such a trace, the path number
    // replaces the uuid.
    return {machine(one).file, one.path_uuid.empty()
                                   ? std::to_string(one.machine) + '/' + std::to_string(one.key.path)
                                   : one.path_uuid};
  }

  std::int64_t slack(const Connection& of) const {
    return clock_slack(story_.files[static_cast<std::size_t>(machine(of).file)]);
  }

  // Pairs the messages of one direction, and calls `visit` with each pair. If `notes`, pairs the wire notes
  // instead, which are a separate sequence.
  template <class Visit>
  static void pair_direction(const Messages& sent, const Messages& received, bool notes, Pairs& out,
                             Visit visit) {
    std::size_t next = 0;
    for (const Message& arrival : received.first) {
      if (arrival.signature == 0 || arrival.is_note() != notes) continue;
      if (out.hopeless()) return;
      std::size_t at = next;
      const std::size_t end = std::min(sent.first.size(), next + kFarthest);
      while (at < end && sent.first[at].signature != arrival.signature) ++at;
      if (at < end) {
        ++out.matched;
        visit(sent.first[at], arrival);
        next = at + 1;
      } else if (sent.is_cut() && end == sent.first.size()) {
        return;
      } else {
        ++out.unexplained;
      }
    }
  }

  // `visit` takes (sent by the client, sent message, received message).
  template <class Visit>
  Pairs pairs_of(const Connection& client, const Connection& server, Visit visit) const {
    Pairs pairs;
    const auto& [ours_sent, ours_received] = messages(client);
    const auto& [theirs_sent, theirs_received] = messages(server);
    for (const bool notes : {false, true}) {
      pair_direction(ours_sent, theirs_received, notes, pairs,
                     [&](const Message& a, const Message& b) { visit(true, a, b); });
      pair_direction(theirs_sent, ours_received, notes, pairs,
                     [&](const Message& a, const Message& b) { visit(false, a, b); });
    }
    return pairs;
  }

  // Finds the start of each file, from which distance() measures. Clocks of different hosts can have any
  // offset: if the times of the files do not overlap, all files are assumed to begin at the same time.
  void place_clocks() {
    begin_ = survey_.begin();
    const std::vector<Nanos>& end = survey_.end();
    bool overlap = true;
    for (std::size_t file = 1; file < begin_.size(); ++file)
      overlap = overlap && begin_[file] <= end[0] && begin_[0] <= end[file];
    if (overlap) begin_.assign(begin_.size(), 0);
  }
  Nanos distance(const Connection& a, const Connection& b) const {
    const auto place = [this](const Connection& of) {
      Nanos first = kNever;
      for (const auto* list : {&messages(of).first, &messages(of).second}) {
        if (!list->first.empty()) first = std::min(first, list->first.front().time);
      }
      return static_cast<std::int64_t>(first - begin_[static_cast<std::size_t>(machine(of).file)]);
    };
    const std::int64_t apart = place(a) - place(b);
    return static_cast<Nanos>(apart < 0 ? -apart : apart);
  }

  void collect() {
    std::map<std::pair<std::uint16_t, std::uint16_t>, std::vector<Index>> clients;  // keyed by (con, attempt)
    const auto count = static_cast<Index>(story_.connections.size());
    for (Index at = 0; at < count; ++at) {
      const Connection& one = connection(at);
      if (machine(one).side == Side::client) clients[{one.key.con, one.attempt}].push_back(at);
    }
    for (Index at = 0; at < count; ++at) {
      const Connection& theirs = connection(at);
      if (machine(theirs).side != Side::server) continue;
      for (const Index other : clients[{theirs.key.con, theirs.attempt}]) {
        const Connection& ours = connection(other);
        if (!ours.path_uuid.empty() && !theirs.path_uuid.empty() && ours.path_uuid != theirs.path_uuid)
          continue;
        ClockRange clock;
        const bool one_file = machine(ours).file == machine(theirs).file;
        const Pairs pairs =
            pairs_of(ours, theirs, [&](bool by_client, const Message& sent, const Message& received) {
              const auto took = static_cast<std::int64_t>(received.time - sent.time);
              if (by_client || one_file)
                clock.most = std::min(clock.most, took);
              else
                clock.least = std::max(clock.least, -took);
            });
        if (pairs.matched == 0 || pairs.hopeless() || clock.least > clock.most + slack(ours)) continue;
        fits_[{path_name(ours), uuid_name(theirs)}].push_back(
            {other, at, pairs.matched, pairs.unexplained, distance(ours, theirs), clock});
      }
    }
  }

  // Chooses the matches. Returns the number of paired messages.
  std::size_t choose(bool one_clock) {
    for (Connection& one : story_.connections) one.peer = kNone;
    clocks_.clear();
    owner_.clear();
    struct Fit {
      std::size_t matched = 0, unexplained = 0;
      Nanos distance = 0;
      const std::pair<PathName, UuidName>* names = nullptr;
    };
    std::vector<Fit> order;
    for (auto& [names, candidates] : fits_) {
      std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
        return std::tuple(b.matched, a.unexplained, a.distance) <
               std::tuple(a.matched, b.unexplained, b.distance);
      });
      Fit fit;
      fit.names = &names;
      for (const Candidate& one : candidates) {
        fit.matched += one.matched;
        fit.unexplained += one.unexplained;
        fit.distance = std::max(fit.distance, one.distance);
      }
      order.push_back(fit);
    }
    std::sort(order.begin(), order.end(), [](const Fit& a, const Fit& b) {
      return std::tuple(b.matched, a.unexplained, a.distance) <
             std::tuple(a.matched, b.unexplained, b.distance);
    });
    std::size_t explained = 0;
    for (const Fit& fit : order) explained += take(*fit.names, one_clock);
    return explained;
  }

  // Accepts a match if it is consistent with the earlier ones: a connection has one peer, a uuid belongs to
  // one path, and two files have one clock offset. Returns the number of messages that it pairs.
  std::size_t take(const std::pair<PathName, UuidName>& names, bool one_clock) {
    std::size_t explained = 0;
    const auto owner = owner_.find(names.second);
    if (owner != owner_.end() && owner->second != names.first) return 0;
    for (const Candidate& one : fits_[names]) {
      Connection& ours = connection(one.client);
      Connection& theirs = connection(one.server);
      ClockRange& clock = clocks_[{machine(ours).file, machine(theirs).file}];
      if (ours.peer != kNone || theirs.peer != kNone || !clock.agrees(one.clock, slack(ours))) continue;
      if (one_clock && !one.clock.agrees({0, 0}, slack(ours))) continue;
      clock.add(one.clock);
      ours.peer = one.server;
      theirs.peer = one.client;
      owner_[names.second] = names.first;
      explained += one.matched;
    }
    return explained;
  }

  // Estimates the clock offset of each file from the messages between it and the first server.
  void estimate_clocks() {
    // Shortest time that a message took, by the files of its two ends.
    std::map<std::pair<Index, Index>, std::int64_t> shortest;
    for (const Connection& client : story_.connections) {
      if (client.peer == kNone || machine(client).side != Side::client) continue;
      const Connection& server = connection(client.peer);
      const Index ours = machine(client).file, theirs = machine(server).file;
      pairs_of(client, server, [&](bool by_client, const Message& sent, const Message& received) {
        const auto took = static_cast<std::int64_t>(received.time - sent.time);
        const auto files = by_client ? std::pair(ours, theirs) : std::pair(theirs, ours);
        const auto [at, fresh] = shortest.try_emplace(files, took);
        at->second = std::min(at->second, took);
      });
    }
    const auto count = static_cast<Index>(story_.files.size());
    Index reference = 0;
    while (reference < count && !story_.files[static_cast<std::size_t>(reference)].has_server) ++reference;
    for (Index file = 0; file < count && reference != count; ++file) {
      if (file == reference) continue;
      TraceFile& one = story_.files[static_cast<std::size_t>(file)];
      const auto there = shortest.find({file, reference}), back = shortest.find({reference, file});
      std::optional<std::int64_t> least, most;
      if (there != shortest.end()) most = there->second;
      if (back != shortest.end()) least = -back->second;
      one.clock = offset_of(least, most, clock_slack(one));
      story_.same_clock = story_.same_clock && one.clock == 0;
    }
  }
  // Range of the server's clock minus the client's clock, in ns.
  static std::int64_t offset_of(std::optional<std::int64_t> least, std::optional<std::int64_t> most,
                                std::int64_t slack) {
    if ((!least || *least <= slack) && (!most || *most >= -slack)) return 0;
    if (!least || !most) return least ? *least : *most;
    return *least + (*most - *least) / 2;
  }

  // True if the connect request of a client's connection without a peer may have arrived: it was answered, or
  // a server has a connection without a peer that may be its other end.
  bool may_have_arrived(const Connection& client) const {
    if (messages(client).second.count != 0) return true;
    return std::any_of(story_.connections.begin(), story_.connections.end(), [&](const Connection& one) {
      const bool same_path =
          one.path_uuid.empty() || client.path_uuid.empty() || one.path_uuid == client.path_uuid;
      return machine(one).side == Side::server && one.peer == kNone && one.key.con == client.key.con &&
             one.attempt == client.attempt && same_path;
    });
  }

  void find_lost() {
    for (Connection& one : story_.connections) {
      const Side side = machine(one).side;
      if (!story_.has(side == Side::client ? Side::server : Side::client)) continue;
      // Without the other end of the connection, only a client's connect request is certainly lost. Other
      // messages may have reached a peer that was not recorded.
      if (one.peer != kNone)
        one.lost = Connection::Lost::all;
      else if (side == Side::client && !may_have_arrived(one))
        one.lost = Connection::Lost::connect_request;
    }
  }

  const Survey& survey_;
  Story& story_;
  std::vector<Nanos> begin_;  // start of each file; all 0 if the clocks are comparable
  std::map<std::pair<PathName, UuidName>, std::vector<Candidate>> fits_;
  // Clock ranges by (file of the client, file of the server).
  std::map<std::pair<Index, Index>, ClockRange> clocks_;
  std::map<UuidName, PathName> owner_;
};

}  // namespace

void pair_connections(const Survey& survey, Story& story) {
  Pairing(survey, story).run();
}

}  // namespace rtrs::tools::sequence
