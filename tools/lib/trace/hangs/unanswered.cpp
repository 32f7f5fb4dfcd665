#include "tools/lib/trace/hangs/unanswered.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "tools/lib/trace/reader/rnbd_words.hpp"

namespace rtrs::trace {

namespace {

struct StageWords {
  const char* word;
  const char* clause;
};
constexpr StageWords kStages[] = {
    {"path", "the client has no connected path"},
    {"turn", "the client waits for room on a path, or until the lost path of the request is closed"},
    {"sent", "it was sent; only a trace of the server tells whether it arrived"},
    {"wire", "it was sent and is not in the trace of the server"},
    {"server", "it arrived at the server and was not passed to storage"},
    {"storage", "storage has not completed it"},
    {"finished", "storage has completed it, and the server has not answered"},
    {"response", "the server has answered, and the answer has not arrived"},
};

HangStage stage_at_server(const FollowedSession& session, const OpenRequest& request) {
  switch (request.phase) {
    case Phase::queued:
    case Phase::sent:
    case Phase::arrived:
      return HangStage::server;
    case Phase::delivered:
      // A server with devices passes each request to them, and they to storage.
      return session.has_devices && request.message.empty() ? HangStage::server : HangStage::storage;
    case Phase::asked:
      return HangStage::storage;
    case Phase::finished:
    case Phase::responded:
      return HangStage::finished;
    case Phase::answered:
      return HangStage::response;
  }
  return HangStage::server;
}

std::string message_words(const OpenRequest& request, const FollowedSession& session) {
  if (request.message.empty()) return {};
  RnbdNames names;
  names.device = [&session](std::uint32_t id) {
    const auto found = session.devices.find(id);
    return found == session.devices.end() ? std::to_string(id) : '"' + found->second + '"';
  };
  return rnbd_request_words(std::as_bytes(std::span(request.message)), names);
}

}  // namespace

const char* to_string(HangStage stage) noexcept {
  return kStages[static_cast<unsigned>(stage)].word;
}
const char* words_of(HangStage stage) noexcept {
  return kStages[static_cast<unsigned>(stage)].clause;
}

std::string request_words(const Unanswered& one) {
  const OpenRequest& request = one.request;
  const std::string what = !one.message.empty() ? one.message
                                                : std::string(request.service ? "message"
                                                              : request.reads ? "read"
                                                                              : "write") +
                                                      " of " + std::to_string(request.bytes) + " bytes";
  return what + (one.last.front().client ? ", permit " : ", chunk ") + std::to_string(request.number);
}

namespace {

// Makes the list of all traces.
class Listing {
 public:
  Listing(const std::vector<RequestFollower>& traces, std::uint64_t hang_after)
      : traces_(traces), hang_after_(hang_after) {
    each_session(false, [this](std::size_t trace, unsigned instance, const FollowedSession& session) {
      for (const auto& [key, connection] : session.connections) {
        if (!connection.from_start) continue;
        const Found end{trace, instance, &session, &connection, nullptr};
        ends_.emplace(std::pair(key.con, connection.recon_cnt), end);
        if (connection.path_uuid)
          ends_of_paths_.emplace(std::tuple(*connection.path_uuid, key.con, connection.recon_cnt), end);
      }
    });
  }

  std::vector<Unanswered> list() {
    each_session(true, [this](std::size_t trace, unsigned instance, const FollowedSession& session) {
      if (!traces_[trace].knows_answers(session)) return;
      for (const auto& [number, request] : session.requests)
        add(trace, of_client(trace, instance, session, request));
    });
    each_session(false, [this](std::size_t trace, unsigned instance, const FollowedSession& session) {
      for (const auto* requests : {&session.requests, &session.parked})
        for (const auto& [number, request] : *requests)
          if (request.phase != Phase::answered && told_.count(&request) == 0)
            add(trace, of_server(trace, instance, session, request));
    });
    std::stable_sort(all_.begin(), all_.end(), [](const Unanswered& a, const Unanswered& b) {
      return a.trace != b.trace ? a.trace < b.trace : a.request.begun.record < b.request.begun.record;
    });
    return std::move(all_);
  }

 private:
  struct Found {
    std::size_t trace = 0;
    unsigned instance = 0;
    const FollowedSession* session = nullptr;
    const KnownConnection* connection = nullptr;  // null: unknown
    const OpenRequest* request = nullptr;         // null: not in the session
  };

  template <class Visit>
  void each_session(bool clients, Visit visit) const {
    for (std::size_t trace = 0; trace < traces_.size(); ++trace)
      for (const auto& [instance, session] : traces_[trace].sessions())
        if (session.client == clients) visit(trace, instance, session);
  }
  void add(std::size_t trace, Unanswered one) {
    const std::uint64_t end = traces_[trace].last_time();
    one.age = end - std::min(one.request.begun.time, end);
    if (one.age >= hang_after_) all_.push_back(std::move(one));
  }
  std::optional<Found> other_end(const FollowedSession& client, const OpenRequest& request) const;
  std::optional<Found> at_server(const FollowedSession& client, const OpenRequest& request) const;
  Unanswered of_client(std::size_t trace, unsigned instance, const FollowedSession& session,
                       const OpenRequest& request);
  static Unanswered of_server(std::size_t trace, unsigned instance, const FollowedSession& session,
                              const OpenRequest& request);

  const std::vector<RequestFollower>& traces_;
  std::uint64_t hang_after_;
  std::vector<Unanswered> all_;
  // Connections of servers by cid and reconnect counter, and with the uuid of the path.
  std::multimap<std::pair<std::uint16_t, std::uint16_t>, Found> ends_;
  std::multimap<std::tuple<spec::Uuid, std::uint16_t, std::uint16_t>, Found> ends_of_paths_;
  std::set<const OpenRequest*> told_;  // requests of servers that are listed with those of clients
};

// Returns the only entry with the key.
template <class Map>
auto only_one(const Map& map, const typename Map::key_type& key) -> std::optional<typename Map::mapped_type> {
  const auto [first, last] = map.equal_range(key);
  if (first == last || std::next(first) != last) return std::nullopt;
  return first->second;
}

// Returns the server's end of the request's connection. A client's trace has the uuid of the path only in its
// wire notes; without it, the end must be unique.
std::optional<Listing::Found> Listing::other_end(const FollowedSession& client,
                                                 const OpenRequest& request) const {
  const auto ours = client.connections.find(request.key);
  if (ours == client.connections.end() || !ours->second.from_start) return std::nullopt;
  const auto& [uuid, recon_cnt, from_start, requests, last] = ours->second;
  return uuid ? only_one(ends_of_paths_, {*uuid, request.key.con, recon_cnt})
              : only_one(ends_, {request.key.con, recon_cnt});
}

// Finds the request at the server: by its number on its connection, because connections keep the order. In
// traces without the beginning of the connection by its chunk, if only one server has such a request.
std::optional<Listing::Found> Listing::at_server(const FollowedSession& client,
                                                 const OpenRequest& request) const {
  if (auto end = other_end(client, request)) {
    for (const auto* requests : {&end->session->requests, &end->session->parked}) {
      const auto found = requests->find(request.number);
      if (found != requests->end() && found->second.place == request.place) end->request = &found->second;
    }
    return end;
  }
  std::optional<Found> found;
  unsigned like_it = 0;
  if (request.place == 0)
    each_session(false, [&](std::size_t trace, unsigned instance, const FollowedSession& session) {
      const auto place = session.requests.find(request.number);
      if (place == session.requests.end() || place->second.phase == Phase::answered ||
          place->second.reads != request.reads || place->second.bytes != request.bytes)
        return;
      ++like_it;
      found = Found{trace, instance, &session, nullptr, &place->second};
    });
  return like_it == 1 ? found : std::nullopt;
}

Unanswered Listing::of_client(std::size_t trace, unsigned instance, const FollowedSession& session,
                              const OpenRequest& request) {
  Unanswered one{trace, instance, request, 0, HangStage::sent, message_words(request, session), {}, {}};
  one.last.push_back({trace, true, request.last});
  if (request.phase == Phase::queued) {
    one.stage = session.connected.empty() ? HangStage::path : HangStage::turn;
    return one;
  }
  if (!session.heard.event.empty()) one.heard = SideEvent{trace, true, session.heard};
  const auto ours = session.connections.find(request.key);
  if (ours != session.connections.end()) one.connection_heard = ours->second.last.time;
  const auto server = at_server(session, request);
  if (!server) return one;
  if (server->request != nullptr) {
    told_.insert(server->request);
    one.stage = stage_at_server(*server->session, *server->request);
    one.last.push_back({server->trace, false, server->request->last});
    if (one.message.empty()) one.message = message_words(*server->request, *server->session);
    return one;
  }
  // A later request has the chunk only if this one was answered.
  const bool arrived = server->connection->requests >= request.place;
  one.stage = arrived ? HangStage::response : HangStage::wire;
  if (!server->connection->last.event.empty())
    one.last.push_back({server->trace, false, server->connection->last});
  return one;
}

Unanswered Listing::of_server(std::size_t trace, unsigned instance, const FollowedSession& session,
                              const OpenRequest& request) {
  Unanswered one{
      trace, instance, request, 0, stage_at_server(session, request), message_words(request, session),
      {},    {}};
  one.last.push_back({trace, false, request.last});
  return one;
}

}  // namespace

std::vector<Unanswered> HangCollector::unanswered(std::uint64_t hang_after) const {
  return Listing(traces_, hang_after).list();
}

}  // namespace rtrs::trace
