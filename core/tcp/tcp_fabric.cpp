// Memory regions and posting of requests.
#include "core/tcp/tcp_fabric.hpp"

#include <algorithm>
#include <utility>

namespace rtrs::tcp {
namespace {

constexpr std::size_t kInboxBytes = std::size_t{160} << 10;
static_assert(kInboxBytes >= kSealedRoom);
constexpr std::size_t kListEvents = 64;
constexpr Nanos kWarnEvery = seconds(1);

}  // namespace

Capabilities tcp_capabilities() noexcept {
  Capabilities can;
  can.name = "tcp";
  can.max_send_depth = 1U << 16U;
  can.max_receive_depth = 1U << 16U;
  can.max_message = Connection::kMaxMessage;
  can.connect_data = can.accept_data = can.reject_data = iwarp::kMaxCallerBytes;
  can.imm_consumes_receive = true;
  can.send_invalidate = true;
  can.per_io_keys = true;
  can.invalidation = true;
  can.invalidation_fences = true;
  return can;
}

FabricImpl::FabricImpl(TcpOptions options, const KeySequence::Secret& secret,
                       std::unique_ptr<Transport> transport)
    : transport_(std::move(transport)),
      options_(std::move(options)),
      capabilities_(tcp_capabilities()),
      poller_(*transport_),
      memory_(*transport_, secret, regions_, [this](std::uint32_t key) { key_died(key); }),
      inbox_(kInboxBytes),
      list_(kListEvents),
      admission_(options_, poller_, stats_, inbox_, free_at_next_poll_,
                 [this](LogLevel level, const std::string& text) { say(level, text); }) {}

FabricImpl::~FabricImpl() = default;

FabricImpl::Books FabricImpl::books() const noexcept {
  Books all{accepted_,
            memory_used_,
            admission_.half_open(),
            admission_.last_words(),
            0,
            0,
            admission_.half_open_by_host()};
  for (const auto& [host, its] : of_host_) {
    all.accepted_by_host += its.connections;
    all.memory_by_host += its.memory;
  }
  return all;
}

TcpStats FabricImpl::stats() const noexcept {
  TcpStats all = stats_;
  all.connections = accepted_;
  all.memory = memory_used_;
  transport_->count(all);
  return all;
}

void FabricImpl::say(LogLevel level, const std::string& text) const {
  if (options_.log) options_.log(level, text);
}

void FabricImpl::warn(const std::string& text) {
  const Nanos now = poller_.now();
  if (now < next_warning_) {
    ++unsaid_;
    return;
  }
  next_warning_ = now + kWarnEvery;
  say(LogLevel::warning,
      unsaid_ == 0 ? text : text + " (" + std::to_string(unsaid_) + " more connections ended meanwhile)");
  unsaid_ = 0;
}

SocketId FabricImpl::socket_of(ConKey key) const noexcept {
  const Connection* const one = find(key);
  return one == nullptr ? kNoSocket : one->socket.get();
}

void FabricImpl::report(const FabricEvent& event, std::string bytes) {
  pending_.add(event, std::move(bytes));
  wake();
}

void FabricImpl::invalidate(ConKey key, RemoteKeyId id, std::uint64_t cookie) {
  report(event::ChunkInvalidated{key, cookie, memory_.invalidate(id)});
}

void FabricImpl::key_died(std::uint32_t key) noexcept {
  for (std::size_t i = 0; i < mid_.size();) {
    Connection& one = *mid_[i];
    if (one.mid_message()) {
      one.key_died(key);
      ++i;
    } else {
      one.in_mid = false;
      mid_[i] = mid_.back();
      mid_.pop_back();
    }
  }
}

std::string FabricImpl::describe(ConKey key) const {
  const Connection* const one = find(key);
  return one == nullptr ? "? > ?" : one->description();
}

std::string FabricImpl::describe_request(std::uint32_t request) const {
  const HalfOpen* const one = admission_.find(request);
  return one == nullptr ? "" : one->client + " > " + one->server;
}

std::string FabricImpl::identity_of_request(std::uint32_t request) const {
  const HalfOpen* const one = admission_.find(request);
  return one == nullptr ? "" : transport_->peer(one->socket.get()).name;
}

void FabricImpl::post_receive(ConKey key, unsigned count, std::uint32_t bytes_each) noexcept {
  Connection* const one = find(key);
  if (one == nullptr || one->stage() == Connection::Stage::lost) return;
  one->post_receives(count, bytes_each);
  if (one->has_more()) mark_ready(*one);
}

std::size_t FabricImpl::post(std::span<const WorkRequest> work) noexcept {
  for (std::size_t i = 0; i < work.size(); ++i) {
    Connection* const one = find(work[i].key);
    if (one == nullptr || one->stage() == Connection::Stage::lost || one->failing) continue;
    if (one->needs_room() && !make_room(*one)) {
      // Returning a partial count here would delay the requests of all other connections.
      give_up(*one);
      continue;
    }
    if (!one->post(work[i])) return i;
    // Data that the transport does not accept now is sent when the socket becomes writable.
    if (!one->blocked()) mark_dirty(*one);
  }
  return work.size();
}

}  // namespace rtrs::tcp
