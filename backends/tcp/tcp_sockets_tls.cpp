// TLS over the sockets of a fabric.
#include <sys/socket.h>

#include <cerrno>
#include <new>

#include "backends/tcp/tcp_sockets.hpp"

namespace rtrs::tcp {
namespace {

constexpr std::size_t kInboxBytes = std::size_t{144} << 10;
// First byte of a TLS hello: the record type of a handshake. The MPA connect request starts with 'M'.
constexpr std::byte kTlsHandshake{0x16};

}  // namespace

void Sockets::set_tls(const TlsOptions& options) {
  if (options.context != nullptr) space_.inbox.resize(kInboxBytes);
  tls_ = options;
  renewal_.reset();
}

void Sockets::renew_tls() {
  if (renewal_ == nullptr) renewal_ = tls::renewal_of(*tls_.context, renewal_log_, destinations_.asks());
  const tls::Renewal::Set renewed = renewal_->look();
  if (renewed == nullptr) return;
  tls_.context = std::static_pointer_cast<const tls::Context>(renewed);
  const std::string warning = tls::warning(*tls_.context);
  if (!warning.empty() && renewal_log_) renewal_log_(true, warning);
}

bool Sockets::seal(SocketId socket, tls::Side side, const std::string& server) noexcept try {
  auto channel = tls_.context->open_channel(side, server, socket, space_.outgoing);
  if (channel == nullptr) return false;
  const auto at = static_cast<std::size_t>(socket);
  if (at >= sealed_.size()) sealed_.resize(at + 1);
  sealed_[at] = std::make_unique<SealedStream>(socket, std::move(channel), space_);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

Transport::Guard Sockets::guard(SocketId socket) const noexcept {
  const SealedStream* const one = sealed(socket);
  if (one == nullptr) return {};
  return {.sealed = true,
          .settled = one->channel().established(),
          .has_output = one->has_output(),
          .memory = tls::kChannelBytes + tls::kSealedBytes};
}

Transport::Recognised Sockets::recognise(SocketId socket) {
  std::byte first{};
  const ssize_t got = ::recv(socket, &first, 1, MSG_DONTWAIT | MSG_PEEK);
  if (got < 0) return {.error = errno == EWOULDBLOCK || errno == EINTR ? EAGAIN : errno, .why = {}};
  if (got == 0) return {.error = ECONNRESET, .why = {}};
  const bool speaks_tls = first == kTlsHandshake;
  if (speaks_tls && tls_.context == nullptr) return {kRefused, "it speaks TLS, which is off here"};
  if (!speaks_tls && tls_.context != nullptr && !tls_.allow_plain)
    return {kRefused, "it does not speak TLS, which is required"};
  if (speaks_tls && !seal(socket, tls::Side::server, {})) return {kRefused, "no memory for TLS"};
  return {};
}

Transport::Moved Sockets::receive_sealed(SealedStream& one, iwarp::MutableBytes place) noexcept {
  const bool settled = one.channel().established();
  try {
    const Moved moved = one.receive(place);
    if (settled || !one.channel().established()) return moved;
    ++counts_.tls_connections;
    counts_.tls_resumed += one.channel().resumed() ? 1U : 0U;
    counts_.tls_in_kernel += one.channel().in_kernel() ? 1U : 0U;
    return moved;
  } catch (const std::bad_alloc&) {
    return {.bytes = 0, .error = ENOMEM};
  }
}

Transport::Peer Sockets::peer(SocketId socket) const {
  const SealedStream* const one = sealed(socket);
  if (one == nullptr || !one->channel().established()) return {};
  const tls::IdentityDigest digest = one->channel().identity_digest();
  return {.identity = {.low = digest[0], .high = digest[1]}, .name = one->channel().identity()};
}

std::string Sockets::describe_guard(SocketId socket) const {
  const SealedStream* const one = sealed(socket);
  return one == nullptr ? "" : one->channel().description();
}

std::string Sockets::refusal(SocketId socket) const {
  const SealedStream* const one = sealed(socket);
  return one == nullptr ? "" : one->channel().error();
}

void Sockets::announce_close(SocketId socket) noexcept {
  if (SealedStream* const one = sealed(socket)) one->announce_close();
}

void Sockets::count(TcpStats& stats) const noexcept {
  stats.tls_connections += counts_.tls_connections;
  stats.tls_resumed += counts_.tls_resumed;
  stats.tls_in_kernel += counts_.tls_in_kernel;
}

}  // namespace rtrs::tcp
