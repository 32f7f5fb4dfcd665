#include "tools/lib/trace/sequence/story_records.hpp"

#include <algorithm>
#include <memory>

#include "tools/lib/trace/judge/known_state.hpp"
#include "tools/lib/trace/replay/replay_adapter.hpp"

namespace rtrs::tools::sequence {

using trace::kKindOf;

StoryRecords::StoryRecords(Story& story, StepBuffer& steps, Index file, const trace::Header& header,
                           bool lean)
    : header_(header), compatibility_(header.schema), explainer_(story, steps, file, lean) {
  if ((header.flags & trace::action_counts) != 0) rerun_.emplace(header.schema);
}

void StoryRecords::look_ahead(const trace::Record& record) {
  if (record.event->id == kKindOf<trace::Snapshot> && compatibility_.problem(record.event->id) == nullptr)
    resume(record, true);
}

void StoryRecords::resume(const trace::Record& record, bool ahead) {
  const auto part = trace::get_struct<trace::Snapshot>(record, compatibility_.map(record.event->id));
  if (parts_.add(record.instance, part) != trace::SnapshotParts::Status::complete) return;
  if (rerun_ && !ahead) rerun_->resume(record.instance, part.machine, parts_.state(), part.layout);
  const auto explain = [&](auto session) {
    if (trace::load_state(*session, parts_.state(), part.layout) == nullptr)
      explainer_.resume(record, trace::known_state(*session, part.now), ahead);
  };
  if (part.machine == MachineKind::client_session)
    explain(std::make_unique<ClientSession>(ClientConfig{}));
  else if (part.machine == MachineKind::server_session)
    explain(std::make_unique<ServerSession>(ServerConfig{}, std::uint16_t{0}));
}

void StoryRecords::add(const trace::Record& record) {
  const bool known = compatibility_.problem(record.event->id) == nullptr;
  const trace::KindId kind = record.event->id;
  explainer_.add(Fields(record, header_.schema));
  if (!known) return;
  if (kind == kKindOf<trace::Snapshot>) return resume(record, false);
  if (!rerun_) return;
  if (kind == kKindOf<trace::ActionCount>)
    return rerun_->count(record, [this](const trace::Record& action) {
      explainer_.add(Fields(action, trace::builtin_schema()));
    });
  if (record.event->category == trace::EventClass::input)
    rerun_->input(record);
  else if (kind == kKindOf<trace::End>)
    rerun_->end(record.instance);
  else if (record.event->name.starts_with("Begin"))
    rerun_->begin(record);
}

void Explainer::resume(const trace::Record& record, const spec::KnownSession& known, bool ahead) {
  const auto generations = [&known] {
    return std::any_of(known.paths.begin(), known.paths.end(), [](const spec::KnownPath& path) {
      return (path.extensions & static_cast<std::uint8_t>(wire::Extensions::generation)) != 0;
    });
  };
  if (ahead) {
    ahead_.try_emplace(record.instance, known.queue_depth, generations());
    return;
  }
  now_ = &by_instance_.at(record.instance);
  Machine& one = machine();
  if (one.begun) return;
  one.begun = true;
  one.side = known.client ? Side::client : Side::server;
  one.session = known.session;
  one.depth = known.queue_depth;
  one.generations = generations();
  one.resumed_at = record.seq;
  for (const spec::KnownPath& path : known.paths)
    for (const spec::Connection::Known& con : path.cons)
      if (con.key.epoch != 0) connection_at({con.key.path, con.key.con, con.key.epoch, known.session});
  const auto connection = [&](const spec::Key& key) {
    return connection_at({key.path, key.con, key.epoch, known.session});
  };
  for (const spec::KnownRequest& request : known.requests)
    if (request.phase != spec::KnownRequest::Phase::abandoned)
      one.carried.push_back({request.permit, request.generation, !request.reads, request.data_len, 0, kNone});
  for (const spec::KnownChunk& chunk : known.chunks)
    one.carried.push_back({chunk.chunk, 0, !chunk.user.reads, 0, chunk.serial, connection(chunk.user.key)});
  Step& step = steps_.back();
  step.group = Group::control;
  step.title = "snapshot: depth " + std::to_string(one.depth) + ", " + std::to_string(one.carried.size()) +
               " requests in flight";
}

}  // namespace rtrs::tools::sequence
