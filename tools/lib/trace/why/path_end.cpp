// Why a path ended: the input that ended it, and from there back to the other side.
#include <algorithm>

#include "tools/lib/trace/sequence/explain.hpp"
#include "tools/lib/trace/why/path.hpp"
#include "tools/lib/trace/why/request.hpp"

namespace rtrs::tools::why {

namespace {

Side other(Side side) {
  return side == Side::client ? Side::server : Side::client;
}

class End {
 public:
  End(const Facts& facts, Index change, Answer& answer, int depth)
      : facts_(facts), answer_(answer), change_(change), depth_(depth) {
    side_ = facts.machine_of(facts.step(change)).side;
    path_ = facts.step(change).path;
    input_ = facts.input_of(change);
    // Long work continues in later steps.
    while (input_ > 0 && facts.step(input_).event == "Continued") {
      const Index before = facts.input_before(input_);
      if (before == kNone) break;
      input_ = before;
    }
    reason_ = facts.field(change, "reason");
  }

  void say() {
    if (input_ == kNone) return;
    const std::string_view event = facts_.step(input_).event;
    if (event == "ConnectionLost")
      connection_lost();
    else if (event == "DeadlineReached")
      deadline();
    else if (event == "ConnectFailed")
      connect_failed();
    else if (event == "PeerBroke" || reason_ == "protocol_violation")
      peer_broke();
    else if (event == "FenceRequested")
      asked_by_client("requested over another path that " + name() + " be closed");
    else if (event == "ConnectRequested")
      asked_by_client("connected " + name() + " again");
    else
      say_input();
  }

 private:
  std::string name() const { return facts_.path_name(path_); }
  std::string own() const { return facts_.side_name(facts_.step(change_)); }
  void add(std::string text, std::initializer_list<Index> steps, bool cause = false) {
    std::vector<Ref> records;
    for (const Index at : steps)
      if (at != kNone) records.push_back(facts_.ref(at));
    answer_.say(std::move(text), std::move(records), cause);
  }

  // An operator, the application, or a message.
  void say_input() {
    const Step& step = facts_.step(input_);
    static constexpr std::pair<std::string_view, const char*> kWords[] = {
        {"PathDisconnectRequested", "an operator disconnected "},
        {"PathRemoveRequested", "an operator removed "},
        {"PathReconnectRequested", "an operator reconnected "},
        {"CloseRequested", "the session was closed by request, and with it "},
    };
    if (const Index closed = closed_next(); closed != kNone)
      return add(name() + " was disconnected at " + own() + " because the session was closed by request",
                 {input_, closed}, true);
    for (const auto& [event, words] : kWords) {
      if (step.event != event) continue;
      const Index last =
          event == "CloseRequested" ? facts_.last_of_process(step.file, facts_.at(change_)) : kNone;
      return add(words + name() + " at " + own() + (last == kNone ? "" : ", whose process ended"),
                 {input_, last}, true);
    }
    if (step.event == "DeadlineReached") return add("a timer of " + own() + " was due", {input_});
    if (step.event == "InfoRequested" && facts_.number(input_, "refusal_errno") != 0)
      return add("the server refused the session name: " +
                     sequence::errno_words(facts_.number(input_, "refusal_errno")),
                 {input_}, true);
    add("this followed from " + step.title, {input_});
  }

  // A program that ends disconnects its paths and closes the session at once.
  Index closed_next() const {
    if (facts_.step(input_).event != "PathDisconnectRequested") return kNone;
    for (Index at = input_; at < facts_.count() && facts_.at(at) - facts_.at(input_) < kCloses; ++at) {
      const Step& step = facts_.step(at);
      if (step.machine != facts_.step(change_).machine) continue;
      if (step.event == "CloseRequested") return at;
      const bool connects = step.event == "PathReconnectRequested" || step.event == "PathAdded";
      if (connects && step.path == path_) return kNone;
    }
    return kNone;
  }

  void connection_lost() {
    const Step& input = facts_.step(input_);
    const Index sent = input.peer;
    if (sent != kNone && facts_.field(sent, "reason") == "peer_closed") return lost_by_both(sent);
    if (sent != kNone) {
      add(facts_.connection_name(input_) + " was disconnected by " + facts_.side_name(facts_.step(sent)) +
              ": " + facts_.reason(sent),
          {sent, input_});
      return follow_disconnect(sent);
    }
    add(facts_.connection_name(input_) + " ended at " + own() + ": " + facts_.reason(input_), {input_});
    const std::string code = facts_.field(input_, "reason");
    if (code == "protocol_violation")
      return add("the transport of " + own() + " rejected what arrived: it was damaged on the way, or " +
                     facts_.side_name(other(side_)) + " sent no valid message",
                 {input_}, true);
    if (code != "transport_error" && code != "peer_closed" && code != "unanswered") return;
    if (follow_other_end()) return;
    const std::uint16_t con =
        facts_.story()
            .connections[static_cast<std::size_t>(input.connection == kNone ? 0 : input.connection)]
            .key.con;
    silence(facts_.last_arrival(path_, side_, input_,
                                input.connection == kNone ? std::nullopt : std::optional(con)));
  }

  // Continues with the reason of the other side if that lost the path before, or found a damaged message.
  bool follow_other_end() {
    const Index theirs = depth_ <= 0 ? kNone : facts_.loss_of(path_, other(side_), change_);
    if (theirs == kNone) return false;
    const std::int64_t before = facts_.at(change_) - facts_.at(theirs);
    const bool damaged = facts_.field(theirs, "reason") == "protocol_violation";
    if (before < 0 && !(damaged && before > -kInFlight)) return false;
    add(facts_.side_name(other(side_)) + " had lost " + name() +
            (before <= 0 ? "" : ' ' + duration_words(before) + " before") + ": " + facts_.reason(theirs),
        {theirs});
    say_end(facts_, theirs, answer_, depth_ - 1);
    return true;
  }

  // The other side disconnected only because the connection had ended for it too.
  void lost_by_both(Index sent) {
    add(facts_.connection_name(input_) + " ended at " + own() + ": " + facts_.reason(input_), {input_});
    const Index theirs = facts_.input_of(sent);
    if (theirs == kNone || facts_.step(theirs).event != "ConnectionLost") return;
    add(facts_.connection_name(theirs) + " ended at " + facts_.side_name(facts_.step(theirs)) +
            " too: " + facts_.reason(theirs),
        {theirs}, true);
    if (facts_.step(theirs).peer == kNone)
      answer_.unknown.push_back("what ended " + facts_.connection_name(theirs) +
                                ": no record of either side shows that it was closed there first");
  }

  // The other side disconnected: continues with its reason.
  void follow_disconnect(Index sent) {
    if (depth_ <= 0) return;
    const Index cause = facts_.input_of(sent);
    for (Index at = sent; at < facts_.count(); ++at) {
      const Step& step = facts_.step(at);
      if (step.file != facts_.step(sent).file || step.machine != facts_.step(sent).machine) continue;
      if (facts_.input_of(at) != cause) break;
      if (step.event == "PathChanged" && step.path == path_) return say_end(facts_, at, answer_, depth_ - 1);
    }
    add("the input before: " + facts_.step(cause == kNone ? sent : cause).title,
        {cause == kNone ? sent : cause});
  }

  void deadline() {
    if (reason_ == "request_timeout") return request_timeout();
    if (reason_ == "connect_timeout" || reason_ == "info_timeout" || reason_ == "handshake_timeout")
      return handshake();
    if (reason_ == "connection_silent") return connection_silent();
    if (reason_ != "heartbeat_lost") return say_input();
    const Index last = facts_.last_arrival(path_, side_, change_);
    const Index begin = beginning();
    const std::string what = name();
    if (last == kNone) return add("nothing arrived on " + what + " before", {input_});
    std::string text = "the last message that " + own() + " got on " + what + " was " + facts_.title(last) +
                       ", " + duration_words(facts_.at(change_) - facts_.at(last)) + " before";
    if (begin != kNone && facts_.number(begin, "config.heartbeat.interval") != 0)
      text += " (heartbeat_interval " +
              duration_words(static_cast<std::int64_t>(facts_.number(begin, "config.heartbeat.interval"))) +
              ", heartbeat_missed_max " + facts_.field(begin, "config.heartbeat.missed_max") + ')';
    add(std::move(text), {last});
    silence(last);
  }

  // Finds the record that begins the machine, with its settings.
  Index beginning() const {
    for (Index at = change_; at >= 0; --at)
      if (facts_.step(at).machine == facts_.step(change_).machine &&
          facts_.step(at).event.starts_with("Begin"))
        return at;
    return kNone;
  }

  // The silent connection is the one whose oldest message has had no answer for the longest time.
  void connection_silent() {
    Index waits = kNone, last = kNone;
    for (const sequence::Connection& one : facts_.story().connections) {
      if (one.path != path_ || one.machine != facts_.step(change_).machine) continue;
      const Index heard = facts_.last_arrival(path_, side_, change_, one.key.con);
      if (heard == kNone) continue;
      for (Index at = heard; at < change_; ++at) {
        const Step& step = facts_.step(at);
        const bool sends = step.shape == sequence::Shape::send || step.event == "ProbeDelivery";
        if (!sends || step.connection == kNone || step.group == sequence::Group::wire) continue;
        if (&facts_.story().connections[static_cast<std::size_t>(step.connection)] != &one) continue;
        if (waits == kNone || at < waits) {
          waits = at;
          last = heard;
        }
        break;
      }
    }
    if (waits == kNone) return;
    const Index other = facts_.last_arrival(path_, side_, change_);
    add("nothing arrived on " + facts_.connection_name(waits) + " after " + facts_.title(last) + ", for " +
            duration_words(facts_.at(change_) - facts_.at(last)) + ", although " + own() + " sent " +
            facts_.title(waits),
        {last, waits});
    if (other != kNone && other > last)
      add("another connection of the path delivered " + facts_.title(other), {other});
    silence(last);
  }

  void handshake() {
    Index sent = kNone;
    for (Index at = input_ - 1; at >= 0 && sent == kNone; --at)
      if (facts_.step(at).path == path_ && facts_.is_of(facts_.step(at), side_) &&
          facts_.step(at).group == sequence::Group::connect && facts_.step(at).connection != kNone)
        sent = at;
    if (sent == kNone) return;
    const Step& step = facts_.step(sent);
    add("the last step of connecting was " + step.title + ", " +
            duration_words(facts_.at(change_) - facts_.at(step)) + " before" +
            (facts_.is_lost(sent) ? "; it did not arrive at " + facts_.side_name(other(side_)) : ""),
        {sent});
    silence(sent);
  }

  void request_timeout() {
    const auto& requests = facts_.story().requests;
    for (Index io = 0; io < static_cast<Index>(requests.size()); ++io) {
      const sequence::Request& one = requests[static_cast<std::size_t>(io)];
      if (one.machine != facts_.step(change_).machine || one.first > change_ ||
          (one.last != kNone && one.last < change_))
        continue;
      const Course course = course_of(facts_, io);
      const auto lost = std::find_if(course.tries.begin(), course.tries.end(),
                                     [this](const Try& part) { return part.path_lost == change_; });
      if (lost == course.tries.end()) continue;
      add(request_name(facts_, course) + " was not answered for " +
              duration_words(facts_.at(change_) - facts_.at(lost->posted)),
          {lost->posted});
      for (const Span& span : course.spans)
        if (span.end == change_)
          if (auto cause = cause_of(facts_, course, span)) answer_.sentences.push_back(std::move(*cause));
      return;
    }
  }

  void connect_failed() {
    const Step& input = facts_.step(input_);
    Index connect = kNone;
    for (Index at = input_; at >= 0 && connect == kNone; --at)
      if (facts_.step(at).event == "Connect" && facts_.step(at).connection == input.connection) connect = at;
    const bool answered = facts_.number(input_, "peer_errno") != 0;
    if (const Index reject = input.peer != kNone ? input.peer : rejection(connect);
        answered && reject != kNone) {
      add("the server rejected the connect request of " + facts_.connection_name(input_) + ": " +
              facts_.reason(reject),
          {reject, input_});
      const bool forgotten = facts_.field(reject, "reason") == "unknown_session";
      const Index begin = forgotten ? facts_.begin_again(Side::server, reject) : kNone;
      answer_.sentences.back().cause = begin == kNone;
      if (begin != kNone)
        add("the process of the server had ended and begun again " +
                duration_words(facts_.at(reject) - facts_.at(begin)) +
                " before, and does not know earlier sessions",
            {begin}, true);
      return;
    }
    std::string text =
        "the connect request of " + facts_.connection_name(input_) + " failed: " + facts_.reason(input_);
    if (connect != kNone)
      text += ", " + duration_words(facts_.at(input) - facts_.at(connect)) + " after it was sent";
    const std::string code = facts_.field(input_, "reason");
    const bool silent = code == "connect_timeout" || code == "unanswered";
    if (connect != kNone && facts_.is_lost(connect) && silent) text += "; it did not arrive at the server";
    if (code == "connect_refused") text += "; the host of the address answered that nothing listens there";
    const Index rejected = answered ? wire_rejection(connect) : kNone;
    if (rejected != kNone)
      text += "; an access rule or a key of the server refused it before a session saw it";
    add(std::move(text), {connect, rejected, input_}, !silent);
    if (answered && !facts_.has(Side::server))
      answer_.unknown.push_back("why the server rejected it: there is no trace of the server");
    if (connect != kNone && silent) silence(connect);
  }

  // Finds the rejection in the wire notes of the server if its registry did not record one.
  Index wire_rejection(Index connect) const {
    for (Index at = input_ - 1; at >= 0 && at > connect; --at)
      if (facts_.step(at).event == "WireCm" && facts_.field(at, "kind") == "rej" &&
          facts_.field(at, "sent") == "true")
        return at;
    return kNone;
  }

  // A server rejects without a session in its registry, which knows no connection: finds the last rejection
  // with this errno before it arrived.
  Index rejection(Index connect) const {
    for (Index at = input_ - 1; at >= 0 && at > connect; --at)
      if (facts_.step(at).event == "Reject" && facts_.step(at).peer == kNone &&
          facts_.number(at, "peer_errno") == facts_.number(input_, "peer_errno"))
        return at;
    return kNone;
  }

  void peer_broke() {
    const Index last = facts_.last_arrival(path_, side_, input_);
    add(facts_.side_name(other(side_)) + " violated the protocol on " + facts_.connection_name(input_) +
            ": " +
            (facts_.step(input_).event == "PeerBroke" ? facts_.field(input_, "why")
                                                      : "it sent " + facts_.title(input_)),
        {input_}, true);
    if (last == kNone) return;
    add("the message that " + own() + " accepted before was " + facts_.title(last), {last});
  }

  // The client asked the server to end the path. Continues with the reason of the client.
  void asked_by_client(const std::string& what) {
    const Index sent = facts_.step(input_).peer;
    add("the client " + what + ": " + facts_.title(input_), {sent, input_});
    if (sent == kNone && !facts_.has(Side::client))
      answer_.unknown.push_back("why the client did that: there is no trace of the client");
    if (sent == kNone || depth_ <= 0) return;
    for (Index at = sent; at >= 0; --at) {
      const Step& step = facts_.step(at);
      if (step.event != "PathChanged" || step.path != path_ || !facts_.is_of(step, Side::client)) continue;
      const std::string state = facts_.field(at, "state");
      if (state == "connected") return;
      if (state != "draining" && state != "closing") continue;
      add("before, the client had lost " + name() + ": " + facts_.reason(at), {at});
      return say_end(facts_, at, answer_, depth_ - 1);
    }
  }

  void silence(Index last) {
    const std::int64_t to = facts_.at(change_);
    say_silence(facts_, path_, side_, last == kNone ? to : facts_.at(last), change_, answer_);
  }

  const Facts& facts_;
  Answer& answer_;
  Index change_, input_ = kNone, path_ = kNone;
  Side side_ = Side::client;
  std::string reason_;
  int depth_;
};

}  // namespace

void say_end(const Facts& facts, Index change, Answer& answer, int depth) {
  End(facts, change, answer, depth).say();
}

}  // namespace rtrs::tools::why
