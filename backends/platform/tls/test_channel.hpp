// Two channels and the bytes between them, for tests.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/platform/tls/channel.hpp"
#include "backends/platform/tls/test_credentials.hpp"

namespace rtrs::tls {

using ByteVector = std::vector<std::byte>;

inline ByteVector octets(const std::string& text) {
  const auto* const at = reinterpret_cast<const std::byte*>(text.data());
  return {at, at + text.size()};
}

struct End {
  std::unique_ptr<Channel> channel;
  std::string got;  // decrypted bytes
  Channel::State state = Channel::State::open;

  // Decrypts input in pieces; `piece` returns the length of each.
  void feed(std::span<const std::byte> sealed, const std::function<std::size_t()>& piece) {
    std::vector<std::byte> plain;
    do {
      const std::size_t bytes = std::min(sealed.size(), piece());
      plain.resize(bytes + kRecordBytes);
      const Channel::Opened opened = channel->open(sealed.first(bytes), plain);
      got.append(reinterpret_cast<const char*>(plain.data()), opened.bytes);
      state = opened.state;
      sealed = sealed.subspan(bytes);
    } while (!sealed.empty() && state == Channel::State::open);
  }
  ByteVector take() {
    const auto output = channel->output();
    ByteVector taken(output.begin(), output.end());
    channel->sent(taken.size());
    return taken;
  }
  bool failed() const { return state == Channel::State::failed; }
};

class Talk {
 public:
  Talk(const std::shared_ptr<const Context>& client_context,
       const std::shared_ptr<const Context>& server_context, const std::string& name = "127.0.0.1") {
    client.channel = client_context->open_channel(Side::client, name, -1, buffers);
    server.channel = server_context->open_channel(Side::server, {}, -1, buffers);
  }

  // Passes bytes in both directions until neither side sends more.
  void run() {
    client.feed({}, piece);
    for (bool any = true; any;) {
      any = carry(client, server, to_server);
      any = carry(server, client, to_client) || any;
    }
  }
  bool established() const { return client.channel->established() && server.channel->established(); }
  // Sends all of `text`, in as many rounds as needed.
  void send(End& from, End& to, const std::string& text) {
    const ByteVector plain = octets(text);
    std::size_t done = 0;
    while (done < plain.size() && !to.failed()) {
      const std::span<const std::byte> rest(plain.data() + done, plain.size() - done);
      done += from.channel->seal({&rest, 1}, 0);
      ByteVector unused;
      if (!carry(from, to, unused)) return;
    }
  }

  SealedBuffers buffers;
  End client;
  End server;
  ByteVector to_server;  // everything sent to the server so far
  ByteVector to_client;
  std::function<std::size_t()> piece = [] { return std::size_t{100'000}; };

 private:
  bool carry(End& from, End& to, ByteVector& log) {
    const ByteVector moved = from.take();
    log.insert(log.end(), moved.begin(), moved.end());
    if (moved.empty() || to.failed()) return false;
    to.feed(moved, piece);
    return true;
  }
};

inline std::shared_ptr<const Context> context_of(const Credentials& given) {
  auto context = open_context(given);
  if (!context) throw std::runtime_error(context.error());
  return *context;
}

}  // namespace rtrs::tls
