#include "backends/platform/tls/ssl_channel.hpp"

#include <linux/tls.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "backends/platform/tls/identity.hpp"

namespace rtrs::tls {
namespace {

// Minimum number of received bytes between two key updates of a peer. This side updates after 64 GiB.
constexpr std::uint64_t kKeyUpdateEvery = std::uint64_t{16} << 20;
// Maximum number of tickets that a server may send per connection.
constexpr unsigned kMaxTickets = 8;
constexpr unsigned char kNewSessionTicket = 4;
constexpr unsigned char kKeyUpdate = 24;
// With kernel encryption, OpenSSL issues these BIO controls before and after a record that is not data. The
// numbers come from a comment in <openssl/bio.h>.
constexpr int kSetRecordType = 74;
constexpr int kClearRecordType = 75;
constexpr int kLevelTls = 282;  // socket option level SOL_TLS

int bio_read(BIO* bio, char* to, int most) {
  BIO_clear_retry_flags(bio);
  const int got = static_cast<SslChannel*>(BIO_get_data(bio))->give(to, most);
  if (got < 0) BIO_set_retry_read(bio);
  return got;
}

int bio_write(BIO* bio, const char* from, int bytes) {
  BIO_clear_retry_flags(bio);
  const int taken = static_cast<SslChannel*>(BIO_get_data(bio))->take(from, bytes);
  if (taken < 0) BIO_set_retry_write(bio);
  return taken;
}

long bio_control(BIO* /*bio*/, int command, long /*number*/, void* /*pointer*/) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

int bio_create(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

int socket_write(BIO* bio, const char* from, int bytes) {
  BIO_clear_retry_flags(bio);
  const int taken = static_cast<SslChannel*>(BIO_get_data(bio))->write(from, bytes);
  if (taken < 0 && errno == EAGAIN) BIO_set_retry_write(bio);
  return taken;
}

// The BIO of OpenSSL below this one passes the keys to the kernel.
long socket_control(BIO* bio, int command, long number, void* pointer) {
  SslChannel& channel = *static_cast<SslChannel*>(BIO_get_data(bio));
  switch (command) {
    case kSetRecordType:
      channel.set_record_type(static_cast<unsigned char>(number));
      return 0;
    case kClearRecordType:
      channel.set_record_type(0);
      return 0;
    case BIO_CTRL_FLUSH:
      return 1;
    default:
      return BIO_next(bio) == nullptr ? 0 : BIO_ctrl(BIO_next(bio), command, number, pointer);
  }
}

const BIO_METHOD* make_method(int type, int (*write)(BIO*, const char*, int),
                              long (*control)(BIO*, int, long, void*)) {
  BIO_METHOD* const one = BIO_meth_new(BIO_get_new_index() | type, "urtrs");
  if (one == nullptr) return one;
  BIO_meth_set_read(one, bio_read);
  BIO_meth_set_write(one, write);
  BIO_meth_set_ctrl(one, control);
  BIO_meth_set_create(one, bio_create);
  return one;
}

Owned<BIO> bio_of(const BIO_METHOD* method, SslChannel* channel) {
  Owned<BIO> bio(method == nullptr ? nullptr : BIO_new(method));
  if (bio != nullptr) BIO_set_data(bio.get(), channel);
  return bio;
}

// BIO methods live as long as the process and are never freed.
Owned<BIO> bio_of(SslChannel* channel) {
  static const BIO_METHOD* const made = make_method(BIO_TYPE_SOURCE_SINK, bio_write, bio_control);
  return bio_of(made, channel);
}

// Makes a BIO in front of OpenSSL's socket BIO, whose write would raise SIGPIPE if the peer has disconnected.
Owned<BIO> socket_bio_of(SslChannel* channel, int socket) {
  static const BIO_METHOD* const made = make_method(BIO_TYPE_FILTER, socket_write, socket_control);
  Owned<BIO> front = bio_of(made, channel);
  Owned<BIO> below(front == nullptr ? nullptr : BIO_new_socket(socket, BIO_NOCLOSE));
  if (below == nullptr) return nullptr;
  BIO_push(front.get(), below.release());
  return front;
}

}  // namespace

SslChannel::SslChannel(std::shared_ptr<const SslContext> context, Side side, int socket,
                       SealedBuffers& buffers)
    : context_(std::move(context)),
      side_(side),
      socket_(context_->credentials().kernel ? socket : -1),
      buffers_(buffers) {}

SslChannel::~SslChannel() {
  // OpenSSL treats a session that did not end with an alert as not resumable, unless it is marked as shut
  // down.
  if (established_) SSL_set_shutdown(ssl_.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  if (out_ != nullptr) buffers_.give_back(std::move(out_));
}

bool SslChannel::start(const std::string& server) {
  ssl_.reset(SSL_new(context_->of(side_)));
  Owned<BIO> in = bio_of(this);
  Owned<BIO> out = socket_ < 0 ? bio_of(this) : socket_bio_of(this, socket_);
  if (ssl_ == nullptr || in == nullptr || out == nullptr || SSL_set_app_data(ssl_.get(), this) != 1)
    return false;
  SSL_set0_rbio(ssl_.get(), in.release());
  SSL_set0_wbio(ssl_.get(), out.release());
  if (side_ == Side::server) {
    SSL_set_accept_state(ssl_.get());
    return true;
  }
  SSL_set_connect_state(ssl_.get());
  const std::string& other = context_->credentials().server_name;
  const std::string& name = other.empty() ? server : other;
  server_ = name + '\n' + server;
  // An IP address is compared with the addresses of the certificate, a host name with its names.
  if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl_.get()), name.c_str()) != 1) {
    ERR_clear_error();
    SSL_set_hostflags(ssl_.get(), X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (SSL_set1_host(ssl_.get(), name.c_str()) != 1 ||
        SSL_set_tlsext_host_name(ssl_.get(), name.c_str()) != 1)
      return false;
  }
  const Owned<SSL_SESSION> session = own_key() == nullptr ? context_->sessions().take(server_) : nullptr;
  return session == nullptr || SSL_set_session(ssl_.get(), session.get()) == 1;
}

int SslChannel::give(char* to, int most) noexcept {
  // After the peer was rejected, returns no input, because OpenSSL would process it.
  if (in_.empty() || !refusal_.empty()) return -1;
  const std::size_t bytes = std::min(in_.size(), static_cast<std::size_t>(most));
  std::memcpy(to, in_.data(), bytes);
  in_ = in_.subspan(bytes);
  return static_cast<int>(bytes);
}

int SslChannel::take(const char* from, int bytes) noexcept {
  const auto size = static_cast<std::size_t>(bytes);
  if (out_ == nullptr) {
    try {
      out_ = buffers_.take();
    } catch (const std::bad_alloc&) {
      return -1;
    }
  }
  if (size > room()) return -1;
  std::memcpy(out_.get() + end_, from, size);
  end_ += size;
  return bytes;
}

int SslChannel::write(const char* from, int bytes) noexcept {
  iovec piece{const_cast<char*>(from), static_cast<std::size_t>(bytes)};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(1)> control{};
  if (record_type_ != 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const type = CMSG_FIRSTHDR(&message);
    type->cmsg_level = kLevelTls;
    type->cmsg_type = TLS_SET_RECORD_TYPE;
    type->cmsg_len = CMSG_LEN(1);
    *CMSG_DATA(type) = record_type_;
  }
  return static_cast<int>(::sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT));
}

std::span<const std::byte> SslChannel::output() const noexcept {
  return {out_.get() + begin_, end_ - begin_};
}

void SslChannel::sent(std::size_t bytes) noexcept {
  begin_ += bytes;
  if (begin_ != end_ || out_ == nullptr) return;
  begin_ = end_ = 0;
  buffers_.give_back(std::move(out_));
}

void SslChannel::note_message(std::span<const unsigned char> message) {
  if (message.empty() || !established_) return;
  if (message[0] == kNewSessionTicket && ++tickets_ > kMaxTickets) refusal_ = "too many session tickets";
  if (message[0] != kKeyUpdate) return;
  if (received_ < next_key_update_) refusal_ = "it changes its key too often";
  next_key_update_ = received_ + kKeyUpdateEvery;
  // This side cannot update its key on request, because the kernel holds the key.
  if (in_kernel_ && message.size() > 4 && message[4] == 1)
    refusal_ = "it requests a key update, but the kernel has the key";
}

Channel::Opened SslChannel::open(std::span<const std::byte> sealed, std::span<std::byte> plain) {
  if (failed_) return {.bytes = 0, .state = State::failed};
  received_ += sealed.size();
  if (!established_) {
    handshake_bytes_ += sealed.size();
    if (handshake_bytes_ > kMaxHandshakeBytes + kSealedBytes)
      return fail("too much data before the end of the handshake");
  }
  in_ = sealed;
  Opened opened;
  ERR_clear_error();
  for (;;) {
    std::size_t got = 0;
    const int ok = SSL_read_ex(ssl_.get(), plain.data() + opened.bytes, plain.size() - opened.bytes, &got);
    const int error = ok == 1 ? SSL_ERROR_NONE : SSL_get_error(ssl_.get(), ok);
    if (!refusal_.empty()) return fail(std::exchange(refusal_, {}));
    if (!established_ && SSL_is_init_finished(ssl_.get()) == 1 && error != SSL_ERROR_SSL && !establish())
      return {.bytes = 0, .state = State::failed};
    opened.bytes += got;
    if (error == SSL_ERROR_WANT_READ) break;
    if (error == SSL_ERROR_ZERO_RETURN) {
      opened.state = State::closed;
      break;
    }
    if (error != SSL_ERROR_NONE) {
      const Opened failed = fail(error);
      // Data that precedes the error is valid.
      return {.bytes = opened.bytes, .state = failed.state};
    }
    if (in_.empty() && SSL_pending(ssl_.get()) == 0) break;
  }
  in_ = {};
  return opened;
}

bool SslChannel::establish() {
  SSL* const ssl = ssl_.get();
  const SSL_SESSION* const session = SSL_get0_session(ssl);
  void* data = nullptr;
  std::size_t size = 0;
  X509* const certificate = SSL_get0_peer_certificate(ssl);
  const bool by_key = SSL_session_reused(ssl) == 1 &&
                      SSL_SESSION_get0_ticket_appdata(const_cast<SSL_SESSION*>(session), &data, &size) == 1 &&
                      size != 0;
  if (by_key) {
    identity_.assign(static_cast<const char*>(data), size);
  } else if (certificate != nullptr) {
    identity_ = common_name(certificate);
    resumed_ = SSL_session_reused(ssl) == 1;
    // A ticket proves an earlier certificate, which may have expired since.
    if (resumed_ && X509_cmp_current_time(X509_get0_notAfter(certificate)) <= 0) {
      fail("its certificate has expired; it is that of " + shown_identity(identity_));
      return false;
    }
  }
  const bool asked = side_ == Side::server || own_key() != nullptr;
  if (asked && !is_identity(identity_)) {
    fail(side_ == Side::server ? "it presents no identity" : "the server does not use the key");
    return false;
  }
  established_ = true;
  if (socket_ < 0) return true;
  in_kernel_ = BIO_get_ktls_send(SSL_get_wbio(ssl));
  if (in_kernel_) return true;
  Owned<BIO> out = bio_of(this);
  if (out == nullptr) {
    fail("no memory");
    return false;
  }
  SSL_set0_wbio(ssl, out.release());
  return true;
}

bool SslChannel::seal_record(const std::byte* from, std::size_t bytes) noexcept {
  std::size_t taken = 0;
  if (SSL_write_ex(ssl_.get(), from, bytes, &taken) == 1 && taken == bytes) {
    ++records_;
    return true;
  }
  fail("cannot seal: " + openssl_text());
  return false;
}

std::size_t SslChannel::seal(std::span<const std::span<const std::byte>> parts, std::size_t skip) noexcept {
  constexpr std::size_t kRoom = 2 * kRecordOverhead;  // room for a key update before the data
  std::array<std::byte, kRecordBytes> gathered;
  std::size_t total = 0;
  ERR_clear_error();
  while (!failed_ && !parts.empty() && room() >= kRecordBytes + kRoom) {
    if (records_ >= context_->credentials().records_per_key) {
      if (SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) {
        fail("cannot install a new key: " + openssl_text());
        break;
      }
      records_ = 0;
    }
    const std::span<const std::byte> first = parts.front().subspan(skip);
    if (first.size() >= kRecordBytes) {
      if (!seal_record(first.data(), kRecordBytes)) break;
      total += kRecordBytes;
      skip += kRecordBytes;
      if (skip == parts.front().size()) {
        parts = parts.subspan(1);
        skip = 0;
      }
      continue;
    }
    std::size_t bytes = 0;
    while (!parts.empty() && bytes != gathered.size()) {
      const std::span<const std::byte> next = parts.front().subspan(skip);
      const std::size_t some = std::min(next.size(), gathered.size() - bytes);
      if (some != 0) std::memcpy(gathered.data() + bytes, next.data(), some);
      bytes += some;
      skip += some;
      if (skip != parts.front().size()) break;
      parts = parts.subspan(1);
      skip = 0;
    }
    if (bytes == 0) continue;
    if (!seal_record(gathered.data(), bytes)) break;
    total += bytes;
  }
  return total;
}

void SslChannel::close() noexcept {
  if (failed_ || !established_) return;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
}

}  // namespace rtrs::tls
