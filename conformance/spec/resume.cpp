// Begins the specification in the middle of a run.
#include <algorithm>

#include "conformance/spec/checker.hpp"
#include "conformance/spec/immediate.hpp"
#include "conformance/spec/known.hpp"

namespace rtrs::spec {

namespace {

unsigned connected_paths(const KnownSession& known) {
  return static_cast<unsigned>(
      std::count_if(known.paths.begin(), known.paths.end(),
                    [](const KnownPath& path) { return path.state == PathState::connected; }));
}

std::uint32_t flags_of(const KnownPath& path) {
  std::uint32_t flags = path.fresh_keys ? kNewRkeyFlag : 0;
  for (const auto& [extension, flag] : {std::pair(kFenceExtension, kFenceFlag),
                                        {kGenerationExtension, kGenerationFlag},
                                        {kProbeExtension, kProbeFlag},
                                        {kKeysStayExtension, kKeysStayFlag},
                                        {kDataWithAnswerExtension, kDataWithAnswerFlag}})
    if ((path.extensions & extension) != 0) flags |= flag;
  return flags;
}

}  // namespace

Connection::Connection(const Known& known)
    : owes_ack(known.owes_ack),
      was_outstanding(true),
      unanswered(known.unanswered),
      key_(known.key),
      phase_(known.phase),
      began_before_(true),
      outstanding_(known.outstanding),
      unsignalled_(known.unsignalled),
      earlier_(known.outstanding - std::min(known.outstanding, known.unsignalled)) {}

void Heartbeat::resume(Time now, const Settings& settings, const KnownHeartbeat& known) {
  start(now, settings);
  owes_ack_ = known.owes_ack;
  states_.set(State{known.deadline, known.asked, known.missed, known.owes_message, false, false});
}

void ClientSpec::resume(const KnownSession& known) {
  queue_depth_ = known.queue_depth;
  max_io_size_ = known.max_io_size;
  max_hdr_size_ = known.max_hdr_size;
  opened_ = known.queue_depth != 0;
  closing_ = known.closing;
  ended_ = known.ended;
  connected_ = connected_paths(known);
  link_ = connected_ > 0;
  turn_.reset();
  for (unsigned index = 0; index < known.paths.size(); ++index) {
    const KnownPath& from = known.paths[index];
    Path& path = path_at(index);
    path.touched = false;
    path.state = from.state;
    path.epoch = from.epoch;
    path.cid_num = from.cid_num;
    path.recon_cnt = from.recon_cnt;
    path.attempted = from.epoch != 0;
    path.came_up = from.came_up;
    path.info_sent = from.info_sent;
    path.fresh_keys = from.fresh_keys;
    path.fence = (from.extensions & kFenceExtension) != 0;
    path.generations = (from.extensions & kGenerationExtension) != 0;
    path.probe = (from.extensions & kProbeExtension) != 0;
    path.joins_data = (from.extensions & kDataWithAnswerExtension) != 0;
    path.proven = from.epoch;  // unknown: no failover from these incarnations is a violation
    path.flying = from.flying;
    path.latency = from.latency;
    path.challenged = from.challenged;
    path.answers = from.answers;
    for (const Connection::Known& con : from.cons) path.cons.emplace_back(con);
    if (from.state == PathState::connected) path.heartbeat.resume(known.now, settings_, from.heartbeat);
  }
  for (const KnownRequest& request : known.requests) resume(request);
}

void ClientSpec::resume(const KnownRequest& from) {
  Permit& permit = permit_at(from.permit);
  permit.described = true;
  permit.generation = from.generation;
  permit.service = from.service;
  permit.reads = from.reads;
  permit.affinity = from.affinity;
  permit.offers_invalidation = from.offers_invalidation;
  permit.data_len = from.data_len;
  permit.usr_len = from.usr_len;
  Slot slot;
  slot.path = from.key.path;
  slot.con = from.key.con;
  slot.epoch = from.key.epoch;
  slot.invalidated = from.invalidated;
  switch (from.phase) {
    case KnownRequest::Phase::unknown:
      return permit.slot.forget();
    case KnownRequest::Phase::queued:
      slot = Slot{};
      slot.phase = Phase::queued;
      slot.since = from.since;
      break;
    case KnownRequest::Phase::flying:
      slot.phase = Phase::flying;
      slot.sent = slot.first = from.since;
      break;
    case KnownRequest::Phase::held:
      slot.phase = Phase::held;
      slot.since = slot.first = from.since;
      break;
    case KnownRequest::Phase::abandoned:
      slot.phase = Phase::abandoned;
      break;
  }
  permit.slot.set(slot);
}

void ServerSpec::resume(const KnownSession& known) {
  ended_ = known.ended;
  connected_ = connected_paths(known);
  link_ = connected_ > 0;
  for (unsigned index = 0; index < known.paths.size(); ++index) {
    const KnownPath& from = known.paths[index];
    Path& path = path_at(index);
    path.touched = false;
    path.state = from.state;
    path.incarnation = from.epoch;
    next_incarnation_ = std::max(next_incarnation_, from.epoch);
    path.recon_cnt = from.recon_cnt;
    path.extensions = from.extensions;
    path.address_pair = from.address_pair;
    path.uuid = from.uuid;
    path.deadline = from.handshake_deadline;
    path.info_sent = from.info_sent;
    for (const Connection::Known& con : from.cons) path.cons.emplace_back(con);
    if (from.state == PathState::connected) path.heartbeat.resume(known.now, settings_, from.heartbeat);
  }
  for (const KnownChunk& chunk : known.chunks) resume(chunk);
  for (const KnownFence& fence : known.fences)
    questions_.push_back({fence.asker, fence.serial, fence.uuid,
                          fence.target < paths_.size() ? fence.target : kPaths,
                          fence.target < paths_.size() ? paths_[fence.target].incarnation : 0});
}

void ServerSpec::resume(const KnownChunk& from) {
  const auto use_of = [](const KnownUse& use) {
    return Use{use.key,      use.incarnation,    use.generation,     use.reads,
               use.has_data, use.has_descriptor, use.need_invalidate};
  };
  PossibleStates<Chunk>& chunk = chunk_at(from.chunk);
  Chunk state;
  state.serial = from.serial;
  state.error = from.error;
  state.from_park = from.from_park;
  state.user = use_of(from.user);
  state.has_parked = from.parked.has_value();
  if (from.parked) state.parked = use_of(*from.parked);
  // How a request of a closed path ends depends on steps before the snapshot.
  if (!live(state.user)) return chunk.forget();
  state.phase = from.phase == KnownChunk::Phase::invalidating ? Phase::invalidating
                : from.phase == KnownChunk::Phase::answering  ? Phase::answering
                                                              : Phase::serving;
  chunk.set(state);
}

void WireSpec::resume(unsigned machine, const KnownSession& known) {
  Recording& recording = recordings_[machine];
  if (recording.machine) return;
  judge_held(machine);
  counts_.add(recording.counts);
  recording = Recording{};
  recording.side_known = recording.machine = true;
  recording.client = known.client;
  recording.sees_data = !known.client;
  recording.settings = known.settings;
  Session& session = recording.sessions.emplace_back();
  session.depth = known.queue_depth;
  session.max_io_size = known.max_io_size;
  session.max_hdr_size = known.max_hdr_size;
  session.open = true;
  for (const KnownPath& from : known.paths) {
    if (from.cons.empty()) continue;
    Path& path = recording.paths.emplace_back();
    path.number = static_cast<std::uint32_t>(recording.paths.size() - 1);
    path.uuid = from.uuid;
    path.recon_cnt = from.recon_cnt;
    path.cid_num = from.cid_num;
    path.flags = flags_of(from);
    // The answer of cid 0, with the values of this attempt, may precede the trace.
    const bool answered = from.cons.front().phase != spec::Connection::Phase::asked;
    path.depth = answered ? known.queue_depth : 0U;
    path.extensions = answered || !known.client ? from.extensions : known.settings.extensions;
    path.chunk_size = known.max_io_size + known.max_hdr_size;
    path.open = path.resumed = true;
    path.info_asked = from.info_sent;
    path.info_answered = path.was_up = from.state == PathState::connected;
    path.over = path.left = from.state != PathState::connected && from.state != PathState::connecting;
    if (!known.client) recording.last_recon[from.uuid] = from.recon_cnt;
    for (const spec::Connection::Known& one : from.cons) {
      if (one.key.epoch == 0 || one.phase == spec::Connection::Phase::closed) continue;
      Connection con;
      con.key = one.key;
      con.path = path.number;
      con.answered = one.phase != spec::Connection::Phase::asked;
      con.closed_locally = one.phase == spec::Connection::Phase::ending;
      path.asked.push_back(one.key.con);
      if (con.answered) path.accepted.push_back(one.key.con);
      recording.connections.emplace(one.key, con);
      ++recording.counts.resumed;
    }
  }
}

void Checker::resume(unsigned machine, const KnownSession& known) {
  if (!begun_.insert(machine).second) return;
  ++coverage_.resumed;
  coverage_.earlier_requests += known.requests.size() + known.chunks.size();
  told_.begin(machine, known.client ? std::uint16_t{0} : known.queue_depth);
  wire_.resume(machine, known);
  if (!actions_) return;
  const auto add = [&]<class Spec>(std::type_identity<Spec>) {
    machines_[machine] =
        std::make_unique<Machine>(std::in_place_type<Spec>, findings_, machine, &known.settings);
    std::get<Spec>(*machines_[machine]).resume(known);
  };
  known.client ? add(std::type_identity<ClientSpec>{}) : add(std::type_identity<ServerSpec>{});
}

}  // namespace rtrs::spec
