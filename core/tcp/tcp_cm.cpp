// Set-up and teardown of connections.
#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "core/fabric/errors.hpp"
#include "core/tcp/tcp_fabric.hpp"
#include "core/tcp/tcp_status.hpp"

namespace rtrs::tcp {
namespace {

constexpr const char* kMemory = " (max_memory; connection_memory_mb of urtrsd)";

// Returns the share of `all` that one host may use if the other hosts use `others`. Leaves an eighth of the
// rest to new hosts; returns at least 1.
std::uint64_t share_of_host(std::uint64_t all, std::uint64_t others) noexcept {
  const std::uint64_t left = all - std::min(all, others);
  return std::max<std::uint64_t>(left - (left + 7) / 8, 1);
}

}  // namespace

Connection& FabricImpl::create(ConKey key, const ConnectionParams& params, bool is_client) {
  const FabricParts around{options_, poller_, memory_, outboxes_, stats_, inbox_, list_};
  const std::size_t count = connections_.size() + 1;
  for (auto* list : {&ready_, &dirty_, &mid_, &delivered_}) {
    if (list->capacity() < count) list->reserve(2 * count);
  }
  passing_.reserve(ready_.capacity());
  return connections_.add(std::make_unique<Connection>(around, key, params, is_client));
}

Errc FabricImpl::listen(const PathAddress& local) {
  return admission_.listen(local);
}

void FabricImpl::connect(ConKey key, const PathAddress& address, const ConnectionParams& params,
                         std::span<const std::byte> private_data) {
  Connection& one = create(key, params, true);
  const std::string where = address.destination + " port " + std::to_string(address.port);
  std::array<std::byte, iwarp::kMaxGreetingBytes> space;
  const iwarp::RequestOptions wanted{
      .wishes = {.crc = wants_crc(transport_->seals()), .send_with_immediate = true}};
  const std::size_t size = iwarp::write_request(wanted, private_data, space);
  if (size == 0) {
    fail_connect(one, where, Reason::post_failed, "too much private data");
    return;
  }
  one.put_first(std::span(space).first(size));
  Transport::Opened opened =
      transport_->connect(key, address, params.address, options_.undelivered_timeout_ms);
  one.socket = Socket(*transport_, opened.socket);
  if (opened.error == 0 && !poller_.watch(one, kWritable)) opened.error = ENOMEM;
  if (opened.error == kRefused) {
    fail_connect(one, where, Reason::tls_failed, opened.why);
  } else if (opened.error != 0) {
    fail_connect(one, where, connect_reason(opened.error),
                 opened.why.empty() ? error_text(opened.error) : opened.why);
  } else {
    one.set_addresses(transport_->ends(opened.socket).own, opened.name);
  }
}

void FabricImpl::finish_connecting(Connection& one) {
  const int error = transport_->outcome(one.socket.get());
  if (error != 0) {
    fail_connect(one, one.destination(), connect_reason(error), error_text(error));
    return;
  }
  const Transport::Ends ends = transport_->ends(one.socket.get());
  one.set_addresses(ends.own, ends.peer);
  if (options_.undelivered_timeout_ms != 0)
    one.expect_greeting(poller_.now() + milliseconds(options_.undelivered_timeout_ms));
  if (transport_->guard(one.socket.get()).settled) {
    ask(one);
  } else {
    one.set_stage(Connection::Stage::securing);
    secure(one);
  }
}

void FabricImpl::ask(Connection& one) {
  one.set_stage(Connection::Stage::asking);
  poller_.watch(one, kReadable);
  mark_dirty(one);
}

void FabricImpl::secure(Connection& one) {
  const auto [got, error, more] = transport_->receive(one.socket.get(), {}, inbox_);
  const Transport::Guard guard = transport_->guard(one.socket.get());
  if (got == 0 && error == EAGAIN && !guard.settled) {
    poller_.watch(one, kReadable | (guard.has_output ? std::uint32_t{kWritable} : 0U));
    return;
  }
  if (got == 0 && error != EAGAIN) {
    fail_handshake(one, error);
    return;
  }
  say(LogLevel::debug, one.description() + ": " + transport_->describe_guard(one.socket.get()));
  if (got != 0) {
    fail_connect(one, one.destination(), Reason::protocol_violation, "it sent a reply before the request");
    return;
  }
  ask(one);
}

void FabricImpl::fail_handshake(Connection& one, int error) {
  const bool sealed = transport_->guard(one.socket.get()).sealed;
  const bool closed = error == 0 || error == ECONNRESET;
  const bool in_handshake = closed && one.stage() == Connection::Stage::securing;
  std::string detail;
  if (error == kRefused) {
    detail = transport_->refusal(one.socket.get());
    ++stats_.tls_refused;
  } else {
    detail = error == 0 ? "it closed the connection" : error_text(error);
  }
  if (in_handshake) {
    detail += " when TLS should start; does it accept TLS?";
  } else if (closed && !sealed) {
    detail += "; does it require TLS?";
  }
  fail_connect(one, one.destination(), in_handshake ? Reason::tls_failed : connect_reason(error), detail);
}

void FabricImpl::read_reply(Connection& one) {
  const Transport::Guard guard = transport_->guard(one.socket.get());
  const iwarp::MutableBytes space = greeting_room(inbox_, guard);
  const auto [got, error, more] = transport_->receive(one.socket.get(), {}, space);
  if (got == 0) {
    if (error != EAGAIN) fail_handshake(one, error);
    return;
  }
  const iwarp::Fault fault = one.reply().feed(space.first(got));
  if (fault != iwarp::Fault::none) {
    ++stats_.faults[static_cast<std::size_t>(fault)];
    fail_connect(one, one.destination(), Reason::protocol_violation, to_string(fault));
    return;
  }
  if (!one.reply().complete()) return;
  const iwarp::Greeting greeting = one.reply().greeting();
  std::string data(reinterpret_cast<const char*>(greeting.private_data.data()), greeting.private_data.size());
  if (greeting.rejected) {
    fail_connect(one, one.destination(), Reason::rejected, "", std::move(data));
    return;
  }
  const iwarp::Wishes mine{.crc = wants_crc(guard.sealed), .send_with_immediate = true};
  if (!one.begin(iwarp::agree(mine, greeting))) {
    fail_connect(one, one.destination(), Reason::no_resources, "");
    return;
  }
  report(event::Connected{one.key(), {}}, std::move(data));
  mark_dirty(one);
  mark_ready(one);
}

void FabricImpl::fail_connect(Connection& one, const std::string& where, Reason reason,
                              const std::string& detail, std::string bytes) {
  const std::string text = where + ": " + sentence_with(reason, detail);
  // Every attempt fails in the same way until an operator fixes the cause, so the error is logged only once.
  const bool grave = reason == Reason::tls_failed && text != last_refusal_;
  if (grave) last_refusal_ = text;
  say(grave ? LogLevel::error : LogLevel::warning, text);
  forget(one);
  one.set_stage(Connection::Stage::lost);
  one.socket.reset();
  one.drop_work();
  report(event::ConnectFailed{one.key(), reason, {}}, std::move(bytes));
}

std::uint64_t FabricImpl::cost_of(const HalfOpen& from, const ConnectionParams& params) const noexcept {
  const Transport::Guard guard = transport_->guard(from.socket.get());
  const iwarp::Wishes agreed = iwarp::agree({.crc = wants_crc(guard.sealed)}, from.reader.greeting());
  return Connection::cost(params, agreed.crc, guard);
}

std::uint64_t FabricImpl::memory_for(const HostBooks& host) const noexcept {
  return share_of_host(options_.max_memory, memory_used_ - host.memory);
}

Reason FabricImpl::refusal_of(const HalfOpen& from, std::uint64_t cost, std::string& why) const {
  constexpr const char* kHalfOfDescriptors = "half of the file descriptors (ulimit -n, LimitNOFILE=)";
  const auto found = of_host_.find(from.host);
  const HostBooks host = found == of_host_.end() ? HostBooks{} : found->second;
  const std::uint64_t descriptors = transport_->descriptors() / 2;
  const auto mebibytes = [](std::uint64_t bytes) { return std::to_string(bytes >> 20U) + " MiB"; };
  const std::string all = "there are " + std::to_string(accepted_) + " connections already";
  const std::string theirs = "its host has " + std::to_string(host.connections) + " connections already";
  if (accepted_ >= options_.max_connections) {
    why = all + " (max_connections)";
  } else if (accepted_ >= descriptors) {
    why = all + ", for " + kHalfOfDescriptors;
  } else if (host.connections >= options_.max_connections_per_host) {
    why = theirs + " (max_connections_per_host)";
  } else if (host.connections >= share_of_host(descriptors, accepted_ - host.connections)) {
    why = theirs + ", its share of " + kHalfOfDescriptors;
  } else if (cost + memory_used_ > options_.max_memory) {
    why = "all connections together may take " + mebibytes(options_.max_memory) + kMemory;
  } else if (cost + host.memory > memory_for(host)) {
    why = "the connections of its host may take " + mebibytes(memory_for(host)) + " now, of " +
          mebibytes(options_.max_memory) + " for all" + kMemory;
  }
  return why.empty() ? Reason::none : Reason::no_resources;
}

Reason FabricImpl::serve(Connection& one, HalfOpen& from, std::span<const std::byte> private_data) {
  const bool sealed = transport_->guard(from.socket.get()).sealed;
  const auto [got, error, more] =
      transport_->receive(from.socket.get(), {}, std::span(inbox_).first(sealed ? inbox_.size() : 1));
  if (got != 0) {
    ++stats_.faults[static_cast<std::size_t>(iwarp::Fault::bytes_behind_greeting)];
    return Reason::protocol_violation;
  }
  if (error != EAGAIN) return error == kRefused ? Reason::tls_failed : Reason::peer_closed;
  std::array<std::byte, iwarp::kMaxGreetingBytes> space;
  const iwarp::Greeting greeting = from.reader.greeting();
  const iwarp::Wishes mine{.crc = wants_crc(sealed), .send_with_immediate = true};
  const std::size_t size = iwarp::write_accept(greeting, mine, private_data, space);
  if (size == 0) return Reason::post_failed;
  one.put_first(std::span(space).first(size));
  one.socket = std::move(from.socket);
  if (!one.begin(iwarp::agree(mine, greeting)) || !poller_.watch(one, kReadable)) {
    from.socket = std::move(one.socket);
    one.drop_work();
    return Reason::no_resources;
  }
  one.expect_greeting(poller_.now() + milliseconds(options_.handshake_timeout_ms));
  return Reason::none;
}

void FabricImpl::accept(std::uint32_t request, ConKey key, const ConnectionParams& params,
                        std::span<const std::byte> private_data) {
  const std::unique_ptr<HalfOpen> from = admission_.take(request);
  std::string why;
  const std::uint64_t cost = from == nullptr ? 0 : cost_of(*from, params);
  Reason reason = from == nullptr ? Reason::peer_closed : refusal_of(*from, cost, why);
  Connection& one = create(key, reason == Reason::none ? params : ConnectionParams{}, false);
  if (from != nullptr) one.set_addresses(from->client, from->server);
  if (reason == Reason::none) {
    reason = serve(one, *from, private_data);
    if (reason == Reason::none) {
      count_in(one, from->host, cost);
      mark_dirty(one);
      mark_ready(one);
      return;
    }
  } else if (from != nullptr) {
    ++stats_.refused;
  }
  if (from != nullptr && reason != Reason::peer_closed)
    admission_.refuse(*from, reason == Reason::no_resources ? params.refusal : std::span<const std::byte>{});
  lose(one, reason, why.empty() ? "cannot be accepted" : why);
}

void FabricImpl::reject(std::uint32_t request, std::span<const std::byte> private_data) {
  const std::unique_ptr<HalfOpen> from = admission_.take(request);
  if (from != nullptr) admission_.refuse(*from, private_data);
}

void FabricImpl::count_in(Connection& one, std::uint32_t host, std::uint64_t cost) {
  one.counted = true;
  one.host = host;
  one.cost_bytes = cost;
  memory_used_ += one.cost_bytes;
  HostBooks& books = of_host_[host];
  ++books.connections;
  books.memory += one.cost_bytes;
  ++accepted_;
}

bool FabricImpl::make_room(Connection& one) noexcept {
  const auto host = one.counted ? of_host_.find(one.host) : of_host_.end();
  const std::uint64_t bytes = one.room_bytes();
  if (host != of_host_.end() && host->second.memory + bytes > memory_for(host->second)) return false;
  if (!one.make_room()) return false;
  if (host == of_host_.end()) return true;
  one.cost_bytes += bytes;
  memory_used_ += bytes;
  host->second.memory += bytes;
  return true;
}

void FabricImpl::give_up(Connection& one) noexcept {
  one.end(Reason::no_resources, {});
  try {
    one.end(Reason::no_resources, std::string("no memory for more outstanding requests") + kMemory);
  } catch (const std::bad_alloc&) {
    // There is no memory for the text, so the loss is reported without a text.
  }
  one.failing = true;
  mark_ready(one);
}

void FabricImpl::count_out(Connection& one) noexcept {
  if (!std::exchange(one.counted, false)) return;
  memory_used_ -= one.cost_bytes;
  --accepted_;
  const auto host = of_host_.find(one.host);
  if (host == of_host_.end()) return;
  host->second.memory -= one.cost_bytes;
  if (--host->second.connections == 0) of_host_.erase(host);
}

void FabricImpl::forget(Connection& one) noexcept {
  poller_.forget(one);
  if (std::exchange(one.in_ready, false)) std::erase(ready_, &one);
  if (std::exchange(one.in_dirty, false)) std::erase(dirty_, &one);
  if (std::exchange(one.in_mid, false)) std::erase(mid_, &one);
}

void FabricImpl::lose(Connection& one, Reason reason, const std::string& why) {
  const std::string text = one.description() + ": " + to_string(reason) + (why.empty() ? "" : ": " + why);
  // Logged as debug only, because the session reports that a peer disconnected.
  if (reason == Reason::peer_closed) {
    say(LogLevel::debug, text);
  } else {
    warn(text);
  }
  judge_end(one);
  forget(one);
  one.set_stage(Connection::Stage::lost);
  one.drop_work();
  one.socket.reset();
  report(event::ConnectionLost{one.key(), reason});
}

// Ends a connection whose stream or socket failed.
void FabricImpl::end_broken(Connection& one) {
  const iwarp::Fault fault = one.fault();
  if (fault != iwarp::Fault::none) {
    ++stats_.faults[static_cast<std::size_t>(fault)];
    if (iwarp::answer_to(fault) == iwarp::Answer::terminate && one.socket && one.send_terminate()) {
      poller_.forget(one);
      admission_.keep_lingering(std::move(one.socket));
    }
  }
  lose(one, one.end_reason() == Reason::none ? Reason::peer_closed : one.end_reason(), one.end_text());
}

void FabricImpl::disconnect(ConKey key) {
  std::unique_ptr<Connection> closed = connections_.remove(key);
  if (closed == nullptr) return;
  Connection& one = *closed;
  // Sends earlier data as far as the transport accepts it now.
  if (one.stage() == Connection::Stage::up && !one.failing && one.flush())
    transport_->announce_close(one.socket.get());
  judge_end(one);
  forget(one);
  if (std::exchange(one.in_delivered, false)) std::erase(delivered_, &one);
  count_out(one);
  one.drop_work();
  one.socket.reset();
  pending_.drop(key);
  free_at_next_poll_.push_back(std::move(closed));
  report(event::ConnectionClosed{key});
}

}  // namespace rtrs::tcp
