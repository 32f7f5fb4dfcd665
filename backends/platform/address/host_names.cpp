#include "backends/platform/address/host_names.hpp"

#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <ctime>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <utility>

#include "backends/platform/address/address_list.hpp"
#include "backends/platform/address/signals_blocked.hpp"
#include "backends/platform/address/unique_fd.hpp"

namespace rtrs::net {
namespace {

// Maximum number of names resolved in parallel; the others wait in a queue, within the time limit of their
// attempt.
constexpr unsigned kMaxThreads = 16;
constexpr std::size_t kMaxQueue = 256;
constexpr std::size_t kMaxNames = 256;

Nanos now() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return seconds(static_cast<std::uint64_t>(time.tv_sec)) + static_cast<std::uint64_t>(time.tv_nsec);
}

// True if the name service confirmed that no host has this name. All other codes mean that the query failed.
bool is_no_such_name(int code) noexcept {
  return code == EAI_NONAME || code == EAI_NODATA || code == EAI_ADDRFAMILY;
}

}  // namespace

struct HostNames::Shared {
  struct Name {
    std::vector<SocketAddress> addresses;  // addresses from the last successful answer
    int code = EAI_AGAIN;                  // result of the last query
    bool answered = false;
    bool in_flight = false;
  };
  FindHost find;
  std::mutex mutex;
  std::unordered_map<std::string, Name> names;
  std::deque<std::string> queue;
  unsigned threads = 0;
  bool signaled = false;  // the timer is set to wake the owner at once
  UniqueFd timer{::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};

  void set(Nanos when) noexcept {
    itimerspec setting{};
    if (when != kNever) {
      setting.it_value.tv_sec = static_cast<time_t>(when / seconds(1));
      // An all-zero time would disable the timer.
      setting.it_value.tv_nsec = static_cast<long>(std::max<Nanos>(when % seconds(1), 1));
    }
    ::timerfd_settime(timer.get(), TFD_TIMER_ABSTIME, &setting, nullptr);
  }
};

int find_host(const std::string& host, std::vector<SocketAddress>& result) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (code != 0) return code;
  std::vector<SocketAddress> all;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next)
    all.push_back(from_raw(one->ai_addr, one->ai_addrlen));
  ::freeaddrinfo(found);
  result = in_turn(all);
  return 0;
}

HostNames::HostNames(FindHost find, NameBounds bounds)
    : bounds_(bounds), shared_(std::make_shared<Shared>()) {
  shared_->find = std::move(find);
}

HostNames::~HostNames() {
  const std::lock_guard lock(shared_->mutex);
  shared_->queue.clear();
}

void HostNames::disable_lookups() noexcept {
  shared_->find = nullptr;
}

bool HostNames::asks() const noexcept {
  return shared_->find != nullptr;
}

int HostNames::wait_fd() const noexcept {
  return shared_->timer.get();
}

void HostNames::work(const std::shared_ptr<Shared>& shared) {
  std::unique_lock lock(shared->mutex);
  while (!shared->queue.empty()) {
    const std::string host = std::move(shared->queue.front());
    shared->queue.pop_front();
    lock.unlock();
    std::vector<SocketAddress> addresses;
    const int code = shared->find(host, addresses);
    lock.lock();
    Shared::Name& name = shared->names[host];
    name.in_flight = false;
    name.answered = true;
    name.code = code;
    if (code == 0) {
      name.addresses = keep_known_order(name.addresses, std::move(addresses));
    } else if (is_no_such_name(code)) {
      name.addresses.clear();
    }
    shared->signaled = true;
    shared->set(1);
  }
  --shared->threads;
}

// Precondition: the caller holds the lock.
void HostNames::start_thread() {
  if (shared_->threads >= kMaxThreads) return;
  const SignalsBlocked blocked;
  try {
    std::thread([shared = shared_] { work(shared); }).detach();
    ++shared_->threads;
  } catch (const std::system_error&) {
    // The name stays in the queue for the running threads. If there are none, the attempt times out.
  }
}

bool HostNames::ask(std::uint64_t ticket, std::initializer_list<std::string_view> texts) {
  Waiting one;
  one.ticket = ticket;
  for (const std::string_view text : texts) {
    std::string host = host_name_in(text);
    if (!host.empty()) one.hosts.push_back(std::move(host));
  }
  if (one.hosts.empty() || !asks()) return false;
  const std::lock_guard lock(shared_->mutex);
  Shared& shared = *shared_;
  if (shared.names.size() >= kMaxNames)
    std::erase_if(shared.names, [](const auto& entry) { return !entry.second.in_flight; });
  Nanos bound = bounds_.newer;
  for (const std::string& host : one.hosts) {
    Shared::Name& name = shared.names[host];
    if (name.addresses.empty()) bound = bounds_.first;
    if (name.in_flight || shared.queue.size() >= kMaxQueue) continue;
    shared.queue.push_back(host);
    name.in_flight = true;
    start_thread();
  }
  // Retries in case no thread could be started for an earlier query, which would otherwise wait forever.
  if (!shared.queue.empty() && shared.threads == 0) start_thread();
  one.deadline = now() + bound;
  waiting_.push_back(std::move(one));
  arm();
  return true;
}

void HostNames::forget(std::uint64_t ticket) noexcept {
  std::erase_if(waiting_, [&](const Waiting& one) { return one.ticket == ticket; });
}

// Precondition: the caller holds the lock.
void HostNames::arm() noexcept {
  if (shared_->signaled) return;
  Nanos next = kNever;
  for (const Waiting& one : waiting_) next = std::min(next, one.deadline);
  shared_->set(next);
}

std::vector<std::uint64_t> HostNames::take() {
  std::vector<std::uint64_t> done;
  const std::lock_guard lock(shared_->mutex);
  const Nanos time = now();
  std::erase_if(waiting_, [&](const Waiting& one) {
    const bool open = std::any_of(one.hosts.begin(), one.hosts.end(), [&](const std::string& host) {
      const auto found = shared_->names.find(host);
      return found != shared_->names.end() && found->second.in_flight;
    });
    if (open && one.deadline > time) return false;
    done.push_back(one.ticket);
    return true;
  });
  shared_->signaled = false;
  arm();
  return done;
}

std::vector<SocketAddress> HostNames::addresses(std::string_view text, std::uint16_t port) const {
  const std::string host = host_name_in(text, &port);
  std::vector<SocketAddress> result;
  if (host.empty()) {
    if (const Result<SocketAddress> one = parse_address(text, port)) result.push_back(*one);
    return result;
  }
  const std::lock_guard lock(shared_->mutex);
  const auto found = shared_->names.find(host);
  if (found != shared_->names.end()) result = found->second.addresses;
  for (SocketAddress& one : result) one.set_port(port);
  return result;
}

std::string HostNames::unresolved_reason(std::string_view text) const {
  const std::string host = host_name_in(text);
  if (host.empty()) {
    const std::string address = host_of(text);
    const std::size_t scope = address.find('%');
    if (scope != std::string::npos && ::if_nametoindex(address.c_str() + scope + 1) == 0)
      return "this host has no network interface \"" + address.substr(scope + 1) +
             "\"; 'ip link' lists its interfaces";
    return "\"" + std::string(text) + "\" is not an address";
  }
  if (!asks()) return "\"" + host + "\" is not a numeric address, and host names are not resolved here";
  const std::lock_guard lock(shared_->mutex);
  const auto found = shared_->names.find(host);
  if (found == shared_->names.end() || !found->second.answered)
    return "the name service (DNS) does not answer for \"" + host + "\"";
  if (is_no_such_name(found->second.code)) return "no host has the name \"" + host + "\"";
  return "the name service (DNS) cannot resolve \"" + host + "\": " + ::gai_strerror(found->second.code);
}

bool HostNames::is_silent(std::string_view text) const {
  const std::string host = host_name_in(text);
  if (host.empty() || !asks()) return false;
  const std::lock_guard lock(shared_->mutex);
  const auto found = shared_->names.find(host);
  return found == shared_->names.end() || !found->second.answered || !is_no_such_name(found->second.code);
}

std::vector<SocketAddress> resolve(std::string_view text, std::uint16_t port, std::string* why) {
  HostNames names;
  if (!host_name_in(text).empty() && names.wait_fd() >= 0) {
    names.ask(0, {text});
    do {
      pollfd wait{names.wait_fd(), POLLIN, 0};
      ::poll(&wait, 1, -1);
    } while (names.take().empty());
  }
  std::vector<SocketAddress> found = names.addresses(text, port);
  if (found.empty() && why != nullptr) *why = names.unresolved_reason(text);
  return found;
}

std::vector<std::string> listen_addresses(const std::string& text, std::string& why) {
  if (host_name_in(text).empty()) return {text};
  std::vector<std::string> result;
  for (const SocketAddress& one : resolve(text, 0, &why)) result.push_back(host_of(to_text(one)));
  return result;
}

}  // namespace rtrs::net
