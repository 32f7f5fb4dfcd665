#include "sim/world/other_server.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include "core/base/assert.hpp"
#include "sim/net/queue_pairs/sim_fabric.hpp"

namespace rtrs::sim {

ServerConfig fitted(const ServerConfig& wanted, const Fabric& fabric) {
  ServerConfig config = wanted;
  config.always_invalidate = wanted.always_invalidate && fabric.capabilities().invalidation;
  return config;
}

OtherServer::OtherServer(Net& network, ChoiceSource& choice, const ServerConfig& config)
    : network_(network),
      id_(network.add_node()),
      fabric_(network.open(id_, choice)),
      server_(clamp_to(fitted(config, *fabric_), network.capabilities()), nullptr) {
  const Errc listening = server_.listen(*fabric_, network.now(), {"", to_text(PortAddress{id_, 0}), 1234});
  RTRS_ASSERT(listening == Errc::ok);
}

PathAddress OtherServer::address(NodeId client, std::uint32_t port) const {
  return {to_text(PortAddress{client, port}), to_text(PortAddress{id_, 0}), 1234};
}

bool OtherServer::is_at(const PathAddress& address) const {
  return address.destination == to_text(PortAddress{id_, 0});
}

Nanos OtherServer::next_time() const noexcept {
  const Nanos deadline = network_.has_events(id_) ? 0 : server_.next_deadline();
  return std::max(network_.now(), deadline);
}

unsigned OtherServer::connected_paths(const std::string& session_name) const {
  unsigned paths = 0;
  for (const auto& [session, one] : opened_)
    if (one.name == session_name) paths += one.paths;
  return paths;
}

// A path that has ended waits until storage has finished its requests. This server has no storage, so it
// reports them as finished at once.
void OtherServer::poll() {
  if (next_time() > network_.now()) return;
  std::array<ServerEvent, 16> events;
  const std::size_t count = server_.poll(*fabric_, network_.now(), events);
  for (const ServerEvent& event : std::span(events).first(count)) {
    if (event.kind == ServerEvent::Kind::request) asked_.push_back(event.id);
    if (event.kind == ServerEvent::Kind::session_opened) opened_[event.session].name = event.name;
  }
  PathEvent news;
  while (server_.take_news(news)) {
    if (news.kind == PathEvent::Kind::session_ended) opened_.erase(news.session);
    if (news.kind != PathEvent::Kind::path) continue;
    if (news.path.state == PathState::connected) ++opened_[news.session].paths;
    if (news.path.state != PathState::closing) continue;
    const auto ended = std::partition(asked_.begin(), asked_.end(),
                                      [&](const RequestId& id) { return id.session != news.session; });
    for (auto at = ended; at != asked_.end(); ++at) server_.respond(*fabric_, network_.now(), *at, EIO);
    asked_.erase(ended, asked_.end());
  }
}

}  // namespace rtrs::sim
