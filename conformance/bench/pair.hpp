// A connected client and server on the loop fabric. The application at each side does nothing.
#pragma once
#include <array>
#include <string>
#include <vector>

#include "conformance/bench/loop_fabric.hpp"
#include "core/driver/client.hpp"
#include "core/driver/server.hpp"
#include "core/record/recorder.hpp"

namespace rtrs::bench {

class Pair {
 public:
  Pair(unsigned paths, bool recorded)
      : recorders_{Recorder(1024), Recorder(1024)},
        server_(server_config(), recorded ? &recorders_[0] : nullptr),
        client_(client_options(paths), recorded ? &recorders_[1] : nullptr) {
    LoopFabric::join(near_, far_);
    server_.listen(far_, now_, {});
    client_.open(near_, now_);
    for (unsigned round = 0; round < 1000; ++round) turn();
    region_ = *near_.register_memory(data_);
  }
  bool ready(unsigned paths) const {
    unsigned up = 0;
    for (const PathStatus& path : client_.paths()) up += path.state == PathState::connected ? 1 : 0;
    return up == paths;
  }
  Client& client() { return client_; }
  Server& server() { return server_; }
  std::size_t header_bytes() const { return header_.size(); }

  // Runs one request from submit to completion. Returns false on failure.
  bool one(Direction direction, std::size_t bytes) {
    IoRequest request;
    request.direction = direction;
    request.user_header = header_;
    request.data = std::span(data_).first(bytes);
    request.region = region_.id;
    request.affinity = affinity_++;
    if (client_.submit(near_, ++now_, request) != Errc::ok) return false;
    for (unsigned round = 0; round < 4; ++round)
      if (turn()) return true;
    return false;
  }

  // Runs `count` requests that the server answers together. Returns how often the server called post() for
  // this; 0 on failure.
  unsigned many(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      IoRequest request;
      request.direction = Direction::write;
      request.user_header = header_;
      request.data = data_;
      request.region = region_.id;
      if (client_.submit(near_, ++now_, request) != Errc::ok) return 0;
    }
    std::array<ServerEvent, 64> events;
    if (server_.poll(far_, now_, events) != count) return 0;
    const unsigned before = far_.posts();
    {
      const Server::ResponseBatch answers(server_, far_);
      for (unsigned i = 0; i < count; ++i) server_.respond(far_, now_, events[i].id, 0);
      if (far_.posts() != before) return 0;
    }
    const unsigned posts = far_.posts() - before;
    std::array<IoCompletion, 64> done;
    return client_.poll(near_, now_, done) == count ? posts : 0;
  }

 private:
  static ServerConfig server_config() {
    ServerConfig config;
    config.queue_depth = 128;
    config.imm_consumes_receive = false;
    config.send_invalidate = false;
    return config;
  }
  static ClientOptions client_options(unsigned paths) {
    ClientOptions options;
    options.protocol.imm_consumes_receive = false;
    options.session_name = "bench";
    options.session_uuid.bytes[0] = 1;
    for (unsigned path = 0; path < kMaxPaths; ++path) {
      wire::Uuid uuid{};
      uuid.bytes[1] = static_cast<std::uint8_t>(path + 1);
      options.path_uuids.push_back(uuid);
    }
    for (unsigned path = 0; path < paths; ++path)
      options.paths.push_back({"", "loop", static_cast<std::uint16_t>(path + 1)});
    return options;
  }
  bool turn() {
    std::array<ServerEvent, 16> events;
    const std::size_t count = server_.poll(far_, now_, events);
    for (std::size_t at = 0; at < count; ++at)
      if (events[at].kind == ServerEvent::Kind::request) server_.respond(far_, now_, events[at].id, 0);
    std::array<IoCompletion, 16> done;
    return client_.poll(near_, now_, done) > 0 && done[0].result == Errc::ok;
  }

  Nanos now_ = 1;
  LoopFabric near_, far_;
  std::array<Recorder, 2> recorders_;
  Server server_;
  Client client_;
  std::array<std::byte, 24> header_{};
  std::vector<std::byte> data_ = std::vector<std::byte>(4096);
  Region region_;
  std::uint16_t affinity_ = 0;
};

}  // namespace rtrs::bench
