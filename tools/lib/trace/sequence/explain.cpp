#include "tools/lib/trace/sequence/explain.hpp"

#include <cstring>
#include <tuple>

#include "core/wire/imm.hpp"

namespace rtrs::tools::sequence {

const char* to_string(Group group) noexcept {
  constexpr const char* kNames[] = {"io",    "connect", "heartbeat", "fence",
                                    "state", "local",   "wire",      "control"};
  static_assert(std::size(kNames) == kGroups);
  return kNames[static_cast<unsigned>(group)];
}

const char* to_string(Shape shape) noexcept {
  constexpr const char* kNames[] = {"point", "send", "receive", "submit", "complete", "deliver", "answer"};
  return kNames[static_cast<unsigned>(shape)];
}

const char* to_string(Tone tone) noexcept {
  constexpr const char* kNames[] = {"normal", "good", "warning", "bad"};
  return kNames[static_cast<unsigned>(tone)];
}

Index Story::lane_of(const Step& step) const noexcept {
  const Machine& machine = machines[static_cast<std::size_t>(step.machine)];
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    const Lane& one = lanes[lane];
    if (machine.side == Side::server) {
      if (one.kind == Lane::Kind::server && one.owner == machine.file) return static_cast<Index>(lane);
    } else if (one.kind == Lane::Kind::client) {
      const ClientView& client = clients[static_cast<std::size_t>(one.owner)];
      if (client.file == machine.file && client.instance == machine.instance) return static_cast<Index>(lane);
    }
  }
  return kNone;
}

bool Story::has(Side side) const noexcept {
  for (const TraceFile& file : files) {
    if (side == Side::client ? file.has_client : file.has_server) return true;
  }
  return false;
}

const TraceFile& Story::clock_file() const noexcept {
  for (const TraceFile& file : files)
    if (file.times.has_wall()) return file;
  return files.front();
}

std::string errno_words(std::uint64_t number) {
  if (number == 0) return "ok";
  const char* name = number < 4096 ? ::strerrorname_np(static_cast<int>(number)) : nullptr;
  return "errno " + std::to_string(number) + (name != nullptr ? " (" + std::string(name) + ')' : "");
}

std::string size_words(std::uint64_t bytes) {
  if (bytes >= 65536 && bytes % 1024 == 0) return std::to_string(bytes / 1024) + " KiB";
  return std::to_string(bytes) + " B";
}

Explainer::Explainer(Story& story, StepBuffer& steps, Index file, bool lean)
    : story_(story), steps_(steps), file_(file), lean_(lean) {}

Side Explainer::guess_side(const Fields& record) const {
  static constexpr std::string_view kServers[] = {
      "ConnectRequested", "InfoRequested", "RequestArrived", "ChunkInvalidated", "FenceRequested",
      "Responded",        "PostResponse",  "Deliver",        "InvalidateChunk",  "Accept",
      "Reject",           "SendInfoRsp",   "SendFenceRsp"};
  for (const std::string_view name : kServers) {
    if (record.event() == name) return Side::server;
  }
  return story_.files[static_cast<std::size_t>(file_)].role == "server" ? Side::server : Side::client;
}

Explainer::Known& Explainer::begin(const Fields& record, Side side, bool registry) {
  const std::uint16_t instance = record.record().instance;
  const auto before = by_instance_.find(instance);
  Machine machine;
  machine.file = file_;
  machine.instance = instance;
  machine.side = side;
  machine.registry = registry;
  if (before != by_instance_.end()) {
    const Machine& last = story_.machines[static_cast<std::size_t>(before->second.machine)];
    machine.start = static_cast<std::uint16_t>(last.start + 1);
  }
  TraceFile& file = story_.files[static_cast<std::size_t>(file_)];
  (side == Side::client ? file.has_client : file.has_server) = true;
  story_.machines.push_back(machine);
  Known& known = by_instance_[instance] = Known{};
  known.machine = static_cast<Index>(story_.machines.size() - 1);
  return known;
}

Explainer::Known& Explainer::known(const Fields& record) {
  const auto found = by_instance_.find(record.record().instance);
  if (found != by_instance_.end()) return found->second;
  const std::string_view name = record.event();
  const bool registry = name == "SessionSought" || name == "NameClaimed" || name == "SessionDropped" ||
                        name == "AdmitSession" || name == "AnswerName" || name == "CrowdOut";
  Known& guessed = begin(record, registry ? Side::server : guess_side(record), registry);
  const auto ahead = ahead_.find(record.record().instance);
  if (ahead != ahead_.end()) {
    Machine& machine = story_.machines[static_cast<std::size_t>(guessed.machine)];
    std::tie(machine.depth, machine.generations) = ahead->second;
  }
  return guessed;
}

void Explainer::attach(const Fields& record, Step& step) {
  if (record.has_key()) step.connection = connection_at(record.key());
}

Index Explainer::connection_at(const ConKey& key) {
  const auto [at, fresh] = now_->connections.try_emplace(key, kNone);
  if (fresh) {
    at->second = static_cast<Index>(story_.connections.size());
    Connection connection;
    connection.machine = now_->machine;
    connection.key = key;
    connection.attempt = static_cast<std::uint16_t>(key.epoch);  // on a client, the epoch equals the attempt
    story_.connections.push_back(connection);
  }
  return at->second;
}

Step Explainer::step_of(const Fields& record) const {
  Step step;
  step.file = file_;
  step.record = record.record().seq;
  step.time = record.record().time;
  step.event = record.event();
  if (!lean_) step.fields = record.lines();
  step.title = step.event;
  step.group = Group::local;
  return step;
}

void Explainer::add(const Fields& record) {
  if (is_of_devices(record)) return add_of_devices(record);
  Step step = step_of(record);
  const bool begins = record.event() == "BeginClient" || record.event() == "BeginServerSession" ||
                      record.event() == "BeginServerRegistry";
  now_ = begins ? &begin(record, record.event() == "BeginClient" ? Side::client : Side::server,
                         record.event() == "BeginServerRegistry")
                : &known(record);
  if (begins) machine().begun = true;
  step.machine = now_->machine;
  attach(record, step);
  const auto handler = handlers().find(record.event());
  if (handler != handlers().end()) (this->*handler->second)(record, step);
  steps_.add(std::move(step));
}

void Explainer::send(Step& step, std::uint64_t signature) {
  step.shape = Shape::send;
  step.signature = signature;
}

void Explainer::receive(Step& step, std::uint64_t signature) {
  step.shape = Shape::receive;
  step.signature = signature;
}

std::string Explainer::chunk_or_permit(std::uint64_t number) {
  return (on_server() ? "chunk " : "permit ") + std::to_string(number);
}

std::string Explainer::imm_words(std::uint32_t imm, Step& step) {
  switch (wire::imm_type(imm)) {
    case wire::ImmType::hb_msg:
      step.group = Group::heartbeat;
      return "HB";
    case wire::ImmType::hb_ack:
      step.group = Group::heartbeat;
      return "HB ack";
    case wire::ImmType::io_rsp:
    case wire::ImmType::io_rsp_w_inv: {
      step.group = Group::io;
      const wire::IoRspImm response = wire::decode_io_rsp(imm);
      const std::uint32_t depth = machine().depth;
      const std::uint32_t id = machine().generations && depth != 0
                                   ? wire::split_msg_id(depth, response.msg_id).buf_id
                                   : response.msg_id;
      if (response.error != 0) step.tone = Tone::bad;
      return "IO_RSP " + errno_words(static_cast<std::uint64_t>(response.error)) + ", " +
             chunk_or_permit(id) + (response.invalidated ? ", key invalidated" : "");
    }
    case wire::ImmType::io_req:
      break;
  }
  step.tone = Tone::warning;
  return "immediate " + std::to_string(imm);
}

const std::map<std::string_view, Explainer::Handler>& Explainer::handlers() {
  using E = Explainer;
  static const std::map<std::string_view, Handler> table = {
      {"BeginClient", &E::on_begin_client},
      {"BeginServerSession", &E::on_begin_server},
      {"BeginServerRegistry", &E::on_begin_server},
      {"End", &E::on_end},
      {"Connect", &E::on_connect},
      {"AddressesFound", &E::on_addresses_found},
      {"Connected", &E::on_connected},
      {"ConnectFailed", &E::on_connect_failed},
      {"ConnectRequested", &E::on_connect_requested},
      {"Accept", &E::on_accept},
      {"Reject", &E::on_reject},
      {"SendInfoReq", &E::on_info},
      {"InfoRequested", &E::on_info},
      {"SendInfoRsp", &E::on_info},
      {"InfoAccepted", &E::on_info},
      {"SendFenceReq", &E::on_fence},
      {"FenceRequested", &E::on_fence},
      {"SendFenceRsp", &E::on_fence},
      {"FenceAnswered", &E::on_fence},
      {"Disconnect", &E::on_disconnect},
      {"ConnectionLost", &E::on_lost},
      {"ConnectionClosed", &E::on_closed},
      {"PathChanged", &E::on_path_changed},
      {"LinkChanged", &E::on_link_changed},
      {"EndSession", &E::on_end_session},
      {"PathAdded", &E::on_operator},
      {"PathRemoveRequested", &E::on_operator},
      {"PathDisconnectRequested", &E::on_operator},
      {"PathReconnectRequested", &E::on_operator},
      {"PolicyChanged", &E::on_operator},
      {"AttemptsChanged", &E::on_operator},
      {"CloseRequested", &E::on_operator},
      {"Submitted", &E::on_submitted},
      {"PostRequest", &E::on_post_request},
      {"RequestArrived", &E::on_arrived},
      {"Deliver", &E::on_deliver},
      {"Responded", &E::on_responded},
      {"PostResponse", &E::on_post_response},
      {"PostImm", &E::on_post_imm},
      {"ProbeDelivery", &E::on_probe_delivery},
      {"ImmReceived", &E::on_imm},
      {"KeyedResponseReceived", &E::on_imm},
      {"Complete", &E::on_complete},
      {"FailedOver", &E::on_failed_over},
      {"KeyInvalidated", &E::on_key_invalidated},
      {"PeerBroke", &E::on_peer_broke},
      {"WireSent", &E::on_wire},
      {"WireReceived", &E::on_wire},
      {"WireCm", &E::on_wire_cm},
  };
  return table;
}

}  // namespace rtrs::tools::sequence
