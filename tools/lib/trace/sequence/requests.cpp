#include "tools/lib/trace/sequence/requests.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/wire/imm.hpp"
#include "tools/lib/trace/sequence/fields.hpp"

namespace rtrs::tools::sequence {

namespace {

std::uint64_t field(const Step& step, std::string_view name) {
  return number_of(step.fields, name);
}

}  // namespace

void RequestFollower::on(Step& step, std::size_t number, Index sender_io) {
  at_ = static_cast<Index>(number);
  time_ = step.at;
  if (step.machine == kNone) return;
  const Machine& machine = story_.machines[static_cast<std::size_t>(step.machine)];
  if (step.event.starts_with("Begin") || step.event == "End") forget(machine);
  if (step.event == "Snapshot" && step.record == machine.resumed_at) resume(step, machine);
  machine.side == Side::client ? client(step, machine) : server(step, sender_io);
  if (Followed* one = find(step.io)) {
    if (step.tone == Tone::bad) one->request.failed = true;
    if (step.device != kNone) one->request.device = step.device;
    if (step.shape == Shape::complete) step.since = one->request.first_at;
  }
  drop_unneeded();
}

RequestFollower::Followed* RequestFollower::find(Index io) {
  const auto found = requests_.find(io);
  return found == requests_.end() ? nullptr : &found->second;
}

Index RequestFollower::open(const Step& step, std::uint16_t permit, bool write, std::uint32_t bytes) {
  Request one;
  one.first = at_;
  one.first_at = time_;
  one.machine = step.machine;
  one.permit = permit;
  one.write = write;
  one.bytes = bytes;
  requests_[next_io_].request = one;
  ++in_flight_;
  return next_io_++;
}

Index RequestFollower::open(const Step& step, std::uint16_t permit) {
  return open(step, permit, value_of(step.fields, "direction") == "write",
              static_cast<std::uint32_t>(field(step, "data_len")));
}

void RequestFollower::close(Index io) {
  Followed* const one = find(io);
  if (one == nullptr) return;
  one->request.last = at_;
  one->request.last_at = time_;
  if (!one->closed) --in_flight_;
  one->closed = true;
}

void RequestFollower::use(Index io) {
  if (Followed* one = find(io)) ++one->uses;
}

void RequestFollower::release(Index io) {
  Followed* const one = find(io);
  if (one != nullptr && --one->uses == 0) unused_.push_back(io);
}

void RequestFollower::drop_unneeded() {
  for (const Index io : unused_) {
    const Followed* const one = find(io);
    if (one != nullptr && one->uses == 0 && !kept_.overlaps(one->request.first, one->request.last))
      requests_.erase(io);
  }
  unused_.clear();
}

RequestFollower::Permits::iterator RequestFollower::free_permit(Permits::iterator at) {
  release(at->second.io);
  return permits_.erase(at);
}

void RequestFollower::arrive(Index connection, std::uint16_t chunk, Index io) {
  use(io);
  const auto [at, fresh] = arrived_.try_emplace({connection, chunk}, io);
  if (!fresh) release(std::exchange(at->second, io));
}

void RequestFollower::deliver(Index machine, std::uint16_t chunk, std::uint16_t serial, Index io) {
  const auto before = delivered_.find({machine, chunk, serial});
  if (before != delivered_.end()) leave_storage(before);
  use(io);
  delivered_[{machine, chunk, serial}] = {io, next_span_};
  spans_[next_span_++] = {io, at_, kNone};
}

RequestFollower::Delivered::iterator RequestFollower::leave_storage(Delivered::iterator at) {
  const auto span = spans_.find(at->second.second);
  if (!kept_.overlaps(span->second.from, span->second.to)) spans_.erase(span);
  release(at->second.first);
  return delivered_.erase(at);
}

// Ends all requests of a state machine. Called when the machine ends or begins again.
void RequestFollower::forget(const Machine& owner) {
  const auto same = [&](Index machine) {
    const Machine& other = story_.machines[static_cast<std::size_t>(machine)];
    return other.file == owner.file && other.instance == owner.instance;
  };
  for (auto it = permits_.begin(); it != permits_.end();) {
    const bool gone = same(it->first.first);
    if (gone) close(it->second.io);
    it = gone ? free_permit(it) : std::next(it);
  }
  for (auto it = delivered_.begin(); it != delivered_.end();) {
    const bool gone = same(std::get<0>(it->first));
    if (gone) spans_.at(it->second.second).to = at_;
    it = gone ? leave_storage(it) : std::next(it);
  }
}

// Begins with the requests that were in flight at a snapshot. A request that was not has ended before it.
void RequestFollower::resume(const Step& step, const Machine& machine) {
  const auto carries = [&machine](std::uint16_t number) {
    return std::any_of(machine.carried.begin(), machine.carried.end(),
                       [number](const auto& one) { return one.number == number; });
  };
  for (auto it = permits_.begin(); it != permits_.end();) {
    const bool over = it->first.first == step.machine && !carries(it->first.second);
    if (over) close(it->second.io);
    it = over ? free_permit(it) : std::next(it);
  }
  for (const auto& [place, io] : arrived_)
    if (is_open_at(place.first, step.machine, io) && !carries(place.second)) close(io);
  for (const Machine::Carried& one : machine.carried) {
    if (machine.side == Side::client) {
      const auto [at, fresh] =
          permits_.try_emplace({step.machine, one.number}, Holder{kNone, one.generation});
      if (!fresh) continue;
      use(at->second.io = open(step, one.number, one.write, one.bytes));
    } else if (known(one.connection, one.number) == kNone) {
      const Index io = open(step, one.number, one.write, static_cast<std::uint32_t>(field(step, "data_len")));
      find(io)->of_server = true;
      arrive(one.connection, one.number, io);
      deliver(step.machine, one.number, one.serial, io);
    }
  }
}

// Returns the permit of a response. Returns kNone for other immediates, and for a late response to an earlier
// request with the same permit.
Index RequestFollower::answered(const Step& step, const Machine& machine) const {
  const auto imm = static_cast<std::uint32_t>(field(step, "imm"));
  const wire::ImmType type = wire::imm_type(imm);
  if (type != wire::ImmType::io_rsp && type != wire::ImmType::io_rsp_w_inv) return kNone;
  std::uint32_t id = wire::decode_io_rsp(imm).msg_id;
  std::uint32_t generation = 0;
  if (machine.generations && machine.depth != 0) {
    const wire::TaggedMsgId tagged = wire::split_msg_id(machine.depth, id);
    id = tagged.buf_id;
    generation = tagged.generation;
  }
  const auto found = permits_.find({step.machine, static_cast<std::uint16_t>(id)});
  if (found == permits_.end()) return kNone;
  const std::uint32_t mask = machine.depth != 0 ? wire::generation_mask(machine.depth) : 0;
  if (machine.generations && ((found->second.generation ^ generation) & mask) != 0) return kNone;
  return found->second.io;
}

void RequestFollower::client(Step& step, const Machine& machine) {
  const auto permit = static_cast<std::uint16_t>(field(step, "permit"));
  const auto found = permits_.find({step.machine, permit});
  if (step.event == "Submitted") {
    // The permit was free, so its request has ended, although the trace does not show when.
    if (found != permits_.end()) {
      close(found->second.io);
      free_permit(found);
    }
    step.io = open(step, permit);
    use(step.io);
    permits_[{step.machine, permit}] = {step.io, 0};
  } else if (step.event == "ImmReceived" || step.event == "KeyedResponseReceived") {
    step.io = answered(step, machine);
  } else if (found == permits_.end()) {
    return;
  } else if (step.event == "PostRequest") {
    step.io = found->second.io;
    found->second.generation = static_cast<std::uint32_t>(field(step, "generation"));
  } else if (step.event == "FailedOver") {
    step.io = found->second.io;
    find(step.io)->request.failed_over = true;
  } else if (step.event == "KeyInvalidated") {
    step.io = found->second.io;
  } else if (step.event == "Complete") {
    step.io = found->second.io;
    close(step.io);
    free_permit(found);
  }
}

void RequestFollower::server(Step& step, Index sender_io) {
  const auto chunk = static_cast<std::uint16_t>(field(step, "chunk"));
  if (step.event == "RequestArrived") {
    step.io = sender_io;
    end_former(step, chunk);
    if (step.io == kNone) {
      step.io = open(step, chunk);
      find(step.io)->of_server = true;
    }
    arrive(step.connection, chunk, step.io);
  } else if (step.event == "InvalidateChunk" || step.event == "ChunkInvalidated") {
    step.io = known(step.connection, chunk);
  } else if (step.event == "Deliver") {
    step.io = known(step.connection, chunk);
    if (step.io == kNone) return;
    deliver(step.machine, chunk, static_cast<std::uint16_t>(field(step, "serial")), step.io);
  } else if (step.event == "Responded") {
    const auto serial = static_cast<std::uint16_t>(field(step, "serial"));
    const auto found = delivered_.find({step.machine, chunk, serial});
    if (found == delivered_.end()) return;
    step.io = found->second.first;
    spans_.at(found->second.second).to = at_;
    leave_storage(found);
  } else if (step.event == "PostResponse") {
    step.io = known(step.connection, chunk);
    const Followed* const one = find(step.io);
    if (one != nullptr && one->of_server) close(step.io);
  }
}

// Before the snapshot of a ring dump there are no actions: a request ends at the latest when its chunk has
// another user.
void RequestFollower::end_former(const Step& step, std::uint16_t chunk) {
  const Machine& machine = story_.machines[static_cast<std::size_t>(step.machine)];
  if (!machine.begun || step.record >= machine.resumed_at || machine.resumed_at == kNever) return;
  for (const auto& [place, io] : arrived_)
    if (place.second == chunk && is_open_at(place.first, step.machine, io)) close(io);
}

// True if the request was recorded by this server only, and has no end yet.
bool RequestFollower::is_open_at(Index connection, Index machine, Index io) const {
  const auto found = requests_.find(io);
  return connection != kNone && story_.connections[static_cast<std::size_t>(connection)].machine == machine &&
         found != requests_.end() && found->second.of_server && !found->second.closed;
}

Index RequestFollower::known(Index connection, std::uint16_t chunk) const {
  const auto found = arrived_.find({connection, chunk});
  return found == arrived_.end() ? kNone : found->second;
}

void RequestFollower::finish(Story& story) {
  std::map<Index, Index> numbers;
  for (const auto& [io, one] : requests_)
    if (kept_.overlaps(one.request.first, one.request.last)) numbers[io] = 0;
  for (auto& [io, number] : numbers) {
    number = static_cast<Index>(story.requests.size());
    story.requests.push_back(requests_.at(io).request);
  }
  const auto number_of = [&numbers](Index io) {
    const auto found = numbers.find(io);
    return found == numbers.end() ? kNone : found->second;
  };
  for (Step& step : story.steps) step.io = number_of(step.io);
  std::map<Index, StorageSpan> spans(spans_.begin(), spans_.end());
  for (auto& [index, span] : spans) {
    if (!kept_.overlaps(span.from, span.to)) continue;
    span.io = number_of(span.io);
    story.storage_spans.push_back(span);
  }
}

}  // namespace rtrs::tools::sequence
