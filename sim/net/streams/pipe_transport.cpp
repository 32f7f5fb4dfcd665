#include "sim/net/streams/pipe_transport.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sim/net/queue_pairs/sim_fabric.hpp"

namespace rtrs::sim {

PipeTransport::PipeTransport(PipeNetwork& network, NodeId node, ChoiceSource& choice)
    : network_(network), node_(node), start_(network.starts(node)), choice_(choice) {}

bool PipeTransport::live() const noexcept {
  return network_.is_up(node_) && network_.starts(node_) == start_;
}

std::string PipeTransport::name(NodeId node, std::uint32_t port) const {
  return to_text(PortAddress{node, port});
}

std::span<std::byte> PipeTransport::map(std::size_t bytes) noexcept {
  auto memory = std::make_unique<std::byte[]>(bytes);
  const std::span<std::byte> result(memory.get(), bytes);
  memory_[result.data()] = std::move(memory);
  return result;
}

void PipeTransport::unmap(std::span<std::byte> memory) noexcept {
  memory_.erase(memory.data());
}

tcp::Transport::Opened PipeTransport::listen(const PathAddress& local, unsigned) {
  const std::string& text = local.source.empty() ? local.destination : local.source;
  PortAddress address{node_, kNone};
  Opened result;
  result.name = text;
  result.error = tcp::kUnresolved;
  if (!text.empty() && (!parse_port_address(text, address) || address.node != node_)) return result;
  auto& listeners = network_.nodes_[node_].listeners;
  result.error = EADDRINUSE;
  for (const auto& one : listeners) {
    const bool overlaps = one.port == address.port || one.port == kNone || address.port == kNone;
    if (overlaps && one.service == local.port) return result;
  }
  result.error = 0;
  result.port = local.port;
  result.socket = PipeNetwork::kFirstListener + static_cast<tcp::SocketId>(listeners.size());
  listeners.push_back({address.port, local.port, {}, nullptr, 0});
  return result;
}

tcp::Transport::Opened PipeTransport::connect(ConKey, const PathAddress& path, unsigned, unsigned) {
  Opened result;
  PortAddress source{node_, 0};
  PortAddress destination;
  bool good = path.source.empty() || parse_port_address(path.source, source);
  good = good && source.node == node_ && parse_port_address(path.destination, destination);
  result.error = tcp::kUnresolved;
  if (!good || destination.node >= network_.node_count() || destination.node == node_) return result;
  const bool unresolved = choice_.fires(network_.rates_.resolve_failed, Label::resolve_failed);
  network_.stats_.unresolved += unresolved ? 1 : 0;
  if (unresolved || network_.is_unplugged(node_, source.port)) return result;
  result.name = path.destination;
  if (lacks_descriptor()) {
    result.error = EMFILE;
    return result;
  }
  const LinkId link = network_.link(node_, source.port, destination.node, destination.port);
  const QpId id = network_.make_end(node_, link, Way::to_server, choice_);
  changed_end(static_cast<tcp::SocketId>(id)).service = path.port;
  network_.bind(node_, id, key_);
  network_.begin(id, choice_);
  result.error = 0;
  result.socket = static_cast<tcp::SocketId>(id);
  return result;
}

int PipeTransport::outcome(tcp::SocketId socket) noexcept {
  End& one = changed_end(socket);
  if (one.error == 0) one.since = network_.now();
  return one.error;
}

PipeNetwork::Listener* PipeTransport::listener(tcp::SocketId socket) const noexcept {
  auto& listeners = network_.nodes_[node_].listeners;
  const auto index = static_cast<std::size_t>(socket - PipeNetwork::kFirstListener);
  return socket >= PipeNetwork::kFirstListener && index < listeners.size() ? &listeners[index] : nullptr;
}

bool PipeTransport::lacks_descriptor() {
  constexpr std::uint32_t kHalf = ChoiceSource::kMillion / 2, kMaxMs = 300;
  const std::uint32_t rate = network_.rates_.resource_short;
  if (rate == 0 || network_.now() >= no_descriptor_until_) {
    if (!choice_.fires(rate, Label::resource_short)) return false;
    if (choice_.fires(kHalf, Label::resource_short))
      no_descriptor_until_ = network_.now() + milliseconds(choice_.draw(kMaxMs, Label::resource_short));
  }
  ++network_.stats_.shortages;
  return true;
}

// Without a free descriptor the client stays in the queue, as with accept4().
tcp::Transport::Client PipeTransport::accept(tcp::SocketId socket) {
  const PipeNetwork::Listener* const from = live() ? listener(socket) : nullptr;
  Client client;
  client.error = EAGAIN;
  if (from == nullptr || from->waiting.empty()) return client;
  client.error = EMFILE;
  if (lacks_descriptor()) return client;
  client = take_waiting(socket);
  client.last_place = lacks_descriptor();
  return client;
}

tcp::Transport::Client PipeTransport::take_waiting(tcp::SocketId socket) {
  Client client;
  PipeNetwork::Listener* const from = live() ? listener(socket) : nullptr;
  client.error = EAGAIN;
  if (from == nullptr || from->waiting.empty()) return client;
  const QpId id = from->waiting.front();
  from->waiting.erase(from->waiting.begin());
  End& one = changed_end(static_cast<tcp::SocketId>(id));
  one.accepted = true;
  one.since = network_.now();
  const LinkInfo& link = network_.links_[one.link].info;
  client.error = 0;
  client.name = name(link.client, link.client_port);
  client.host = link.client;
  client.socket = static_cast<tcp::SocketId>(id);
  return client;
}

// Uses the reserved descriptor, unless another part of the process took it.
tcp::Transport::Client PipeTransport::accept_and_drop(tcp::SocketId socket) {
  Client client;
  client.error = EMFILE;
  if (lacks_descriptor()) return client;
  client = take_waiting(socket);
  if (client.socket != tcp::kNoSocket) close(std::exchange(client.socket, tcp::kNoSocket));
  return client;
}

tcp::Transport::Ends PipeTransport::ends(tcp::SocketId socket) const {
  const End& one = end(socket);
  const LinkInfo& link = network_.links_[one.link].info;
  Ends result;
  result.known = true;
  result.own = name(link.client, link.client_port);
  result.peer = name(link.server, link.server_port);
  result.address_pair = one.link + 1;
  if (one.way == Way::to_client) std::swap(result.own, result.peer);
  return result;
}

tcp::Transport::Moved PipeTransport::receive(tcp::SocketId socket, iwarp::MutableBytes place,
                                             iwarp::MutableBytes behind) noexcept {
  End& one = changed_end(socket);
  if (one.in.empty()) {
    if (one.state == End::State::dead) return {0, one.error};
    return {0, one.finished ? 0 : EAGAIN};
  }
  const std::size_t most = std::min(one.in.size(), place.size() + behind.size());
  const std::size_t count = network_.some_of(most, choice_);
  const std::size_t placed = one.in.take(place.first(std::min(count, place.size())));
  one.in.take(behind.first(count - placed));
  if (one.peer != kNone && !network_.ends_[one.peer].out.empty())
    network_.schedule_delivery(one.peer, network_.now(), choice_);
  return {count, 0};
}

// The first send() that accepts less than offered starts a deadline for all bytes offered in that call.
// Progress does not extend the deadline.
void PipeTransport::update_send_deadline(End& one, std::size_t count, std::size_t offered) const noexcept {
  one.taken += count;
  if (count == offered) {
    one.owed_since = kNever;
  } else if (one.owed_since == kNever || one.taken >= one.owed) {
    one.owed = one.taken + (offered - count);
    one.owed_since = network_.now();
  }
}

tcp::Transport::Moved PipeTransport::send(tcp::SocketId socket, std::span<const iwarp::Bytes> pieces,
                                          std::size_t skip) noexcept {
  End& one = changed_end(socket);
  if (one.state == End::State::dead) return {0, one.error == ECONNABORTED ? ECONNABORTED : EPIPE};
  if (one.shut) return {0, EPIPE};
  std::size_t offered = 0;
  for (const iwarp::Bytes& piece : pieces) offered += piece.size();
  offered -= skip;
  const std::size_t used = one.out.size() + one.unacknowledged;
  const std::size_t room = one.capacity - std::min(one.capacity, used);
  if (room == 0) {
    update_send_deadline(one, 0, offered);
    return {0, EAGAIN};
  }
  if (used == 0) one.pending_since = network_.now();
  // The first bytes, a connect request or its reply, always find an empty buffer.
  const bool first = one.offset == 0 && used == 0;
  const std::size_t most = std::min(room, offered);
  const std::size_t count = first ? most : network_.some_of(most, choice_);
  std::size_t left = count;
  for (const iwarp::Bytes& piece : pieces) {
    const iwarp::Bytes part = piece.subspan(std::exchange(skip, 0));
    one.out.push(part.first(std::min(left, part.size())));
    left -= std::min(left, part.size());
  }
  update_send_deadline(one, count, offered);
  network_.schedule_delivery(static_cast<QpId>(socket), network_.now(), choice_);
  return {count, 0};
}

bool PipeTransport::shut_down(tcp::SocketId socket) noexcept {
  End& one = changed_end(socket);
  if (one.state != End::State::open) return false;
  one.shut = true;
  network_.schedule_delivery(static_cast<QpId>(socket), network_.now(), choice_);
  return true;
}

void PipeTransport::close(tcp::SocketId socket) noexcept {
  if (!live() || socket >= PipeNetwork::kFirstListener) return;
  std::erase(network_.nodes_[node_].watched, static_cast<QpId>(socket));
  network_.close_end(static_cast<QpId>(socket), choice_);
}

// Counts retransmissions as Linux does: the first after 200 ms, each further one after twice the interval.
tcp::Transport::Delivery PipeTransport::delivery(tcp::SocketId socket) const noexcept {
  const End& one = end(socket);
  Delivery result{.known = true, .packet_bytes = 1500, .acknowledged = one.offset - one.unacknowledged};
  const bool has_window =
      one.peer != kNone && network_.ends_[one.peer].in.size() < network_.ends_[one.peer].window;
  result.pending = (!one.out.empty() && has_window) || one.unacknowledged != 0;
  Nanos last = one.pending_since;
  const bool waits = network_.is_stopped(one) || network_.receives_nothing(one);
  if (result.pending && waits && one.state == End::State::open) {
    Nanos timeout = milliseconds(200);
    for (; last + timeout <= network_.now(); timeout *= 2, ++result.attempts) last += timeout;
  }
  result.packets = one.offset + result.attempts;
  result.quiet = network_.now() - last;
  return result;
}

tcp::Transport::Peer PipeTransport::peer(tcp::SocketId socket) const {
  const NodeId client = network_.links_[end(socket).link].info.client;
  return {.identity = {.low = client + 1U, .high = ~std::uint64_t{client}}, .name = {}};
}

bool PipeTransport::watch(tcp::SocketId socket, std::uint32_t interest, tcp::Watched& watched) noexcept {
  if (!live()) return false;
  if (PipeNetwork::Listener* const one = listener(socket)) {
    one->watched = &watched;
    one->interest = interest;
    return true;
  }
  End& one = changed_end(socket);
  if (refuses_watch_ && watched.kind == tcp::Watched::Kind::connection) return false;
  if (one.watched == nullptr) network_.nodes_[node_].watched.push_back(static_cast<QpId>(socket));
  one.watched = &watched;
  one.interest = interest;
  return true;
}

void PipeTransport::forget(tcp::SocketId socket) noexcept {
  if (!live()) return;
  if (PipeNetwork::Listener* const one = listener(socket)) {
    one->watched = nullptr;
    return;
  }
  changed_end(socket).watched = nullptr;
  std::erase(network_.nodes_[node_].watched, static_cast<QpId>(socket));
}

std::span<const tcp::Transport::Ready> PipeTransport::look() noexcept {
  PipeNetwork::Node& node = network_.nodes_[node_];
  std::size_t count = 0;
  if (!live()) return {};
  node.signalled = false;
  if (node.timer <= network_.now()) {
    node.timer = kNever;
    ready_[count++] = {};
  }
  for (const auto& one : node.listeners) {
    if (one.watched != nullptr && !one.waiting.empty() && (one.interest & tcp::kReadable) != 0)
      ready_[count++] = {one.watched, tcp::kReadable};
  }
  const std::size_t sockets = node.watched.size();
  const std::size_t first =
      sockets < 2 ? 0 : choice_.draw(static_cast<std::uint32_t>(sockets), Label::pipe_order);
  if (!network_.has_ready_socket(node)) return std::span(ready_).first(count);
  for (std::size_t i = 0; i < sockets && count < ready_.size(); ++i) {
    const End& one = network_.ends_[node.watched[(first + i) % sockets]];
    const std::uint32_t events = network_.readiness(one) & (one.interest | tcp::kBroken);
    // As in a real socket interface, a broken socket is readable.
    if (events != 0)
      ready_[count++] = {one.watched, (events & tcp::kBroken) != 0 ? events | tcp::kReadable : events};
  }
  return std::span(ready_).first(count);
}

void PipeTransport::arm(Nanos when) noexcept {
  if (!live()) return;
  network_.nodes_[node_].timer = when;
  network_.schedule(when, PipeNetwork::Event::Kind::wake, kNone);
}

void PipeTransport::signal() noexcept {
  if (live()) network_.nodes_[node_].signalled = true;
}

}  // namespace rtrs::sim
