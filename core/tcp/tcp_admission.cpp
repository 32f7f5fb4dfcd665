#include "core/tcp/tcp_admission.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "core/base/counted.hpp"
#include "core/tcp/tcp_status.hpp"

namespace rtrs::tcp {
namespace {

constexpr Nanos kReportEvery = seconds(1);
// Pause before the next accept after an error that an immediate retry would hit again.
constexpr Nanos kPause = milliseconds(50);
constexpr const char* kDescriptors = "the file descriptors (ulimit -n, LimitNOFILE=)";
constexpr unsigned kAcceptsPerRound = 16;
// Maximum number of complete requests without a response. Further clients wait in the listen queue. Otherwise
// a client that opens many connections at once would exceed the limit of half-open connections while the
// server sets them up.
constexpr std::size_t kMaxUnanswered = 16;
// Maximum number of TLS handshake steps per round. Each step may take a millisecond of computation.
constexpr unsigned kHandshakesPerRound = 4;

}  // namespace

Admission::Admission(const TcpOptions& options, Poller& poller, TcpStats& stats, iwarp::MutableBytes inbox,
                     std::vector<std::unique_ptr<Watched>>& graveyard,
                     std::function<void(LogLevel, const std::string&)> say)
    : options_(options),
      poller_(poller),
      stats_(stats),
      inbox_(inbox),
      free_at_next_poll_(graveyard),
      say_(std::move(say)) {}

Errc Admission::listen(const PathAddress& address) {
  Transport::Opened opened = poller_.transport().listen(address, options_.undelivered_timeout_ms);
  auto listener = std::make_unique<Listener>();
  listener->socket = Socket(poller_.transport(), opened.socket);
  if (opened.error == kUnresolved) {
    say_(LogLevel::error, "cannot listen on \"" + opened.name + "\": not an address of this host");
    return Errc::bad_address;
  }
  if (opened.error == 0 && !poller_.watch(*listener, kReadable)) opened.error = ENOMEM;
  if (opened.error != 0) {
    say_(LogLevel::error, "cannot listen on " + opened.name + ": " + error_text(opened.error));
    return to_errc(opened.error);
  }
  port_ = opened.port;
  say_(LogLevel::info, "listening on " + opened.name);
  listeners_.push_back(std::move(listener));
  return Errc::ok;
}

void Admission::accept_clients(Listener& listener) {
  for (unsigned taken = 0; taken < kAcceptsPerRound; ++taken) {
    if (requests_.size() >= kMaxUnanswered || !accept_one(listener)) return;
  }
}

bool Admission::accept_one(Listener& listener) {
  Transport::Client client = poller_.transport().accept(listener.socket.get());
  if (client.socket == kNoSocket) {
    if (client.error == ECONNABORTED || client.error == EINTR) return true;
    if (!is_shortage(client.error)) return false;
    return free_one() || accept_and_drop(listener);
  }
  add(Socket(poller_.transport(), client.socket), std::move(client));
  return true;
}

bool Admission::free_one() {
  if (!last_words_.empty()) {
    close_oldest_lingering();
  } else if (!half_open_.empty()) {
    close_oldest_of_busiest_host(kDescriptors);
  } else {
    return false;
  }
  // Closing these sockets frees their descriptors. The objects stay allocated because events of this round
  // may refer to them.
  for (auto& one : free_at_next_poll_) one->socket.reset();
  return true;
}

// No descriptor is left. Closes the client's socket, so that the client sees a closed connection. If the
// client stayed in the listen queue, it would wait and keep this thread busy.
bool Admission::accept_and_drop(Listener& listener) {
  Transport::Client client = poller_.transport().accept_and_drop(listener.socket.get());
  if (client.error == 0) {
    count_dropped_client(std::move(client.name));
  } else {
    pause(listener);
  }
  return client.error == 0;
}

void Admission::count_dropped_client(std::string client) {
  ++dropped_clients_;
  ++stats_.dropped_clients;
  last_dropped_client_ = std::move(client);
  tell(poller_.now());
}

void Admission::pause(Listener& listener) noexcept {
  poller_.watch(listener, 0);
  paused_until_ = poller_.now() + kPause;
  poller_.wake_at(paused_until_);
}

void Admission::add(Socket socket, Transport::Client&& client) {
  if (client.last_place && !free_one()) return count_dropped_client(std::move(client.name));
  const std::uint32_t host = client.host;
  const std::size_t most =
      std::clamp<std::size_t>(poller_.transport().descriptors() / 4, 1, options_.max_handshakes);
  while (half_open_.size() >= most)
    close_oldest_of_busiest_host(most == options_.max_handshakes
                                     ? "max_handshakes = " + std::to_string(most)
                                     : "a quarter of " + std::string(kDescriptors));
  auto one = std::make_unique<HalfOpen>();
  one->socket = std::move(socket);
  one->client = std::move(client.name);
  one->host = host;
  one->deadline = poller_.now() + milliseconds(options_.handshake_timeout_ms);
  Transport::Ends ends = poller_.transport().ends(one->socket.get());
  if (!ends.known) return;
  one->server = std::move(ends.own);
  one->address_pair = ends.address_pair;
  if (of_host_[host] >= options_.max_handshakes_per_host) {
    HalfOpen* oldest = nullptr;
    for (auto& [at, held] : half_open_) {
      if (held->host == host && (oldest == nullptr || held->deadline < oldest->deadline)) oldest = held.get();
    }
    if (oldest != nullptr)
      give_way(*oldest, "max_handshakes_per_host = " + std::to_string(options_.max_handshakes_per_host));
  }
  if (!poller_.watch(*one, kReadable)) return;
  poller_.wake_at(one->deadline);
  ++of_host_[host];
  one->number = ++next_number_;
  const std::uint64_t number = one->number;
  half_open_.emplace(number, std::move(one));
}

bool Admission::recognise(HalfOpen& one) {
  const Transport::Recognised found = poller_.transport().recognise(one.socket.get());
  if (found.error == EAGAIN) return false;
  one.recognised = true;
  if (found.error == 0) return true;
  if (found.error == kRefused) {
    ++stats_.tls_refused;
    refuse_for(one, found.why);
  } else {
    close(one);
  }
  return false;
}

void Admission::refuse_for(HalfOpen& one, const std::string& why) {
  ++closed_;
  last_closed_ = one.client + " (" + why + ")";
  close(one);
  tell(poller_.now());
}

void Admission::note_silence(HalfOpen& one, int error) {
  Transport& transport = poller_.transport();
  if (error == EAGAIN) {
    const bool has_output = transport.guard(one.socket.get()).has_output;
    poller_.watch(one, kReadable | (has_output ? std::uint32_t{kWritable} : 0U));
  } else if (error == kRefused) {
    ++stats_.tls_refused;
    const std::string why = transport.refusal(one.socket.get());
    // Continues to read, because the client receives the guard's last message only if the client's remaining
    // data is read.
    poller_.forget(one);
    keep_lingering(std::move(one.socket));
    refuse_for(one, why);
  } else {
    close(one);
  }
}

std::uint32_t Admission::read(HalfOpen& one) {
  if (!one.recognised && !recognise(one)) return 0;
  Transport& transport = poller_.transport();
  const Transport::Guard guard = transport.guard(one.socket.get());
  // Handshakes over the limit continue in the next round, because readiness is level-triggered. Established
  // connections get their turn first.
  if (!guard.settled && ++handshakes_ > kHandshakesPerRound) return 0;
  const iwarp::MutableBytes space = greeting_room(inbox_, guard);
  const auto [got, error, more] = transport.receive(one.socket.get(), {}, space);
  if (!guard.settled && transport.guard(one.socket.get()).settled)
    say_(LogLevel::debug, one.client + ": " + transport.describe_guard(one.socket.get()));
  if (got == 0) {
    note_silence(one, error);
    return 0;
  }
  const iwarp::Fault fault = one.reader.feed(space.first(got));
  if (fault != iwarp::Fault::none) {
    ++stats_.faults[static_cast<std::size_t>(fault)];
    if (iwarp::answer_to(fault) == iwarp::Answer::reject) refuse(one, {});
    refuse_for(one, to_string(fault));
    return 0;
  }
  if (!one.reader.complete()) return 0;
  // Further data is checked when the request is answered.
  poller_.watch(one, 0);
  if (++next_request_ == 0) ++next_request_;
  one.request = next_request_;
  requests_.emplace(one.request, &one);
  return one.request;
}

void Admission::close(HalfOpen& one) {
  const auto found = half_open_.find(one.number);
  if (found == half_open_.end()) return;
  if (--of_host_[one.host] == 0) of_host_.erase(one.host);
  if (one.request != 0) requests_.erase(one.request);
  poller_.forget(one);
  one.socket.reset();
  free_at_next_poll_.push_back(std::move(found->second));
  half_open_.erase(found);
}

void Admission::give_way(HalfOpen& one, const std::string& limit) {
  ++stats_.closed_handshakes;
  refuse_for(one, limit);
}

void Admission::close_oldest_of_busiest_host(const std::string& limit) {
  const HalfOpen* worst = nullptr;
  unsigned most = 0;
  for (const auto& [at, one] : half_open_) {
    const unsigned crowd = of_host_[one->host];
    if (worst != nullptr && (crowd < most || (crowd == most && one->deadline >= worst->deadline))) continue;
    worst = one.get();
    most = crowd;
  }
  if (worst != nullptr) give_way(*half_open_.find(worst->number)->second, limit);
}

std::size_t Admission::half_open_by_host() const noexcept {
  std::size_t all = 0;
  for (const auto& [host, count] : of_host_) all += count;
  return all;
}

const HalfOpen* Admission::find(std::uint32_t request) const noexcept {
  const auto found = requests_.find(request);
  return found == requests_.end() ? nullptr : found->second;
}

std::unique_ptr<HalfOpen> Admission::take(std::uint32_t request) noexcept {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return nullptr;
  auto node = half_open_.extract(found->second->number);
  requests_.erase(found);
  std::unique_ptr<HalfOpen> one = std::move(node.mapped());
  if (--of_host_[one->host] == 0) of_host_.erase(one->host);
  poller_.forget(*one);
  return one;
}

void Admission::refuse(HalfOpen& one, iwarp::Bytes private_data) noexcept {
  std::array<std::byte, iwarp::kMaxGreetingBytes> space;
  if (private_data.size() > iwarp::kMaxCallerBytes) private_data = {};
  const iwarp::Greeting greeting = one.reader.greeting();
  const std::size_t size = iwarp::write_reject(greeting, private_data, space);
  poller_.forget(one);
  const iwarp::Bytes reply = std::span(space).first(size);
  if (poller_.transport().send(one.socket.get(), {&reply, 1}, 0).bytes == size)
    keep_lingering(std::move(one.socket));
  one.socket.reset();
}

void Admission::keep_lingering(Socket socket) noexcept {
  if (!poller_.transport().shut_down(socket.get())) return;
  try {
    while (last_words_.size() >= std::max(1U, options_.max_handshakes / 2)) close_oldest_lingering();
    auto one = std::make_unique<LingeringSocket>();
    one->socket = std::move(socket);
    one->deadline = poller_.now() + milliseconds(options_.drain_timeout_ms);
    if (!poller_.watch(*one, kReadable)) return;
    poller_.wake_at(one->deadline);
    last_words_.push_back(std::move(one));
  } catch (const std::bad_alloc&) {
    return;
  }
}

void Admission::close_oldest_lingering() noexcept {
  poller_.forget(*last_words_.front());
  last_words_.front()->socket.reset();
  free_at_next_poll_.push_back(std::move(last_words_.front()));
  last_words_.pop_front();
}

void Admission::drain(LingeringSocket& one) noexcept {
  std::array<std::byte, 4096> space;
  for (;;) {
    const auto [got, error, more] = poller_.transport().receive(one.socket.get(), {}, space);
    if (got == 0 && error == EAGAIN) return;
    if (got == 0 || got > one.patience) break;
    one.patience -= got;
  }
  const auto found = std::find_if(last_words_.begin(), last_words_.end(),
                                  [&](const auto& held) { return held.get() == &one; });
  if (found == last_words_.end()) return;
  poller_.forget(one);
  one.socket.reset();
  free_at_next_poll_.push_back(std::move(*found));
  last_words_.erase(found);
}

Nanos Admission::expire(Nanos now) {
  Nanos next = kNever;
  std::vector<HalfOpen*> overdue;
  for (auto& [at, one] : half_open_) {
    if (one->deadline <= now) {
      overdue.push_back(one.get());
    } else {
      next = std::min(next, one->deadline);
    }
  }
  for (HalfOpen* one : overdue) {
    ++closed_;
    ++stats_.closed_handshakes;
    last_closed_ = one->client;
    close(*one);
  }
  while (!last_words_.empty() && last_words_.front()->deadline <= now) close_oldest_lingering();
  if (!last_words_.empty()) next = std::min(next, last_words_.front()->deadline);
  if (paused_until_ <= now) {
    paused_until_ = kNever;
    for (auto& listener : listeners_) poller_.watch(*listener, kReadable);
  }
  tell(now);
  if (closed_ != 0 || dropped_clients_ != 0) next = std::min(next, next_report_);
  return std::min(next, paused_until_);
}

// Logs the closed and dropped clients, at most once per second, because otherwise any client that can connect
// could fill the log.
void Admission::tell(Nanos now) {
  if (closed_ == 0 && dropped_clients_ == 0) return;
  if (now < next_report_) {
    poller_.wake_at(next_report_);
    return;
  }
  if (closed_ != 0)
    say_(LogLevel::warning, "closed " + counted(closed_, "connection") +
                                " without a valid connect request; the last client was " + last_closed_);
  if (dropped_clients_ != 0)
    say_(LogLevel::error, "turned away " + counted(dropped_clients_, "client") + "; the last client was " +
                              last_dropped_client_ + ": no file descriptor is left; raise the limit of " +
                              kDescriptors);
  closed_ = dropped_clients_ = 0;
  next_report_ = now + kReportEvery;
}

}  // namespace rtrs::tcp
