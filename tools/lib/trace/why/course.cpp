// Finds the way of a request and the time of each stage.
#include <algorithm>

#include "tools/lib/trace/why/request.hpp"

namespace rtrs::tools::why {

namespace {

class Walk {
 public:
  Walk(const Facts& facts, Index io) : facts_(facts) {
    const sequence::Request& request = facts.story().requests[static_cast<std::size_t>(io)];
    course_.io = io;
    course_.first = request.first;
    course_.last = request.last;
  }

  Course run() {
    const Index end = course_.last == kNone ? facts_.count() - 1 : course_.last;
    end_ = facts_.at(end);
    enter(Stage::queue, course_.first);
    if (facts_.is_of(facts_.step(course_.first), Side::server)) course_.spans.back().stage = Stage::server;
    for (Index at = course_.first; at <= end; ++at) {
      const Step& step = facts_.step(at);
      if (step.io == course_.io)
        facts_.is_of(step, Side::client) ? client(at, step) : server(at, step);
      else if (step.event == "PathChanged" && lost_try(step))
        lose(at);
    }
    close(time(end), course_.last);
    for (const Span& span : course_.spans)
      course_.times[span.stage] += static_cast<std::uint64_t>(std::max<std::int64_t>(span.length(), 0));
    course_.took = facts_.at(end) - facts_.at(course_.first);
    return std::move(course_);
  }

 private:
  // Clocks of two files may differ a little: no stage begins before the last one.
  std::int64_t time(Index at) const {
    const std::int64_t now = std::min(facts_.at(at), end_);
    return course_.spans.empty() ? now : std::max(now, course_.spans.back().from);
  }
  void close(std::int64_t to, Index step) {
    if (course_.spans.empty()) return;
    course_.spans.back().to = to;
    course_.spans.back().end = step;
  }
  void enter(Stage stage, Index at) {
    const std::int64_t now = time(at);
    close(now, at);
    course_.spans.push_back({stage, now, now, at, kNone});
  }
  Try& last_try() {
    if (course_.tries.empty()) course_.tries.emplace_back();
    return course_.tries.back();
  }

  bool lost_try(const Step& step) const {
    return path_ != kNone && step.path == path_ && facts_.is_of(step, Side::client) &&
           sequence::value_of(step.fields, "state") != "connected";
  }
  void lose(Index at) {
    last_try().path_lost = at;
    path_ = kNone;
    enter(Stage::queue, at);
  }

  void client(Index at, const Step& step) {
    if (step.event == "PostRequest") {
      course_.tries.emplace_back();
      last_try().posted = at;
      connection_ = step.connection;
      path_ = step.path;
      const bool paired = connection_ != kNone && connection().peer != kNone;
      enter(paired ? Stage::wire_out : Stage::sent, at);
    } else if (step.event == "FailedOver") {
      course_.moves.push_back(at);
    } else if (step.event == "ImmReceived" || step.event == "KeyedResponseReceived") {
      last_try().received = at;
      if (last_try().answered == kNone) resolve_unseen();
      enter(Stage::completion, at);
    }
  }
  // The server's records of this try are not in the traces.
  void resolve_unseen() {
    if (course_.spans.back().stage == Stage::wire_out) course_.spans.back().stage = Stage::sent;
  }

  void server(Index at, const Step& step) {
    const bool ours =
        connection_ == kNone || step.connection == kNone || connection().peer == step.connection;
    if (!ours || (path_ == kNone && connection_ != kNone)) return;
    Try& current = last_try();
    if (step.event == "RequestArrived") {
      current.arrived = at;
      enter(Stage::server, at);
    } else if (step.event == "Deliver") {
      current.delivered = at;
      enter(Stage::storage, at);
    } else if (step.event == "Responded" && current.delivered != kNone) {
      current.stored = at;
      enter(Stage::server, at);
    } else if (step.event == "PostResponse" && current.arrived != kNone) {
      current.answered = at;
      enter(Stage::wire_back, at);
    }
  }

  const sequence::Connection& connection() const {
    return facts_.story().connections[static_cast<std::size_t>(connection_)];
  }

  const Facts& facts_;
  Course course_;
  std::int64_t end_ = 0;
  Index connection_ = kNone;  // of the current try, at the client
  Index path_ = kNone;
};

}  // namespace

const Span* Course::longest() const {
  const Span* found = nullptr;
  const Stage stage = times.longest();
  for (const Span& span : spans)
    if (span.stage == stage && (found == nullptr || span.length() > found->length())) found = &span;
  return found;
}

Course course_of(const Facts& facts, Index io) {
  return Walk(facts, io).run();
}

std::string stage_words(const trace::StageTimes& times) {
  std::string words;
  for (unsigned at = 0; at < trace::kStageCount; ++at) {
    if (times.ns[at] == 0) continue;
    words += (words.empty() ? "" : ", ") + std::string(name_of(static_cast<Stage>(at))) + ' ' +
             duration_words(static_cast<std::int64_t>(times.ns[at]));
  }
  return words.empty() ? "no time in any stage" : words;
}

std::string request_name(const Facts& facts, const Course& course) {
  const sequence::Request& request = facts.story().requests[static_cast<std::size_t>(course.io)];
  std::string message;
  for (const Try& one : course.tries)
    for (const Index at : {one.posted, one.delivered}) {
      if (at == kNone || !message.empty()) continue;
      const std::string& title = facts.step(at).title;
      const std::size_t colon = title.find(": ");
      if (colon != std::string::npos && title.compare(colon + 2, 6, "header") != 0)
        message = title.substr(colon + 2);
    }
  if (message.empty())
    message =
        std::string(request.write ? "write" : "read") + " of " + std::to_string(request.bytes) + " bytes";
  const bool client = facts.is_of(facts.step(course.first), Side::client);
  return message + (client ? ", permit " : ", chunk ") + std::to_string(request.permit);
}

Index request_at(const Facts& facts, Index file, std::uint64_t record) {
  for (Index at = 0; at < facts.count(); ++at) {
    const Step& step = facts.step(at);
    if (step.file == file && step.record == record && step.io != kNone) return step.io;
  }
  return kNone;
}

std::vector<Index> slowest(const Facts& facts, std::int64_t least, std::size_t most) {
  const auto& requests = facts.story().requests;
  const auto took = [&](Index io) {
    const sequence::Request& one = requests[static_cast<std::size_t>(io)];
    return facts.at(one.last) - facts.at(one.first);
  };
  std::vector<Index> all;
  for (Index io = 0; io < static_cast<Index>(requests.size()); ++io) {
    const sequence::Request& one = requests[static_cast<std::size_t>(io)];
    const bool whole = one.first != kNone && one.last != kNone && facts.step(one.last).event != "End" &&
                       !facts.step(one.last).event.starts_with("Begin");
    if (whole && took(io) >= least) all.push_back(io);
  }
  const auto kept = std::min(most, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(),
                    [&](Index a, Index b) { return took(a) != took(b) ? took(a) > took(b) : a < b; });
  all.resize(kept);
  return all;
}

}  // namespace rtrs::tools::why
