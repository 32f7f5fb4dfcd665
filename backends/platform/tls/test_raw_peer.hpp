// A peer that uses OpenSSL directly, for tests of behaviour that a channel never shows.
#pragma once
#include <openssl/err.h>

#include <functional>
#include <stdexcept>
#include <vector>

#include "backends/platform/tls/test_channel.hpp"

namespace rtrs::tls {

inline End end_of(const std::shared_ptr<const Context>& context, Side side, SealedBuffers& buffers) {
  End end;
  end.channel = context->open_channel(side, side == Side::client ? "127.0.0.1" : "", -1, buffers);
  return end;
}

class RawPeer {
 public:
  // `files`: credentials with certificates, or empty. `with` modifies the context before the connection is
  // created.
  RawPeer(Side side, const Credentials& files, const std::function<void(SSL_CTX*)>& with = {})
      : ctx_(SSL_CTX_new(side == Side::client ? TLS_client_method() : TLS_server_method())) {
    if (!files.cert.empty() &&
        (SSL_CTX_use_certificate_chain_file(ctx_.get(), files.cert.c_str()) != 1 ||
         SSL_CTX_use_PrivateKey_file(ctx_.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1))
      throw std::runtime_error(openssl_text());
    if (with) with(ctx_.get());
    ssl_.reset(SSL_new(ctx_.get()));
    SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    side == Side::client ? SSL_set_connect_state(ssl_.get()) : SSL_set_accept_state(ssl_.get());
  }

  SSL* ssl() { return ssl_.get(); }
  ByteVector take() {
    ByteVector taken(BIO_ctrl_pending(SSL_get_wbio(ssl_.get())));
    if (!taken.empty()) BIO_read(SSL_get_wbio(ssl_.get()), taken.data(), static_cast<int>(taken.size()));
    return taken;
  }
  // Runs until neither side sends more, or the channel has failed.
  void exchange_with(End& end) {
    if (SSL_is_server(ssl_.get()) == 1) end.feed({}, piece_);
    for (;;) {
      const ByteVector theirs = end.take();
      if (!theirs.empty())
        BIO_write(SSL_get_rbio(ssl_.get()), theirs.data(), static_cast<int>(theirs.size()));
      std::byte one{};
      std::size_t got = 0;
      SSL_read_ex(ssl_.get(), &one, 1, &got);
      ERR_clear_error();
      const ByteVector ours = take();
      if (ours.empty() || end.failed()) return;
      end.feed(ours, piece_);
    }
  }

 private:
  Owned<SSL_CTX> ctx_;
  Owned<SSL> ssl_;
  std::function<std::size_t()> piece_ = [] { return std::size_t{100'000}; };
};

}  // namespace rtrs::tls
