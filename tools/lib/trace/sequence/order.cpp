#include "tools/lib/trace/sequence/order.hpp"

#include <algorithm>
#include <limits>

#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/sequence/build.hpp"

namespace rtrs::tools::sequence {

namespace {

constexpr std::size_t kWindow = 32'768;
// A later record may add words to a step.
constexpr std::size_t kUnfinished = 4096;
constexpr Index kNotPaired = -2;  // Step::peer of a receive whose send may not be read yet

// Times of a trace may have any value, so a sum may wrap around.
constexpr std::int64_t sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

template <class List, class Test>
Index first_of(const List& list, Test is_in) {
  return static_cast<Index>(std::find_if(list.begin(), list.end(), is_in) - list.begin());
}

}  // namespace

std::int64_t clock_slack(const TraceFile& file) noexcept {
  return file.backend.starts_with("sim") ? 0 : 50'000'000;
}

void set_common_zero(Story& story) {
  std::int64_t zero = std::numeric_limits<std::int64_t>::max() / 4;
  for (const TraceFile& file : story.files)
    if (file.records != 0) zero = std::min(zero, sum(file.times.zero(), file.clock));
  for (TraceFile& file : story.files) file.times.move_to(sum(zero, -file.clock));
}

StepOrder::StepOrder(const Survey& survey, bool lean) : survey_(survey), lean_(lean) {
  const Story& story = survey.story();
  std::size_t largest = 0;
  for (std::size_t at = 0; at < story.files.size(); ++at)
    if (story.files[at].records > story.files[largest].records) largest = at;
  for (std::size_t at = 0; at < story.files.size(); ++at) {
    const auto index = static_cast<Index>(at);
    files_.push_back(std::make_unique<File>());
    File& file = *files_.back();
    file.index = index;
    file.reader = std::make_unique<FileSteps>(file.story, story.files[at].name, survey.path(at), lean);
    file.ended = !file.reader->open(at == largest);
    // The survey has read one file after the other.
    file.first_machine = first_of(story.machines, [index](const Machine& one) { return one.file >= index; });
    file.first_connection = first_of(story.connections, [&](const Connection& one) {
      return story.machines[static_cast<std::size_t>(one.machine)].file >= index;
    });
    zero_ = sum(story.files[at].times.zero(), story.files[at].clock);
  }
}

std::int64_t StepOrder::time(const Step& step) const {
  return sum(static_cast<std::int64_t>(step.time),
             survey_.story().files[static_cast<std::size_t>(step.file)].clock);
}

// Reads one record of the file. Not those that were added since the survey.
bool StepOrder::read(File& file) {
  if (file.ended) return false;
  if (file.reader->records() == survey_.story().files[static_cast<std::size_t>(file.index)].records ||
      !file.reader->read()) {
    file.ended = true;
    std::vector<Index> senders;
    for (const auto& [sender, flow] : flows_)
      if (&file_of(sender) == &file) senders.push_back(sender);
    for (const Index sender : senders)
      for (const bool notes : {false, true}) pair(sender, notes);
    return false;
  }
  for (; file.seen < file.steps().added(); ++file.seen) {
    Step& step = *file.steps().find(file.seen);
    step.file = file.index;
    if (step.machine != kNone) step.machine += file.first_machine;
    if (step.connection != kNone) step.connection += file.first_connection;
    if (step.machine >= static_cast<Index>(survey_.story().machines.size()) ||
        step.connection >= static_cast<Index>(survey_.story().connections.size())) {
      if (!file.changed)
        error(survey_.story().files[static_cast<std::size_t>(file.index)].name +
              " was changed while it was read");
      file.changed = true;
      step.machine = step.connection = kNone;
    }
    note(file, step, file.seen);
  }
  return true;
}

bool StepOrder::read_ahead(File& file) {
  return file.steps().waiting() < kWindow && read(file);
}

void StepOrder::note(File& file, const Step& step, std::size_t number) {
  if (step.connection == kNone || connection(step.connection).peer == kNone) return;
  const bool notes = Message::is_note(step.signature);
  if (step.shape == Shape::send) {
    flows_[step.connection].sends.push_back({step.signature, number});
    file.sends.emplace_back(number, step.connection);
    pair(step.connection, notes);
  } else if (step.shape == Shape::receive && step.signature != 0) {
    const Index sender = connection(step.connection).peer;
    file.steps().find(number)->peer = kNotPaired;
    flows_[sender].waiting[notes ? 1 : 0].push_back({step.signature, number, 0});
    pair(sender, notes);
  }
}

// Pairs received messages as far as the sends are read. See pairing.cpp for the rule.
void StepOrder::pair(Index sender, bool notes) {
  Flow& flow = flows_[sender];
  auto& waiting = flow.waiting[notes ? 1 : 0];
  std::size_t& next = flow.next[notes ? 1 : 0];
  if (waiting.empty()) return;
  File& from = file_of(sender);
  StepBuffer& to = file_of(connection(sender).peer).steps();
  while (!waiting.empty()) {
    Arrival& arrival = waiting.front();
    const std::size_t end = std::min(flow.end(), next + kFarthest);
    std::size_t at = std::max(next, arrival.searched);
    while (at < end && flow.sends[at - flow.first].signature != arrival.signature) ++at;
    if (at >= end && flow.end() < next + kFarthest && !from.ended) {
      arrival.searched = end;
      return;
    }
    Step& received = *to.find(arrival.step);
    received.peer = kNone;
    if (at < end) {
      const std::size_t sent = flow.sends[at - flow.first].step;
      received.peer = static_cast<Index>(sent);
      const auto place = from.sent.find(sent);
      if (Step* step = from.steps().find(sent)) step->peer = static_cast<Index>(arrival.step);
      if (place != from.sent.end()) place->second.matched = true;
      next = at + 1;
    }
    waiting.pop_front();
    while (!flow.sends.empty() && flow.first < std::min(flow.next[0], flow.next[1])) flow.drop_first();
  }
}

// Counts the first received message that waits for its send as one that no step has sent.
void StepOrder::give_up_first(Index sender, bool notes) {
  auto& waiting = flows_[sender].waiting[notes ? 1 : 0];
  file_of(connection(sender).peer).steps().find(waiting.front().step)->peer = kNone;
  waiting.pop_front();
  pair(sender, notes);
}

// Finds the send of the message.
void StepOrder::settle_receive(const Step& step) {
  if (step.peer != kNotPaired) return;
  const Index sender = connection(step.connection).peer;
  File& from = file_of(sender);
  while (step.peer == kNotPaired)
    if (!read_ahead(from) && step.peer == kNotPaired) give_up_first(sender, Message::is_note(step.signature));
}

// Finds the receive of the message, unless no step received it.
void StepOrder::settle_send(const Step& step, std::size_t number) {
  const bool notes = Message::is_note(step.signature);
  Flow& flow = flows_[step.connection];
  File& from = file_of(step.connection);
  File& to = file_of(connection(step.connection).peer);
  const auto is_open = [&] {
    const auto at =
        std::lower_bound(flow.sends.begin(), flow.sends.end(), number,
                         [](const Sending& one, std::size_t wanted) { return one.step < wanted; });
    return at != flow.sends.end() && at->step == number &&
           flow.first + static_cast<std::size_t>(at - flow.sends.begin()) >= flow.next[notes ? 1 : 0];
  };
  while (step.peer == kNone && is_open()) {
    const auto& waiting = flow.waiting[notes ? 1 : 0];
    if (waiting.empty()) {
      if (!read_ahead(to)) return;
    } else if (!read_ahead(from) && !waiting.empty()) {
      give_up_first(step.connection, notes);
    }
  }
}

// Reads until the first step of the file is complete. Returns false at the end.
bool StepOrder::has_head(File& file) {
  const std::size_t wanted = lean_ ? 1 : kUnfinished;
  while (file.steps().waiting() < wanted && read(file)) {
  }
  return file.steps().waiting() != 0;
}

bool StepOrder::waits(const Step& step) {
  return step.shape == Shape::receive && step.peer != kNone &&
         static_cast<std::size_t>(step.peer) >= file_of(connection(step.connection).peer).steps().taken();
}

StepOrder::File* StepOrder::pick() {
  File *free = nullptr, *any = nullptr;
  const auto is_earlier = [this](File& file, File* than) {
    return than == nullptr || time(file.steps().front()) < time(than->steps().front());
  };
  for (const auto& one : files_) {
    File& file = *one;
    if (!has_head(file)) continue;
    settle_receive(file.steps().front());
    if (is_earlier(file, any)) any = &file;
    if (!waits(file.steps().front()) && is_earlier(file, free)) free = &file;
  }
  if (free != nullptr || any == nullptr) return free;
  // Every file waits for another file, so at least one pair of send and receive is wrong. Drops one pair, so
  // that the sort can continue.
  any->steps().front().peer = kNone;
  return any;
}

bool StepOrder::next(Step& step, Index& sender_io) {
  File* const file = pick();
  if (file == nullptr) return false;
  const bool may_be_lost = !lean_ && file->steps().front().shape == Shape::send &&
                           !file->steps().front().may_vanish && file->steps().front().connection != kNone;
  if (may_be_lost && connection(file->steps().front().connection).lost == Connection::Lost::all)
    settle_send(file->steps().front(), file->steps().taken());
  step = file->steps().take();
  finish(*file, step, sender_io);
  if (may_be_lost) {
    const Connection::Lost lost = connection(step.connection).lost;
    step.lost = lost == Connection::Lost::all
                    ? last_ != nullptr && !last_->matched
                    : lost == Connection::Lost::connect_request && step.group == Group::connect;
  }
  forget_old(*file);
  return true;
}

// Places the step, which was the first of the file, in the common order.
void StepOrder::finish(File& file, Step& step, Index& sender_io) {
  at_ = std::max(at_, sum(time(step), -zero_));
  step.at = at_;
  sender_io = kNone;
  last_ = nullptr;
  const std::size_t number = number_++;
  if (step.device != kNone) {
    const auto& all = survey_.story().devices;
    const auto name =
        std::find(all.begin(), all.end(), file.story.devices[static_cast<std::size_t>(step.device)]);
    step.device = name == all.end() ? kNone : static_cast<Index>(name - all.begin());
  }
  if (step.shape == Shape::send && step.connection != kNone && connection(step.connection).peer != kNone) {
    last_ = &file.sent[file.steps().taken() - 1];
    *last_ = {number, step.at, kNone, step.peer != kNone};
    step.peer = kNone;
  } else if (step.peer != kNone) {
    auto& sent = file_of(connection(step.connection).peer).sent;
    const auto peer = sent.find(static_cast<std::size_t>(step.peer));
    step.peer = kNone;
    if (peer == sent.end()) return;
    step.peer = static_cast<Index>(peer->second.number);
    step.since = peer->second.at;
    sender_io = peer->second.io;
    sent.erase(peer);
  }
}

// Forgets messages that no step has received for a long time.
void StepOrder::forget_old(File& file) {
  while (!file.sends.empty() && file.sends.front().first + kWindow < file.steps().taken()) {
    const auto [step, connection] = file.sends.front();
    file.sends.pop_front();
    Flow& flow = flows_[connection];
    while (!flow.sends.empty() && flow.sends.front().step <= step) flow.drop_first();
    const auto sent = file.sent.find(step);
    if (sent != file.sent.end() && !sent->second.matched) file.sent.erase(sent);
  }
}

}  // namespace rtrs::tools::sequence
