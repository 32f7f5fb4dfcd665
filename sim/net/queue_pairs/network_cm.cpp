// Connection management. Requests, replies, rejects and disconnects are datagrams that can be lost or
// delayed. A request is repeated until it is answered; the server reports it once.
#include <algorithm>

#include "core/base/assert.hpp"
#include "sim/net/queue_pairs/network.hpp"

namespace rtrs::sim {

QpId Network::make_qp(NodeId node, ConKey key, LinkId link, Way way, const ConnectionParams& params,
                      ChoiceSource& choice) {
  const auto id = static_cast<QpId>(qps_.size());
  Qp& qp = qps_.emplace_back();
  qp.node = node;
  qp.key = key;
  qp.link = link;
  qp.way = way;
  qp.send_depth = params.send_depth;
  qp.budget = config_.retry_budget + draw_time(choice, config_.retry_spread, Label::retry_budget);
  const bool fresh = nodes_[node].by_key.emplace(packed(key), id).second;
  RTRS_ASSERT(fresh && "a connection key is used once");
  if (link != kNone) links_[link].qps.push_back(id);
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::qp_created;
  h.qp = id;
  h.node = node;
  h.link = link;
  h.way = way;
  h.value = qp.budget;
  happened(h);
  return id;
}

Errc Network::listen(NodeId node_id, std::uint32_t port, std::uint16_t service) {
  Node& node = nodes_[node_id];
  for (const Listener& listener : node.listeners) {
    const bool overlaps = listener.port == port || listener.port == kNone || port == kNone;
    if (overlaps && listener.service == service) return Errc::address_in_use;
  }
  node.listeners.push_back(Listener{port, service});
  return Errc::ok;
}

void Network::connect(NodeId node, ConKey key, std::uint32_t port, NodeId peer, std::uint32_t peer_port,
                      std::uint16_t service, const ConnectionParams& params, std::span<const std::byte> data,
                      ChoiceSource& choice) {
  const LinkId over = link(node, port, peer, peer_port);
  const QpId id = make_qp(node, key, over, Way::to_server, params, choice);
  qps_[id].cm_data = pool_.take(data);
  qps_[id].service = service;
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::request_sent;
  h.qp = id;
  happened(h);
  send_datagram(Datagram{Datagram::Kind::request, id, kNone, over, Way::to_server, pool_.take(data)}, choice);
  schedule(now_ + config_.cm_timeout, Event::Kind::cm_retry, id);
}

void Network::fail_connect(NodeId node, ConKey key, Reason reason, ChoiceSource& choice) {
  const QpId id = make_qp(node, key, kNone, Way::to_server, ConnectionParams{}, choice);
  connect_failed(id, reason, kNoPayload);
}

void Network::connect_failed(QpId id, Reason reason, PayloadId data) {
  Qp& qp = qps_[id];
  qp.state = Qp::State::broken;
  qp.lost_reported = true;
  qp.cause = Ending::flushed;
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::connect_failed;
  h.qp = id;
  happened(h);
  report(qp.node, id, event::ConnectFailed{qp.key, reason, {}}).payload = data;
}

void Network::on_cm_retry(QpId id, ChoiceSource& choice) {
  Qp& qp = qps_[id];
  if (qp.state != Qp::State::connecting) return;
  if (++qp.cm_attempts > config_.cm_retries) {
    connect_failed(id, Reason::connect_timeout, kNoPayload);
    return;
  }
  const PayloadId data = pool_.take(pool_[qp.cm_data].size());
  std::copy(pool_[qp.cm_data].begin(), pool_[qp.cm_data].end(), pool_[data].begin());
  send_datagram(Datagram{Datagram::Kind::request, id, kNone, qp.link, Way::to_server, data}, choice);
  schedule(now_ + config_.cm_timeout, Event::Kind::cm_retry, id);
}

void Network::send_datagram(const Datagram& datagram, ChoiceSource& choice) {
  using Kind = Datagram::Kind;
  std::uint32_t lost = rates_.reject_lost;
  std::uint32_t late = rates_.reject_late;
  if (datagram.kind == Kind::request) {
    lost = rates_.request_lost;
    late = rates_.request_late;
  } else if (datagram.kind == Kind::reply) {
    lost = rates_.reply_lost;
    late = rates_.reply_late;
  } else if (datagram.kind == Kind::disconnect) {
    lost = rates_.disconnect_lost;
    late = rates_.disconnect_late;
  }
  const Link& over = links_[datagram.link];
  if (is_cut(datagram.link, datagram.way) || choice.fires(lost, Label::cm_lost)) {
    ++stats_.cm_lost;
    pool_.give_back(datagram.data);
    return;
  }
  Nanos time = now_ + over.latency;
  time += draw_time(choice, config_.cm_latency, Label::cm_latency);
  if (choice.fires(late, Label::cm_late)) {
    ++stats_.cm_late;
    time += draw_exponential(choice, config_.cm_late_hold / 10, config_.cm_late_hold, Label::cm_late);
  }
  std::uint32_t index = 0;
  if (free_datagrams_.empty()) {
    index = static_cast<std::uint32_t>(datagrams_.size());
    datagrams_.push_back(datagram);
  } else {
    index = free_datagrams_.back();
    free_datagrams_.pop_back();
    datagrams_[index] = datagram;
  }
  schedule(time, Event::Kind::datagram, kNone, index);
}

void Network::on_datagram(std::uint32_t index, ChoiceSource& choice) {
  using Kind = Datagram::Kind;
  const Datagram datagram = datagrams_[index];
  free_datagrams_.push_back(index);
  if (is_cut(datagram.link, datagram.way)) {
    ++stats_.cm_lost;
    pool_.give_back(datagram.data);
    return;
  }
  if (datagram.kind == Kind::request) {
    on_request(datagram, choice);
    return;
  }
  if (datagram.kind == Kind::reply) {
    on_reply(datagram, choice);
    return;
  }
  Qp& to = qps_[datagram.to];
  const bool answers = datagram.kind == Kind::reject || datagram.kind == Kind::refuse;
  if (answers && to.state == Qp::State::connecting) {
    const Reason reason = datagram.kind == Kind::reject ? Reason::rejected : Reason::connect_refused;
    connect_failed(datagram.to, reason, datagram.data);
    return;
  }
  // The peer has disconnected, or the client has given up. The queue pair exists until its owner closes it.
  if (!answers) report_lost(datagram.to, Reason::peer_closed);
  pool_.give_back(datagram.data);
}

void Network::on_request(const Datagram& datagram, ChoiceSource& choice) {
  const LinkInfo info = links_[datagram.link].info;
  Node& node = nodes_[info.server];
  Qp& client = qps_[datagram.from];
  const std::uint32_t known = client.request;
  if (!node.up && node.silent) {
    pool_.give_back(datagram.data);
    return;
  }
  if (known != kNone && requests_[known].starts == node.starts) {
    pool_.give_back(datagram.data);
    const Request& request = requests_[known];
    if (request.state == Request::State::accepted) {
      send_reply(request.server, choice);
    } else if (request.state == Request::State::rejected) {
      send_reject(known, choice);
    } else if (request.state == Request::State::refused) {
      send_refusal(datagram.from, choice);
    }
    return;
  }
  bool listening = false;
  for (const Listener& listener : node.listeners) {
    const bool here = listener.port == kNone || listener.port == info.server_port;
    listening = listening || (here && listener.service == client.service);
  }
  if (!node.up || !listening) {
    pool_.give_back(datagram.data);
    send_refusal(datagram.from, choice);
    return;
  }
  client.request = static_cast<std::uint32_t>(requests_.size());
  Request& request = requests_.emplace_back();
  request.client = datagram.from;
  request.node = info.server;
  request.starts = node.starts;
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::request_seen;
  h.qp = datagram.from;
  h.node = info.server;
  happened(h);
  event::ConnectRequested requested;
  requested.request = client.request;
  requested.address_pair =
      (info.client * 31 + info.client_port) * 65537 + info.server * 257 + info.server_port + 1;
  requested.host = info.client + 1;
  // Each node has a different identity, which survives restarts.
  requested.identity = {.low = info.client + 1U, .high = ~std::uint64_t{info.client}};
  report(info.server, kNone, requested).payload = datagram.data;
}

bool Network::is_open_request(NodeId node, std::uint32_t id) const noexcept {
  if (id >= requests_.size()) return false;
  const Request& request = requests_[id];
  return request.node == node && request.starts == nodes_[node].starts &&
         request.state == Request::State::open;
}

void Network::fail_accept(NodeId node, std::uint32_t request, ConKey key, Reason reason,
                          ChoiceSource& choice) {
  const QpId id = make_qp(node, key, kNone, Way::to_client, ConnectionParams{}, choice);
  report_lost(id, reason);
  qps_[id].state = Qp::State::broken;
  if (!is_open_request(node, request)) return;
  requests_[request].state = Request::State::refused;
  send_refusal(requests_[request].client, choice);
}

void Network::send_refusal(QpId client, ChoiceSource& choice) {
  send_datagram(
      Datagram{Datagram::Kind::refuse, kNone, client, qps_[client].link, Way::to_client, kNoPayload}, choice);
}

void Network::accept(NodeId node, std::uint32_t request_id, ConKey key, const ConnectionParams& params,
                     std::span<const std::byte> data, ChoiceSource& choice) {
  RTRS_ASSERT(is_open_request(node, request_id));
  Request& request = requests_[request_id];
  request.state = Request::State::accepted;
  const QpId client = request.client;
  const QpId id = make_qp(node, key, qps_[client].link, Way::to_client, params, choice);
  request.server = id;
  Qp& qp = qps_[id];
  qp.state = Qp::State::ready;
  qp.established = true;
  qp.peer = client;
  qp.request = request_id;
  qp.cm_data = pool_.take(data);
  NetworkEvent h;
  h.kind = NetworkEvent::Kind::qp_paired;
  h.qp = client;
  h.peer = id;
  happened(h);
  send_reply(id, choice);
}

void Network::send_reply(QpId server, ChoiceSource& choice) {
  const Qp& qp = qps_[server];
  if (qp.state != Qp::State::ready) {
    send_refusal(qp.peer, choice);
    return;
  }
  const PayloadId data = pool_.take(pool_[qp.cm_data].size());
  std::copy(pool_[qp.cm_data].begin(), pool_[qp.cm_data].end(), pool_[data].begin());
  send_datagram(Datagram{Datagram::Kind::reply, server, qp.peer, qp.link, Way::to_client, data}, choice);
}

void Network::on_reply(const Datagram& datagram, ChoiceSource& choice) {
  Qp& client = qps_[datagram.to];
  if (client.state == Qp::State::connecting) {
    client.state = Qp::State::ready;
    client.established = true;
    client.peer = datagram.from;
    NetworkEvent h;
    h.kind = NetworkEvent::Kind::established;
    h.qp = datagram.to;
    h.peer = datagram.from;
    happened(h);
    report(client.node, datagram.to, event::Connected{client.key, {}}).payload = datagram.data;
    unstick(datagram.from, choice);
    return;
  }
  pool_.give_back(datagram.data);
  if (client.state == Qp::State::ready) return;  // a repeated reply
  send_datagram(
      Datagram{Datagram::Kind::stale, datagram.to, datagram.from, datagram.link, Way::to_server, kNoPayload},
      choice);
}

void Network::reject(NodeId node, std::uint32_t request_id, std::span<const std::byte> data,
                     ChoiceSource& choice) {
  RTRS_ASSERT(is_open_request(node, request_id));
  Request& request = requests_[request_id];
  request.state = Request::State::rejected;
  request.reject_data = pool_.take(data);
  send_reject(request_id, choice);
}

void Network::send_reject(std::uint32_t request_id, ChoiceSource& choice) {
  const Request& request = requests_[request_id];
  const PayloadId data = pool_.take(pool_[request.reject_data].size());
  std::copy(pool_[request.reject_data].begin(), pool_[request.reject_data].end(), pool_[data].begin());
  send_datagram(Datagram{Datagram::Kind::reject, kNone, request.client, qps_[request.client].link,
                         Way::to_client, data},
                choice);
}

// Notifies the other end, if there is one, that this end closes.
void Network::announce_close(QpId id, ChoiceSource& choice) {
  const Qp& qp = qps_[id];
  if (qp.link == kNone || qp.hung) return;
  QpId to = qp.peer;
  const bool gave_up = to == kNone && qp.request != kNone && qp.way == Way::to_server;
  if (gave_up) to = requests_[qp.request].server;
  if (to == kNone) return;
  const auto kind = gave_up ? Datagram::Kind::stale : Datagram::Kind::disconnect;
  send_datagram(Datagram{kind, id, to, qp.link, qp.way, kNoPayload}, choice);
}

}  // namespace rtrs::sim
