// The state machines alone: one request through a client session and a server session, every input recorded,
// no fabric, no buffers. This is the protocol's own share of an IO.
#include <benchmark/benchmark.h>

#include <optional>

#include "core/proto/client_session.hpp"
#include "core/proto/server_session.hpp"
#include "core/trace/recorder.hpp"
#include "core/wire/messages.hpp"

namespace {

using namespace rtrs;

constexpr std::uint16_t kCons = 2;
constexpr InstanceId kClient = 0;
constexpr InstanceId kServer = 1;

ClientConfig client_config() {
  ClientConfig config;
  config.con_num = kCons;
  return config;
}

// Both machines joined back to back: what one posts, the other is fed.
class Machines {
 public:
  Machines(unsigned paths, bool record) : client_(client_config()), server_(ServerConfig{}, 0) {
    if (record) recorder_.emplace();
    for (std::uint16_t path = 0; path < paths; ++path) connect(path);
  }
  bool one(Direction direction) {
    done_ = false;
    now_ += 100;
    to_client(Submitted{now_, client_.next_permit(), direction, false, false, 0, 4096, 32});
    return done_;
  }

 private:
  template <class Machine, class Input, class Perform>
  void step(Machine& machine, InstanceId instance, const Input& input, Perform perform) {
    if (recorder_) recorder_->input(instance, input);
    ActionList actions;
    machine.on(input, actions);
    if (recorder_) recorder_->actions(instance, actions);
    for (const Action& action : actions) perform(action);
  }
  template <class Input>
  void to_client(const Input& input) {
    step(client_, kClient, input, [this](const Action& action) { this->of_client(action); });
  }
  template <class Input>
  void to_server(const Input& input) {
    step(server_, kServer, input, [this](const Action& action) { this->of_server(action); });
  }

  void of_client(const Action& action) {
    if (const auto* post = std::get_if<PostRequest>(&action)) {
      if (post->cookie != 0) to_client(SendDone{now_, post->key, post->cookie});
      const Permit& permit = client_.permit(post->permit);
      to_server(RequestArrived{now_, post->key, permit.data_len, permit.usr_len, post->permit,
                               post->generation, permit.direction, false,
                               permit.direction == Direction::read});
    } else if (const auto* complete = std::get_if<Complete>(&action)) {
      done_ = complete->result == Errc::ok;
    }
  }
  void of_server(const Action& action) {
    if (const auto* deliver = std::get_if<Deliver>(&action)) {
      to_server(Responded{now_, deliver->chunk, deliver->serial, 0});
    } else if (const auto* post = std::get_if<PostResponse>(&action)) {
      if (post->cookie != 0) to_server(SendDone{now_, post->key, post->cookie});
      to_client(ImmReceived{now_, post->key, post->imm});
    }
  }

  // Both sides use the same keys: a path's first attempt has epoch 1 at the client, and so here at the
  // server.
  void connect(std::uint16_t path) {
    const std::uint32_t flags = wire::kConnRspFence | wire::kConnRspGeneration;
    wire::Uuid uuid;
    uuid.bytes.fill(static_cast<std::uint8_t>(path + 1));
    to_client(PathAdded{now_, path});
    for (std::uint16_t con = 0; con < kCons; ++con) {
      const ConKey key{path, con, 1};
      ConnectRequested request{};
      request.now = now_;
      request.key = key;
      request.address_pair = path;
      request.sess_uuid = uuid;
      request.cid_num = kCons;
      request.recon_cnt = 1;
      request.extensions = 3;
      request.first_conn = true;
      to_server(request);
      to_client(Connected{now_, key, 126976, 4096, flags, 512});
    }
    to_server(InfoRequested{now_, {path, 0, 1}, 0});
    to_client(InfoAccepted{now_, {path, 0, 1}});
  }

  ClientSession client_;
  ServerSession server_;
  std::optional<Recorder> recorder_;
  Nanos now_ = 1;
  bool done_ = false;
};

void one_request(benchmark::State& state, Direction direction) {
  Machines machines(static_cast<unsigned>(state.range(0)), state.range(1) != 0);
  for (auto _ : state) {
    if (machines.one(direction)) continue;
    state.SkipWithError("a request was not answered");
    break;
  }
  state.SetItemsProcessed(state.iterations());
}
void write_request(benchmark::State& state) {
  one_request(state, Direction::write);
}
void read_request(benchmark::State& state) {
  one_request(state, Direction::read);
}
void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"paths", "recorder"});
  for (const int paths : {1, 4})
    for (const int recorder : {0, 1}) benchmark->Args({paths, recorder});
}

}  // namespace

BENCHMARK(write_request)->Apply(shapes);
BENCHMARK(read_request)->Apply(shapes);
