#include "backends/tcp/tcp_admission.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

#include "backends/tcp/tcp_status.hpp"

namespace rtrs::tcp {
namespace {

constexpr int kBacklog = 4096;
constexpr Nanos kReportEvery = seconds(1);
// After an error that accepting again would meet again.
constexpr Nanos kPause = milliseconds(50);
constexpr unsigned kAcceptsPerRound = 64;
// Each may take a millisecond of arithmetic.
constexpr unsigned kHandshakesPerRound = 4;
// The first octet of a hello: a record of TLS's handshake. The connect request of MPA begins with 'M'.
constexpr std::byte kTlsHandshake{0x16};

net::UniqueFd open_spare() {
  return net::UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

std::size_t soft_limit() noexcept {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 1U << 20U;
  return limit.rlim_cur;
}

}  // namespace

Admission::Admission(const TcpOptions& options, Poller& poller, TcpStats& stats, SealedSpace& sealed,
                     iwarp::MutableBytes inbox, std::vector<std::unique_ptr<Watched>>& graveyard,
                     std::function<void(LogLevel, const std::string&)> say)
    : options_(options),
      poller_(poller),
      stats_(stats),
      sealed_(sealed),
      inbox_(inbox),
      graveyard_(graveyard),
      say_(std::move(say)) {}

Errc Admission::open() noexcept {
  spare_ = open_spare();
  return spare_ ? Errc::ok : Errc::no_memory;
}

// The rest is for what else the process opens: the kernel gives the lowest descriptor that is free.
std::size_t Admission::descriptor_limit() const noexcept {
  const std::size_t limit = soft_limit();
  return limit - std::min<std::size_t>(limit / 2, std::clamp<std::size_t>(limit / 16, 16, 64));
}

Errc Admission::listen(const net::SocketAddress& address) {
  auto listener = std::make_unique<Listener>();
  listener->socket.reset(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int fd = listener->socket.get();
  const int on = 1;
  const unsigned undelivered = options_.undelivered_timeout_ms;
  net::SocketAddress name;
  name.length = sizeof name.storage;
  // Accepted sockets inherit the options.
  if (fd < 0 || ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
      ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &undelivered, sizeof undelivered) != 0 ||
      ::bind(fd, address.get(), address.length) != 0 || ::listen(fd, kBacklog) != 0 ||
      ::getsockname(fd, name.get(), &name.length) != 0 || !poller_.watch(*listener, EPOLLIN)) {
    const int error = errno;
    say_(LogLevel::error, "cannot listen on " + to_text(address) + ": " + error_text(error));
    return to_errc(error);
  }
  port_ = name.port();
  say_(LogLevel::info, "listening on " + to_text(name));
  listeners_.push_back(std::move(listener));
  return Errc::ok;
}

void Admission::accept_clients(Listener& listener) {
  for (unsigned taken = 0; taken < kAcceptsPerRound; ++taken) {
    if (!accept_one(listener)) return;
  }
}

bool Admission::accept_one(Listener& listener) {
  net::SocketAddress client;
  client.length = sizeof client.storage;
  net::UniqueFd socket(
      ::accept4(listener.socket.get(), client.get(), &client.length, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) {
    if (errno == ECONNABORTED || errno == EINTR) return true;
    if (!is_shortage(errno)) return false;
    return free_one() || turn_away(listener);
  }
  if (static_cast<std::size_t>(socket.get()) >= descriptor_limit() && !free_one()) {
    ++turned_away_;
    ++stats_.turned_away;
    last_closed_ = to_text(client);
    tell(clock_now());
    return true;
  }
  add(std::move(socket), client);
  return true;
}

bool Admission::free_one() {
  if (!last_words_.empty()) {
    close_last_word();
  } else if (!half_open_.empty()) {
    close_one_of_the_crowd();
  } else {
    return false;
  }
  // Descriptors are free once these are gone. What epoll still names of this round is not touched by it.
  for (auto& one : graveyard_) one->socket.reset();
  return true;
}

// All descriptors serve connections. The client is told by its socket being closed, instead of waiting in the
// queue of the kernel and keeping this thread busy.
bool Admission::turn_away(Listener& listener) {
  spare_.reset();
  net::SocketAddress client;
  client.length = sizeof client.storage;
  net::UniqueFd socket(
      ::accept4(listener.socket.get(), client.get(), &client.length, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const bool accepted = static_cast<bool>(socket);
  socket.reset();
  spare_ = open_spare();
  if (accepted) {
    ++turned_away_;
    ++stats_.turned_away;
    last_closed_ = to_text(client);
    tell(clock_now());
  } else {
    pause(listener);
  }
  return accepted;
}

void Admission::pause(Listener& listener) noexcept {
  poller_.watch(listener, 0);
  paused_until_ = clock_now() + kPause;
  poller_.wake_at(paused_until_);
}

void Admission::add(net::UniqueFd socket, const net::SocketAddress& client) {
  const std::uint32_t host = net::host_digest(client);
  const std::size_t most = std::clamp<std::size_t>(soft_limit() / 4, 1, options_.max_handshakes);
  while (half_open_.size() >= most) close_one_of_the_crowd();
  auto one = std::make_unique<HalfOpen>();
  one->socket = Line(std::move(socket));
  one->client = client;
  one->host = host;
  one->server.length = sizeof one->server.storage;
  one->deadline = clock_now() + milliseconds(options_.handshake_timeout_ms);
  if (::getsockname(one->socket.get(), one->server.get(), &one->server.length) != 0) return;
  if (of_host_[host] >= options_.max_handshakes_per_host) {
    HalfOpen* oldest = nullptr;
    for (auto& [at, held] : half_open_) {
      if (held->host == host && (oldest == nullptr || held->deadline < oldest->deadline)) oldest = held.get();
    }
    if (oldest != nullptr) close(*oldest);
  }
  if (!poller_.watch(*one, EPOLLIN)) return;
  poller_.wake_at(one->deadline);
  ++of_host_[host];
  const HalfOpen* const at = one.get();
  half_open_.emplace(at, std::move(one));
}

bool Admission::choose(HalfOpen& one) {
  std::byte first{};
  const ssize_t got = ::recv(one.socket.get(), &first, 1, MSG_DONTWAIT | MSG_PEEK);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
  if (got <= 0) {
    close(one);
    return false;
  }
  one.chosen = true;
  const bool speaks_tls = first == kTlsHandshake;
  if (speaks_tls == (options_.tls != nullptr)) {
    if (!speaks_tls) return true;
    one.socket.secure(options_.tls->open_channel(tls::Side::server, {}, one.socket.get(), sealed_.outgoing),
                      sealed_);
    if (one.socket.channel() != nullptr) return true;
    refuse_for(one, "no memory for TLS");
    return false;
  }
  if (!speaks_tls && options_.plain_too) return true;
  ++stats_.tls_refused;
  refuse_for(one,
             speaks_tls ? "it speaks TLS, which is off here" : "it does not speak TLS, which is required");
  return false;
}

void Admission::refuse_for(HalfOpen& one, const std::string& why) {
  ++closed_;
  last_closed_ = to_text(one.client) + " (" + why + ")";
  close(one);
  tell(clock_now());
}

std::uint32_t Admission::read(HalfOpen& one) {
  if (!one.chosen && !choose(one)) return 0;
  const bool handshake = !one.socket.established();
  // It is named again in the next round: those who are in have their turn in between.
  if (handshake && ++handshakes_ > kHandshakesPerRound) return 0;
  const Line::Moved got = one.socket.receive(inbox_, stats_.receive_calls);
  if (handshake && one.socket.established()) note_established(one);
  if (got.bytes == 0) {
    if (got.error == EAGAIN) {
      // What the kernel did not take of an answer.
      poller_.watch(one, EPOLLIN | (one.socket.has_output() ? std::uint32_t{EPOLLOUT} : 0U));
      return 0;
    }
    if (got.error == EPROTO) ++stats_.tls_refused;
    if (got.error == EPROTO) {
      const std::string why = one.socket.error_text();
      // The alert reaches the client if what it still sends is read.
      poller_.forget(one);
      keep_for_last_word(std::move(one.socket));
      refuse_for(one, why);
    } else {
      close(one);
    }
    return 0;
  }
  const iwarp::Fault fault = one.reader.feed(inbox_.first(got.bytes));
  if (fault != iwarp::Fault::none) {
    ++stats_.faults[static_cast<std::size_t>(fault)];
    if (iwarp::answer_to(fault) == iwarp::Answer::reject) refuse(one, {});
    refuse_for(one, to_string(fault));
    return 0;
  }
  if (!one.reader.complete()) return 0;
  // What comes next is looked at when it is answered.
  poller_.watch(one, 0);
  if (++next_request_ == 0) ++next_request_;
  one.request = next_request_;
  requests_.emplace(one.request, &one);
  return one.request;
}

void Admission::note_established(const HalfOpen& one) {
  note_tls(*one.socket.channel(), stats_);
  say_(LogLevel::debug, to_text(one.client) + ": " + one.socket.channel()->description());
}

void Admission::close(HalfOpen& one) {
  const auto found = half_open_.find(&one);
  if (found == half_open_.end()) return;
  if (--of_host_[one.host] == 0) of_host_.erase(one.host);
  if (one.request != 0) requests_.erase(one.request);
  poller_.forget(one);
  one.socket.reset();
  graveyard_.push_back(std::move(found->second));
  half_open_.erase(found);
}

void Admission::close_one_of_the_crowd() {
  const HalfOpen* worst = nullptr;
  unsigned most = 0;
  for (const auto& [at, one] : half_open_) {
    const unsigned crowd = of_host_[one->host];
    if (worst != nullptr && (crowd < most || (crowd == most && one->deadline >= worst->deadline))) continue;
    worst = one.get();
    most = crowd;
  }
  if (worst == nullptr) return;
  ++closed_;
  ++stats_.closed_handshakes;
  last_closed_ = to_text(worst->client);
  close(*half_open_.find(worst)->second);
  tell(clock_now());
}

const HalfOpen* Admission::find(std::uint32_t request) const noexcept {
  const auto found = requests_.find(request);
  return found == requests_.end() ? nullptr : found->second;
}

std::unique_ptr<HalfOpen> Admission::take(std::uint32_t request) noexcept {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return nullptr;
  auto node = half_open_.extract(found->second);
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
  if (one.socket.send({&reply, 1}, 0, stats_.send_calls).bytes == size)
    keep_for_last_word(std::move(one.socket));
  one.socket.reset();
}

void Admission::keep_for_last_word(Line socket) noexcept {
  if (!socket.shut_down()) return;
  try {
    while (last_words_.size() >= std::max(1U, options_.max_handshakes / 2)) close_last_word();
    auto one = std::make_unique<LastWord>();
    one->socket = std::move(socket);
    one->deadline = clock_now() + milliseconds(options_.drain_timeout_ms);
    if (!poller_.watch(*one, EPOLLIN)) return;
    poller_.wake_at(one->deadline);
    last_words_.push_back(std::move(one));
  } catch (const std::bad_alloc&) {
    return;
  }
}

void Admission::close_last_word() noexcept {
  poller_.forget(*last_words_.front());
  last_words_.front()->socket.reset();
  graveyard_.push_back(std::move(last_words_.front()));
  last_words_.pop_front();
}

void Admission::drain(LastWord& one) noexcept {
  std::array<std::byte, 4096> space;
  for (;;) {
    const ssize_t got = ::recv(one.socket.get(), space.data(), space.size(), MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
    if (got <= 0 || static_cast<std::size_t>(got) > one.patience) break;
    one.patience -= static_cast<std::size_t>(got);
  }
  const auto found = std::find_if(last_words_.begin(), last_words_.end(),
                                  [&](const auto& held) { return held.get() == &one; });
  if (found == last_words_.end()) return;
  poller_.forget(one);
  one.socket.reset();
  graveyard_.push_back(std::move(*found));
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
    last_closed_ = to_text(one->client);
    close(*one);
  }
  while (!last_words_.empty() && last_words_.front()->deadline <= now) close_last_word();
  if (!last_words_.empty()) next = std::min(next, last_words_.front()->deadline);
  if (paused_until_ <= now) {
    paused_until_ = kNever;
    for (auto& listener : listeners_) poller_.watch(*listener, EPOLLIN);
  }
  tell(now);
  if (closed_ != 0 || turned_away_ != 0) next = std::min(next, next_report_);
  return std::min(next, paused_until_);
}

// Once a second at most: who can connect can otherwise fill the log.
void Admission::tell(Nanos now) {
  if (closed_ == 0 && turned_away_ == 0) return;
  if (now < next_report_) {
    poller_.wake_at(next_report_);
    return;
  }
  if (closed_ != 0)
    say_(LogLevel::warning, "closed " + std::to_string(closed_) +
                                " clients that sent no whole and good connect request, the last of them " +
                                last_closed_);
  if (turned_away_ != 0)
    say_(LogLevel::error, "turned away " + std::to_string(turned_away_) + " clients, the last of them " +
                              last_closed_ +
                              ": no file descriptor is left; raise the limit (ulimit -n, LimitNOFILE=)");
  closed_ = turned_away_ = 0;
  next_report_ = now + kReportEvery;
}

}  // namespace rtrs::tcp
