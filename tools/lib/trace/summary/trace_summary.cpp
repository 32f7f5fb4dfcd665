#include "tools/lib/trace/summary/trace_summary.hpp"

#include <algorithm>

#include "core/proto/reasons.hpp"
#include "tools/lib/trace/reader/text.hpp"

namespace rtrs::trace {

namespace {

using spec::Kind;
using spec::PathState;

std::string word(const Record& record, const Schema& schema, std::string_view name) {
  const auto& fields = record.event->fields;
  for (std::size_t i = 0; i < fields.size() && i < record.values.size(); ++i)
    if (fields[i].name == name) return value_text(fields[i], record.values[i], schema);
  return {};
}

std::string reason_of(const Record& record, const Schema& schema) {
  std::string reason = word(record, schema, "reason");
  return reason == "none" ? std::string() : reason;
}

bool is_wanted(const std::string& reason) {
  const ReasonText* text = text_of(std::string_view(reason));
  return text != nullptr && text->kind == ReasonKind::wanted;
}

}  // namespace

TraceSummary::TraceSummary(const Header& header, HangCollector* hangs)
    : header_(header),
      hangs_(hangs),
      translator_(header.schema),
      meter_(header.schema),
      counts_only_((header.flags & action_counts) != 0) {
  if (hangs_ != nullptr) hangs_->begin_trace(counts_only_, header.origin.taken);
}

void TraceSummary::add(const Record& record) {
  meter_.add(record);
  for (const bool client : {false, true}) sides_[client ? 1 : 0].timeline.at(record.time);
  if (const Slow* ended = meter_.ended()) {
    Side& side = sides_[ended->client ? 1 : 0];
    side.timeline.ended(ended->took, ended->failed);
    ++side.completed;
    side.failed += ended->failed ? 1 : 0;
    if (ended->failed && !side.first_failed) side.first_failed = At{record.seq, record.time};
    if (!side.slowest || ended->took > side.slowest->took) side.slowest = *ended;
  }
  for (const bool client : {false, true}) sides_[client ? 1 : 0].timeline.in_flight(meter_.waiting(client));
  if (const spec::Event* event = translator_.translate(record)) {
    take(record, *event);
    if (hangs_ != nullptr) hangs_->on(record.instance, *event);
  } else if (hangs_ != nullptr) {
    const spec::DeviceEvent* device = translator_.translate_device(record);
    if (device != nullptr) hangs_->on(record.instance, *device);
  }
}

void TraceSummary::take(const Record& record, const spec::Event& event) {
  const At at{record.seq, record.time};
  if (event.kind == Kind::BeginClient || event.kind == Kind::BeginServerSession || event.kind == Kind::End)
    forget(record.instance, at);
  Machine& machine = machines_[record.instance];
  if (!machine.begun) {
    machine.begun = true;
    machine.client = event.kind == Kind::BeginClient ||
                     (event.kind != Kind::BeginServerSession && header_.origin.role != "server");
  }
  switch (event.kind) {
    case Kind::PathChanged:
      return path_changed(record, event, machine);
    case Kind::LinkChanged:
      return link_changed(record, event, machine);
    case Kind::ConnectFailed:
      if (PathLoss* loss = last_loss(record.instance, event.key.path); loss != nullptr && !loss->to)
        ++loss->attempts;
      return;
    case Kind::FailedOver:
      // A path may be connected again before its requests are resent.
      if (PathLoss* loss = last_loss(record.instance, event.from)) {
        ++loss->failovers;
        if (!loss->failed_over) loss->failed_over = at;
      }
      return;
    case Kind::CloseRequested:
      machine.closing = true;
      return;
    case Kind::EndSession: {
      const std::string reason = reason_of(record, header_.schema);
      if (machine.client && !reason.empty() && !is_wanted(reason)) broken_.add({at, reason});
      return;
    }
    default:
      return;
  }
}

void TraceSummary::path_changed(const Record& record, const spec::Event& event, Machine& machine) {
  Side& side = sides_[machine.client ? 1 : 0];
  side.timeline.state(number_of(side, {record.instance, event.path}), event.state);
  const auto before = machine.states.find(event.path);
  const bool was = before != machine.states.end() && before->second == PathState::connected;
  machine.states[event.path] = event.state;
  if (!machine.client || machine.closing) return;
  const At at{record.seq, record.time};
  PathLoss* open = last_loss(record.instance, event.path);
  if (open != nullptr && open->to) open = nullptr;
  if (event.state == PathState::connected) {
    if (open != nullptr) open->to = at;
  } else if (was) {
    path_losses_.add({record.instance, event.path, at, {}, reason_of(record, header_.schema), 0, 0, {}});
  } else if (open != nullptr && open->reason.empty()) {
    open->reason = reason_of(record, header_.schema);
  }
}

void TraceSummary::link_changed(const Record& record, const spec::Event& event, const Machine& machine) {
  if (!machine.client || machine.closing) return;
  const At at{record.seq, record.time};
  if (!event.up) {
    link_losses_.add({record.instance, at, {}, meter_.waiting(true)});
    return;
  }
  for (LinkLoss& loss : link_losses_.kept())
    if (loss.instance == record.instance && !loss.to) loss.to = at;
}

// Ends what is open of a machine that ends or begins again.
void TraceSummary::forget(InstanceId instance, At at) {
  const auto found = machines_.find(instance);
  if (found == machines_.end()) return;
  Side& side = sides_[found->second.client ? 1 : 0];
  for (const auto& [path, state] : found->second.states)
    side.timeline.state(number_of(side, {instance, path}), PathState::absent);
  for (LinkLoss& loss : link_losses_.kept())
    if (loss.instance == instance && !loss.to) loss.to = at;
  machines_.erase(found);
}

PathLoss* TraceSummary::last_loss(InstanceId instance, std::uint16_t path) {
  auto& all = path_losses_.kept();
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const PathLoss& loss) {
    return loss.instance == instance && loss.path == path;
  });
  return found == all.rend() ? nullptr : &*found;
}

std::size_t TraceSummary::number_of(Side& side, PathName name) {
  const auto found = std::find(side.paths.begin(), side.paths.end(), name);
  const auto number = static_cast<std::size_t>(found - side.paths.begin());
  if (found == side.paths.end() && number < Timeline::kPaths) side.paths.push_back(name);
  return number;
}

void TraceSummary::finish() {
  meter_.finish();
}

TraceSummary& RunSummary::begin_trace(const Header& header) {
  return *traces.emplace_back(std::make_unique<TraceSummary>(header, &hangs));
}

}  // namespace rtrs::trace
