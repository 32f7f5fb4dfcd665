#include "tools/lib/trace/why/facts.hpp"

#include <algorithm>

#include "core/proto/reasons.hpp"
#include "core/record/schema.hpp"
#include "tools/lib/trace/hangs/pauses.hpp"
#include "tools/lib/trace/sequence/explain.hpp"

namespace rtrs::tools::why {

namespace {
constexpr std::uint64_t kLongestInterval = 3'600'000'000'000;  // of heartbeats, in ns
}

const char* to_string(Subject subject) noexcept {
  switch (subject) {
    case Subject::nothing:
      return "nothing";
    case Subject::violation:
      return "violation";
    case Subject::request:
      return "request";
    case Subject::path:
      return "path";
    case Subject::device:
      return "device";
  }
  return "unknown";
}

void Answer::shorten() {
  for (auto at = sentences.end(); sentences.size() > kMostSentences && at != sentences.begin();) {
    --at;
    if (!at->cause) at = sentences.erase(at);
  }
}

bool is_input(std::string_view event) {
  const trace::EventInfo* info = trace::builtin_schema().find(event);
  return info != nullptr && info->category == trace::EventClass::input;
}

std::string many(std::uint64_t count, const char* one, const char* several) {
  return std::to_string(count) + ' ' + (count == 1 ? one : several);
}

std::string Facts::reason(Index at) const {
  const std::string code = field(at, "reason");
  std::string words = code;
  if (const ReasonText* text = text_of(std::string_view(code)))
    words += std::string(" (") + text->sentence + ')';
  if (number(at, "peer_errno") != 0) words += ", " + sequence::errno_words(number(at, "peer_errno"));
  return words;
}

std::string Facts::path_name(Index path) const {
  if (path == kNone) return "an unknown path";
  const sequence::Path& one = story_.paths[static_cast<std::size_t>(path)];
  std::string name = "path " + std::to_string(one.number);
  if (story_.clients.size() > 1) name += " of " + story_.clients[static_cast<std::size_t>(one.owner)].name;
  return name;
}

std::string Facts::side_name(const Step& step) const {
  if (step.machine == kNone || machine_of(step).side == Side::server) return "the server";
  if (story_.clients.size() > 1)
    for (const sequence::ClientView& client : story_.clients)
      if (client.file == step.file && client.instance == machine_of(step).instance) return client.name;
  return "the client";
}
std::string Facts::side_name(Side side) const {
  return side == Side::client ? "the client" : "the server";
}

Facts::Facts(const Story& story)
    : story_(story), ends_(story.files.size(), 0), idle_(story.files.size(), trace::PauseFinder::kLate) {
  for (const Step& one : story.steps) {
    const auto file_at = static_cast<std::size_t>(one.file);
    if (one.event != sequence::kPauseEvent) ends_[file_at] = at(one);
    if (!one.event.starts_with("Begin")) continue;
    const std::uint64_t interval = sequence::number_of(one.fields, "config.heartbeat.interval");
    idle_[file_at] = std::max(idle_[file_at], static_cast<std::int64_t>(std::min(interval, kLongestInterval) +
                                                                        trace::PauseFinder::kLate));
  }
}

// The trace of a process that was killed lacks its last records.
bool Facts::is_lost(Index at) const {
  const Step& one = step(at);
  if (!one.lost || one.machine == kNone) return false;
  const Side side = machine_of(one).side;
  const Index other = other_file(one.path, side, at + 1);
  return other != kNone && ends_[static_cast<std::size_t>(other)] > this->at(one);
}

std::string Facts::title(Index at) const {
  const std::string& title = step(at).title;
  return title.substr(0, title.find(": header of "));
}

std::string Facts::connection_name(Index at) const {
  const Step& one = step(at);
  if (one.connection == kNone) return path_name(one.path);
  const sequence::Connection& connection = story_.connections[static_cast<std::size_t>(one.connection)];
  return "connection " + std::to_string(connection.key.con) + " of " + path_name(one.path);
}

Index Facts::input_of(Index at) const {
  return previous_input(at, at);
}

// Returns the last input of the machine of step `of` that is not after `from`.
Index Facts::previous_input(Index of, Index from) const {
  const Step& action = step(of);
  for (Index before = from; before >= 0; --before) {
    const Step& one = step(before);
    if (one.file == action.file && one.machine == action.machine && is_input(one.event)) return before;
  }
  return kNone;
}

namespace {
bool arrives(const Step& step) {
  return step.shape == sequence::Shape::receive && step.group != sequence::Group::wire &&
         step.event != "ConnectionLost" && step.event != "ConnectFailed";
}
}  // namespace

Index Facts::last_arrival(Index path, Side side, Index before, std::optional<std::uint16_t> con) const {
  for (Index at = before - 1; at >= 0; --at) {
    const Step& one = step(at);
    if (one.path != path || !is_of(one, side) || !arrives(one) || one.connection == kNone) continue;
    if (con && story_.connections[static_cast<std::size_t>(one.connection)].key.con != *con) continue;
    return at;
  }
  return kNone;
}

Index Facts::last_of(Index file_at, std::int64_t before) const {
  Index last = kNone;
  for (Index at = 0; at < count(); ++at) {
    const Step& one = step(at);
    if (one.file == file_at && one.event != sequence::kPauseEvent && common(file_at, one.time) < before)
      last = at;
  }
  return last;
}

Index Facts::last_of_process(Index file_at, std::int64_t after) const {
  constexpr std::int64_t kSecond = 1'000'000'000;
  if (!file(file_at).stopped.empty() || end_of(file_at) - after > kSecond) return kNone;
  const std::int64_t newest = *std::max_element(ends_.begin(), ends_.end());
  constexpr std::int64_t kOutlived = 100'000'000;
  return newest - end_of(file_at) < kOutlived ? kNone : last_of(file_at, newest);
}

Index Facts::begin_again(Side side, Index until) const {
  Index found = kNone;
  bool earlier = false;  // there is a record of an earlier process
  for (Index at = 0; at < until; ++at) {
    if (!is_of(step(at), side)) continue;
    const sequence::Machine& machine = machine_of(step(at));
    const bool begins = step(at).event.starts_with("Begin") && (machine.registry || side == Side::client);
    if (begins && earlier) found = at;
    earlier = true;
  }
  return found;
}

Index Facts::loss_of(Index path, Side side, Index until) const {
  bool connected = false;
  Index lost = kNone;
  for (Index at = 0; at < count(); ++at) {
    const Step& one = step(at);
    if (one.path != path || one.event != "PathChanged" || !is_of(one, side)) continue;
    if (field(at, "state") == "connected") {
      if (at > until) break;
      connected = true;
      lost = kNone;
    } else if (connected && lost == kNone) {
      lost = at;
    }
  }
  return lost;
}

Index Facts::other_file(Index path, Side side, Index before) const {
  Index file_at = kNone, newest = kNone;
  const auto file_of = [this](const sequence::Connection& one) {
    return story_.machines[static_cast<std::size_t>(one.machine)].file;
  };
  for (const sequence::Connection& one : story_.connections) {
    if (one.path != path || story_.machines[static_cast<std::size_t>(one.machine)].side != side) continue;
    if (one.peer == kNone || one.sent.empty()) continue;
    const Index begun = one.sent.front();
    if (begun >= before || begun < newest) continue;
    newest = begun;
    file_at = file_of(story_.connections[static_cast<std::size_t>(one.peer)]);
  }
  if (file_at != kNone) return file_at;
  const Side other = side == Side::client ? Side::server : Side::client;
  Index only = kNone;
  for (Index at = 0; at < static_cast<Index>(story_.files.size()); ++at) {
    if (other == Side::client ? !file(at).has_client : !file(at).has_server) continue;
    if (only != kNone) return kNone;
    only = at;
  }
  return only;
}

Index Facts::last_change(Index path, Side side, Index before) const {
  for (Index at = before - 1; at >= 0; --at) {
    const Step& one = step(at);
    if (one.path == path && one.event == "PathChanged" && is_of(one, side)) return at;
  }
  return kNone;
}

}  // namespace rtrs::tools::why
