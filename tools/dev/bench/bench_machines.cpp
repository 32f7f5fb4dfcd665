// Measures the state machines alone: one request passes through a client session and a server session,
// without a fabric and without buffers. The results show the protocol's share of the cost of an IO, the
// additional cost of recording a trace, and the speed at which such a trace is replayed.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "core/proto/client_session.hpp"
#include "core/proto/server_session.hpp"
#include "core/record/recorder.hpp"
#include "core/wire/messages.hpp"
#include "tools/lib/trace/replay/replay.hpp"
#include "tools/lib/trace/replay/replay_machines.hpp"

namespace {

using namespace rtrs;

constexpr std::uint16_t kCons = 2;
constexpr InstanceId kClient = 0;
constexpr InstanceId kServer = 1;

enum Recording : int { off, ring, file };

std::string file_name() {
  const char* folder = std::getenv("TMPDIR");
  return std::string(folder != nullptr ? folder : "/tmp") + "/urtrs-bench-machines.rtrc";
}

ClientConfig client_config() {
  ClientConfig config;
  config.con_num = kCons;
  return config;
}

// Connects a client machine directly to a server machine: each message that one of them posts is passed to
// the other.
class Machines {
 public:
  Machines(unsigned paths, int recording) : client_(client_config()), server_(ServerConfig{}, 0) {
    if (recording != off) begin(recording);
    for (std::uint16_t path = 0; path < paths; ++path) connect(path);
  }
  ~Machines() {
    if (recorder_) recorder_->close_file();
  }
  Machines(const Machines&) = delete;
  Machines& operator=(const Machines&) = delete;
  bool file_failed() const { return recorder_ && recorder_->file_failed(); }
  bool one(Direction direction) {
    done_ = false;
    now_ += 100;
    to_client(Submitted{now_, client_.next_permit(), direction, false, false, 0, 4096, 32});
    return done_;
  }

 private:
  // Starts recording in the same way as the drivers do.
  void begin(int recording) {
    recorder_.emplace();
    if (recording == file)
      recorder_->open_file(file_name().c_str(), {"bench_machines", "both", "none", 0, {}});
    recorder_->begin(now_, kClient, MachineKind::client_session, client_config());
    recorder_->watch(kClient, MachineKind::client_session, client_);
    recorder_->begin(now_, kServer, MachineKind::server_session, ServerConfig{}, 0);
    recorder_->watch(kServer, MachineKind::server_session, server_);
  }

  template <class Actions, class Machine, class Input, class Perform>
  void step(Machine& machine, InstanceId instance, const Input& input, Perform perform) {
    if (recorder_) recorder_->input(instance, input);
    Actions actions;
    machine.on(input, actions);
    if (recorder_) recorder_->actions(instance, actions);
    for (const auto& action : actions) perform(action);
  }
  template <class Input>
  void to_client(const Input& input) {
    step<ClientActions>(client_, kClient, input,
                        [this](const ClientAction& action) { this->of_client(action); });
  }
  template <class Input>
  void to_server(const Input& input) {
    step<ServerActions>(server_, kServer, input,
                        [this](const ServerAction& action) { this->of_server(action); });
  }

  void of_client(const ClientAction& action) {
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
  void of_server(const ServerAction& action) {
    if (const auto* deliver = std::get_if<Deliver>(&action)) {
      to_server(Responded{now_, deliver->chunk, deliver->serial, 0});
    } else if (const auto* post = std::get_if<PostResponse>(&action)) {
      if (post->cookie != 0) to_server(SendDone{now_, post->key, post->cookie});
      to_client(ImmReceived{now_, post->key, post->imm});
    }
  }

  // Client and server must use the same connection keys. The client numbers the first attempt of a path as
  // epoch 1, so the server uses epoch 1, too.
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
      request.extensions = wire::Extensions::fence | wire::Extensions::generation;
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
  {
    Machines machines(static_cast<unsigned>(state.range(0)), static_cast<int>(state.range(1)));
    for (auto _ : state) {
      if (machines.one(direction)) continue;
      state.SkipWithError("a request was not answered");
      break;
    }
    if (machines.file_failed()) state.SkipWithError("the file cannot be written");
  }
  std::remove(file_name().c_str());
  state.SetItemsProcessed(state.iterations());
}

// Unlike the other benchmarks, this one measures records per second, not requests per second.
void replay_requests(benchmark::State& state) {
  {
    Machines machines(1, file);
    for (unsigned i = 0; i < 100'000; ++i) machines.one(i % 2 == 0 ? Direction::write : Direction::read);
  }
  std::ostringstream bytes;
  bytes << std::ifstream(file_name(), std::ios::binary).rdbuf();
  std::remove(file_name().c_str());
  const std::string trace = bytes.str();
  std::uint64_t records = 0;
  for (auto _ : state) {
    trace::MemorySource source(trace);
    trace::ReplayOptions options;
    options.blank = trace::blank_core_machines();
    const trace::ReplayResult result = trace::replay(source, trace::core_machines(), options);
    if (result.verdict != trace::Verdict::identical) state.SkipWithError("the replay diverged");
    records += result.records;
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(records));
  state.counters["B/record"] = static_cast<double>(trace.size()) * static_cast<double>(state.iterations()) /
                               static_cast<double>(records);
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
    for (const int recording : {off, ring, file}) benchmark->Args({paths, recording});
}

}  // namespace

BENCHMARK(write_request)->Apply(shapes);
BENCHMARK(read_request)->Apply(shapes);
BENCHMARK(replay_requests)->Unit(benchmark::kMillisecond);
