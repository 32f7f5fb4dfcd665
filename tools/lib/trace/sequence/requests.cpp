// Follows each request from the application over the network to storage and back.
#include <algorithm>
#include <map>
#include <tuple>

#include "core/wire/imm.hpp"
#include "tools/lib/trace/sequence/build.hpp"
#include "tools/lib/trace/sequence/fields.hpp"

namespace rtrs::tools::sequence {

namespace {

std::uint64_t field(const Step& step, std::string_view name) {
  return number_of(step.fields, name);
}

class Follower {
 public:
  explicit Follower(Story& story) : story_(story) {}

  void run() {
    for (std::size_t i = 0; i < story_.steps.size(); ++i) {
      at_ = static_cast<Index>(i);
      Step& step = story_.steps[i];
      if (step.machine == kNone) continue;
      const Machine& machine = story_.machines[static_cast<std::size_t>(step.machine)];
      if (step.event.starts_with("Begin") || step.event == "End") forget(machine);
      if (step.event == "Snapshot" && step.record == machine.resumed_at) resume(step, machine);
      machine.side == Side::client ? client(step, machine) : server(step);
      if (step.io != kNone && step.tone == Tone::bad) request(step.io).failed = true;
    }
    for (std::size_t i = 0; i < story_.steps.size(); ++i) {
      Step& step = story_.steps[i];
      if (step.io != kNone && !closed_[static_cast<std::size_t>(step.io)]) request(step.io).last = kNone;
    }
  }

 private:
  Request& request(Index io) { return story_.requests[static_cast<std::size_t>(io)]; }

  Index open(const Step& step, std::uint16_t permit, bool write) {
    Request one;
    one.first = at_;
    one.machine = step.machine;
    one.permit = permit;
    one.write = write;
    one.bytes = static_cast<std::uint32_t>(field(step, "data_len"));
    story_.requests.push_back(one);
    closed_.push_back(false);
    return static_cast<Index>(story_.requests.size() - 1);
  }
  void close(Index io) {
    request(io).last = at_;
    closed_[static_cast<std::size_t>(io)] = true;
  }

  // Ends all requests of a state machine. Called when the machine ends or begins again.
  void forget(const Machine& owner) {
    const auto same = [&](Index machine) {
      const Machine& other = story_.machines[static_cast<std::size_t>(machine)];
      return other.file == owner.file && other.instance == owner.instance;
    };
    for (auto it = permits_.begin(); it != permits_.end();) {
      const bool gone = same(it->first.first);
      if (gone) close(it->second.io);
      it = gone ? permits_.erase(it) : std::next(it);
    }
    for (auto it = delivered_.begin(); it != delivered_.end();) {
      const bool gone = same(std::get<0>(it->first));
      if (gone) story_.storage_spans[static_cast<std::size_t>(it->second.second)].to = at_;
      it = gone ? delivered_.erase(it) : std::next(it);
    }
  }

  // Begins with the requests that were in flight at a snapshot. A request that was not has ended before it.
  void resume(Step& step, const Machine& machine) {
    const auto carries = [&machine](std::uint16_t number) {
      return std::any_of(machine.carried.begin(), machine.carried.end(),
                         [number](const auto& one) { return one.number == number; });
    };
    for (auto it = permits_.begin(); it != permits_.end();) {
      const bool over = it->first.first == step.machine && !carries(it->first.second);
      if (over) close(it->second.io);
      it = over ? permits_.erase(it) : std::next(it);
    }
    for (const auto& [place, io] : arrived_)
      if (is_open_at(place.first, step.machine, io) && !carries(place.second)) close(io);
    for (const Machine::Carried& one : machine.carried) {
      if (machine.side == Side::client) {
        const auto [at, fresh] =
            permits_.try_emplace({step.machine, one.number}, Holder{kNone, one.generation});
        if (fresh) at->second.io = open(step, one.number, one.write);
        if (fresh) request(at->second.io).bytes = one.bytes;
      } else if (known(one.connection, one.number) == kNone) {
        const Index io = arrived_[{one.connection, one.number}] = open(step, one.number, one.write);
        own_[io] = true;
        delivered_[{step.machine, one.number, one.serial}] = {
            io, static_cast<Index>(story_.storage_spans.size())};
        story_.storage_spans.push_back({io, at_, kNone});
      }
    }
  }

  // Returns the permit of a response. Returns kNone for other immediates, and for a late response to an
  // earlier request with the same permit.
  Index answered(const Step& step, const Machine& machine) {
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

  void client(Step& step, const Machine& machine) {
    const auto permit = static_cast<std::uint16_t>(field(step, "permit"));
    const auto found = permits_.find({step.machine, permit});
    if (step.event == "Submitted") {
      // The permit was free, so its request has ended, although the trace does not show when.
      if (found != permits_.end()) close(found->second.io);
      step.io = open(step, permit, value_of(step.fields, "direction") == "write");
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
      request(step.io).failed_over = true;
    } else if (step.event == "KeyInvalidated") {
      step.io = found->second.io;
    } else if (step.event == "Complete") {
      step.io = found->second.io;
      close(step.io);
      permits_.erase(found);
    }
  }

  void server(Step& step) {
    const auto chunk = static_cast<std::uint16_t>(field(step, "chunk"));
    if (step.event == "RequestArrived") {
      if (step.peer != kNone) step.io = story_.steps[static_cast<std::size_t>(step.peer)].io;
      end_former(step, chunk);
      if (step.io == kNone) {
        step.io = open(step, chunk, value_of(step.fields, "direction") == "write");
        own_[step.io] = true;
      }
      arrived_[{step.connection, chunk}] = step.io;
    } else if (step.event == "InvalidateChunk" || step.event == "ChunkInvalidated") {
      step.io = known(step.connection, chunk);
    } else if (step.event == "Deliver") {
      step.io = known(step.connection, chunk);
      if (step.io == kNone) return;
      const auto serial = static_cast<std::uint16_t>(field(step, "serial"));
      delivered_[{step.machine, chunk, serial}] = {step.io, static_cast<Index>(story_.storage_spans.size())};
      story_.storage_spans.push_back({step.io, at_, kNone});
    } else if (step.event == "Responded") {
      const auto serial = static_cast<std::uint16_t>(field(step, "serial"));
      const auto found = delivered_.find({step.machine, chunk, serial});
      if (found == delivered_.end()) return;
      step.io = found->second.first;
      story_.storage_spans[static_cast<std::size_t>(found->second.second)].to = at_;
      delivered_.erase(found);
    } else if (step.event == "PostResponse") {
      step.io = known(step.connection, chunk);
      if (step.io != kNone && own_.contains(step.io)) close(step.io);
    }
  }

  // Before the snapshot of a ring dump there are no actions: a request ends at the latest when its chunk has
  // another user.
  void end_former(const Step& step, std::uint16_t chunk) {
    const Machine& machine = story_.machines[static_cast<std::size_t>(step.machine)];
    if (!machine.begun || step.record >= machine.resumed_at || machine.resumed_at == kNever) return;
    for (const auto& [place, io] : arrived_)
      if (place.second == chunk && is_open_at(place.first, step.machine, io)) close(io);
  }

  // True if the request was recorded by this server only, and has no end yet.
  bool is_open_at(Index connection, Index machine, Index io) const {
    return connection != kNone &&
           story_.connections[static_cast<std::size_t>(connection)].machine == machine && own_.contains(io) &&
           !closed_[static_cast<std::size_t>(io)];
  }

  Index known(Index connection, std::uint16_t chunk) const {
    const auto found = arrived_.find({connection, chunk});
    return found == arrived_.end() ? kNone : found->second;
  }

  struct Holder {
    Index io = kNone;
    std::uint32_t generation = 0;
  };
  Story& story_;
  Index at_ = kNone;
  std::vector<bool> closed_;                                   // indexed by request
  std::map<std::pair<Index, std::uint16_t>, Holder> permits_;  // requests by (machine, permit)
  std::map<std::pair<Index, std::uint16_t>, Index> arrived_;   // requests by (connection, chunk)
  // Requests and their storage spans, by (machine, chunk, serial).
  std::map<std::tuple<Index, std::uint16_t, std::uint16_t>, std::pair<Index, Index>> delivered_;
  std::map<Index, bool> own_;  // requests that only the server recorded
};

}  // namespace

void follow_requests(Story& story) {
  Follower(story).run();
}

}  // namespace rtrs::tools::sequence
