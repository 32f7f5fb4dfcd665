#include "tools/lib/trace/sequence/answer.hpp"

#include <algorithm>
#include <cstdio>

#include "core/proto/reasons.hpp"

namespace rtrs::tools::sequence {

namespace {

using trace::At;

std::string number_words(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3;) text.insert(at -= 3, ",");
  return text;
}
std::string count_words(std::uint64_t number, const char* one, const char* many) {
  return number_words(number) + ' ' + (number == 1 ? one : many);
}

std::string length_words(std::int64_t ns) {
  char text[40];
  if (ns < 1'000'000)
    std::snprintf(text, sizeof text, "%.1f us", static_cast<double>(ns) / 1e3);
  else if (ns < 1'000'000'000)
    std::snprintf(text, sizeof text, "%.2f ms", static_cast<double>(ns) / 1e6);
  else
    std::snprintf(text, sizeof text, "%.2f s", static_cast<double>(ns) / 1e9);
  return text;
}

std::string reason_words(const std::string& reason) {
  const ReasonText* text = text_of(std::string_view(reason));
  return text == nullptr ? reason : text->sentence;
}

class Maker {
 public:
  Maker(const Story& story, const PageFacts& facts) : story_(story), facts_(facts) {}

  Answer make() {
    add_failure();
    add_violations();
    add_unanswered();
    add_broken();
    add_failed();
    add_links();
    add_losses();
    add_pauses();
    add_slowest();
    give_verdict();
    tell_unknown();
    return std::move(answer_);
  }

 private:
  // Seconds, more precisely in a short run.
  std::string time_words(std::int64_t at) const {
    constexpr std::int64_t kShort = 1'000'000'000;
    char text[40];
    std::snprintf(text, sizeof text, story_.length < kShort ? "%.6f s" : "%.3f s",
                  static_cast<double>(at) / 1e9);
    return text;
  }
  AnswerRow& row(const char* kind, const char* label, Tone tone) {
    answer_.rows.push_back({kind, label, tone, true, 0, {}});
    return answer_.rows.back();
  }
  AnswerItem item(std::size_t file, const At& from, const std::optional<At>& to, std::string text) const {
    AnswerItem one;
    one.text = std::move(text);
    one.file = static_cast<Index>(file);
    one.at = common_time(story_, one.file, from.time);
    one.until = to ? common_time(story_, one.file, to->time) : one.at;
    one.record = from.record;
    one.end_record = to ? to->record : from.record;
    return one;
  }
  template <class Visit>
  void each_trace(Visit visit) const {
    for (std::size_t file = 0; file < facts_.summary->traces.size(); ++file)
      visit(file, *facts_.summary->traces[file]);
  }
  // Returns "client 2 " if there are several clients.
  std::string client_of(std::size_t file, unsigned instance) const {
    if (story_.clients.size() < 2) return "";
    for (const ClientView& client : story_.clients)
      if (client.file == static_cast<Index>(file) && client.instance == instance) return client.name + ' ';
    return "";
  }
  std::string file_name(std::size_t file) const {
    const std::string& name = story_.files[file].name;
    return name.substr(name.rfind('/') + 1);
  }
  // Adds a sentence to the verdict. The first one determines the tone.
  void say(Tone tone, const std::string& sentence) {
    if (answer_.verdict.empty()) answer_.tone = tone;
    if (said_ == 2) return;
    answer_.verdict += (said_++ == 0 ? "" : " ") + sentence;
  }

  void add_failure() {
    AnswerRow& oracle = row("oracle", "failed oracle", Tone::bad);
    if (!facts_.failure) return;
    AnswerItem one;
    one.text = facts_.failure->text;
    one.at = one.until = facts_.failure->at;
    if (!story_.marks.empty()) {
      const Step& step = story_.steps[static_cast<std::size_t>(story_.marks.back().step)];
      one.file = step.file;
      one.record = one.end_record = step.record;
    }
    oracle.count = 1;
    say(Tone::bad, "The run fails at " + time_words(one.at) + ": " + one.text + ".");
    oracle.items.push_back(std::move(one));
  }

  void add_violations() {
    const std::size_t marks = story_.marks.size() - (facts_.failure && !story_.marks.empty() ? 1 : 0);
    AnswerRow& violations = row("violation", "violations", Tone::bad);
    violations.count = marks;
    for (std::size_t i = 0; i < marks; ++i) {
      const Step& step = story_.steps[static_cast<std::size_t>(story_.marks[i].step)];
      violations.items.push_back(
          {story_.marks[i].text, step.at, step.at, step.file, step.record, step.record});
    }
    if (marks != 0)
      say(Tone::bad, count_words(marks, "violation", "violations") + " of the protocol, the first at " +
                         time_words(violations.items.front().at) + ": " + violations.items.front().text +
                         ".");
  }

  void add_unanswered() {
    AnswerRow& hangs = row("unanswered", "unanswered", Tone::bad);
    const auto all = facts_.summary->hangs.unanswered();
    hangs.count = all.size();
    const trace::Unanswered* oldest = nullptr;
    for (const trace::Unanswered& one : all) {
      if (oldest == nullptr || one.age > oldest->age) oldest = &one;
      if (hangs.items.size() == kItems) continue;
      const auto& request = one.request;
      hangs.items.push_back(item(
          one.trace, {request.begun.record, request.begun.time}, At{request.last.record, request.last.time},
          request_words(one) + ", for " + length_words(static_cast<std::int64_t>(one.age)) + ": " +
              words_of(one.stage)));
      hangs.items.back().until = hangs.items.back().at + static_cast<std::int64_t>(one.age);
    }
    if (oldest != nullptr)
      say(Tone::bad, count_words(all.size(), "request has", "requests have") +
                         " no answer: " + (all.size() == 1 ? "" : "the oldest, ") + request_words(*oldest) +
                         ", has waited for " + length_words(static_cast<std::int64_t>(oldest->age)) + "; " +
                         words_of(oldest->stage) + ".");
  }

  void add_broken() {
    AnswerRow& broken = row("ended", "session ended", Tone::bad);
    each_trace([&](std::size_t file, const trace::TraceSummary& one) {
      broken.count += one.broken_sessions().count();
      for (const auto& [at, reason] : one.broken_sessions().kept())
        broken.items.push_back(item(file, at, {}, reason_words(reason)));
    });
    if (broken.count != 0)
      say(Tone::bad, "A session ended at " + time_words(broken.items.front().at) + ": " +
                         broken.items.front().text + ".");
  }

  void add_failed() {
    AnswerRow& failed = row("failed", "failed IOs", Tone::bad);
    std::uint64_t requests = 0;
    each_side([&](std::size_t file, const trace::TraceSummary::Side& side) {
      failed.count += side.failed;
      requests += side.completed;
      if (side.first_failed)
        failed.items.push_back(
            item(file, *side.first_failed, {}, "the first of " + number_words(side.failed)));
    });
    if (failed.count != 0)
      say(Tone::bad, number_words(failed.count) + " of " + number_words(requests) +
                         " IOs failed, the first at " + time_words(failed.items.front().at) + ".");
  }

  void add_links() {
    AnswerRow& links = row("link", "no path", Tone::bad);
    each_trace([&](std::size_t file, const trace::TraceSummary& one) {
      links.count += one.link_losses().count();
      for (const trace::LinkLoss& loss : one.link_losses().kept()) {
        AnswerItem at = item(file, loss.from, loss.to, client_of(file, loss.instance));
        at.text += at_words(at, loss.to) + ", " + count_words(loss.waiting, "IO", "IOs") + " in flight";
        links.items.push_back(std::move(at));
      }
    });
    const AnswerItem* longest = longest_of(links);
    if (longest != nullptr && longest->until > longest->at)
      say(Tone::warning, "No path was connected for " + length_words(longest->until - longest->at) +
                             " from " + time_words(longest->at) + " on" + cause_at(longest->at) + ".");
    else if (longest != nullptr)
      say(Tone::bad, "No path was connected from " + time_words(longest->at) + " to the end" +
                         cause_at(longest->at) + ".");
  }

  std::string at_words(const AnswerItem& at, const std::optional<At>& to) const {
    return "at " + time_words(at.at) + (to ? " for " + length_words(at.until - at.at) : " to the end");
  }

  void add_losses() {
    answer_.rows.reserve(answer_.rows.size() + 2);
    AnswerRow& losses = row("path", "lost paths", Tone::warning);
    AnswerRow& moved = row("failover", "failovers", Tone::warning);
    each_trace([&](std::size_t file, const trace::TraceSummary& one) {
      for (const trace::PathLoss& loss : one.path_losses().kept()) add_loss(file, loss, losses, moved);
      losses.count += one.path_losses().count() - one.path_losses().kept().size();
    });
    if (losses.count == 0 || losses.items.empty()) return;
    const AnswerItem& first = losses.items.front();
    if (losses.count == 1)
      say(Tone::warning, "Lost: " + first.text + ".");
    else if (answer_of("link").count == 0)
      say(Tone::warning,
          "A path was lost " + number_words(losses.count) + " times, first " + first.text + ".");
    if (moved.count != 0)
      say(Tone::warning, count_words(moved.count, "IO", "IOs") + " failed over" +
                             (answer_of("failed").count == 0 ? ", none failed." : "."));
  }

  void add_loss(std::size_t file, const trace::PathLoss& loss, AnswerRow& losses, AnswerRow& moved) const {
    ++losses.count;
    const std::string path = client_of(file, loss.instance) + "path " + std::to_string(loss.path);
    AnswerItem at = item(file, loss.from, loss.to, path + ' ');
    at.text += at_words(at, loss.to) + (loss.reason.empty() ? "" : ": " + reason_words(loss.reason));
    if (loss.attempts != 0)
      at.text += ", " + count_words(loss.attempts, "attempt", "attempts") + " to connect failed";
    losses.items.push_back(std::move(at));
    if (loss.failovers == 0) return;
    moved.count += loss.failovers;
    moved.items.push_back(
        item(file, *loss.failed_over, {}, count_words(loss.failovers, "IO", "IOs") + " of " + path));
  }

  void add_pauses() {
    AnswerRow& pauses = row("pause", "pauses", Tone::warning);
    each_trace([&](std::size_t file, const trace::TraceSummary&) {
      for (const Pause& pause : story_.files[file].pauses) {
        ++pauses.count;
        if (pauses.items.size() == kItems) continue;
        AnswerItem one = item(file, {pause.record, pause.from}, At{pause.record, pause.to}, "");
        one.text = "the process of " + file_name(file) + " did not run from " + time_words(one.at) + " for " +
                   length_words(one.until - one.at);
        pauses.items.push_back(std::move(one));
      }
    });
    if (const AnswerItem* longest = longest_of(pauses)) {
      std::string text = longest->text;
      text[0] = 'T';
      say(Tone::warning, text + ".");
    }
  }

  // Calls `visit` for the clients of each trace; without any, for the servers.
  template <class Visit>
  void each_side(Visit visit) const {
    bool clients = false;
    each_trace([&](std::size_t, const trace::TraceSummary& one) { clients |= one.clients().completed != 0; });
    each_trace([&](std::size_t file, const trace::TraceSummary& one) {
      visit(file, clients ? one.clients() : one.servers());
    });
  }

  void add_slowest() {
    AnswerRow& longest = row("slowest", "longest IO", Tone::normal);
    Nanos most = 0;
    each_side([&](std::size_t file, const trace::TraceSummary::Side& side) {
      completed_ += side.completed;
      if (!side.slowest || side.slowest->took < most) return;
      const trace::Slow& slow = *side.slowest;
      most = slow.took;
      longest.count = 1;
      longest.items.assign(1,
                           item(file, {slow.record, slow.since}, At{slow.end, slow.since + slow.took}, ""));
      longest.items[0].text = length_words(static_cast<std::int64_t>(slow.took)) +
                              (slow.write ? ", a write from " : ", a read from ") +
                              time_words(longest.items[0].at) + " on, answered over path " +
                              std::to_string(slow.path);
    });
  }

  const AnswerRow& answer_of(std::string_view kind) const {
    return *std::find_if(answer_.rows.begin(), answer_.rows.end(),
                         [kind](const AnswerRow& one) { return kind == one.kind; });
  }
  static const AnswerItem* longest_of(const AnswerRow& all) {
    const auto longest = std::max_element(
        all.items.begin(), all.items.end(),
        [](const AnswerItem& a, const AnswerItem& b) { return a.until - a.at < b.until - b.at; });
    return longest == all.items.end() ? nullptr : &*longest;
  }

  // Returns ": reason" of the path that was lost at this time.
  std::string cause_at(std::int64_t at) const {
    std::string cause;
    each_trace([&](std::size_t file, const trace::TraceSummary& one) {
      for (const trace::PathLoss& loss : one.path_losses().kept())
        if (common_time(story_, static_cast<Index>(file), loss.from.time) == at && !loss.reason.empty())
          cause = ": " + reason_words(loss.reason);
    });
    return cause;
  }

  bool has_dump() const {
    bool dump = false;
    each_trace([&](std::size_t, const trace::TraceSummary& one) { dump |= one.counts_only(); });
    return dump;
  }

  void tell_unknown() {
    if (!has_dump()) return;
    for (AnswerRow& one : answer_.rows)
      for (const std::string_view kind : {"ended", "failed", "link", "path", "failover", "slowest"})
        if (one.kind == kind) one.known = one.count != 0;
  }

  void give_verdict() {
    const AnswerRow& longest = answer_.rows.back();
    const std::string slow =
        longest.items.empty()
            ? ""
            : " The longest took " + longest.items[0].text.substr(0, longest.items[0].text.find(','));
    if (answer_.verdict.empty() && has_dump())
      say(Tone::normal, "No request lacks its answer; a dump of the ring does not tell what else happened.");
    else if (answer_.verdict.empty())
      say(Tone::good, completed_ == 0 ? "No path was lost; the traces contain no answered IO."
                                      : "No path was lost, and all " + count_words(completed_, "IO", "IOs") +
                                            " succeeded." + slow + ".");
    else if (answer_.tone == Tone::warning && !slow.empty())
      answer_.verdict +=
          (answer_of("failed").count == 0 && answer_of("failover").count == 0
               ? " All " + count_words(completed_, "answered IO", "answered IOs") + " succeeded."
               : "") +
          slow + ".";
  }

  static constexpr std::size_t kItems = 128;  // of one row
  const Story& story_;
  const PageFacts& facts_;
  Answer answer_;
  unsigned said_ = 0;
  std::uint64_t completed_ = 0;
};

}  // namespace

std::int64_t common_time(const Story& story, Index file, Nanos time) noexcept {
  const TraceFile& one = story.files[static_cast<std::size_t>(file)];
  return static_cast<std::int64_t>(time - static_cast<Nanos>(one.times.zero()));
}

std::string seq_command(const std::vector<std::string>& files) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+:=@%,";
  std::string command = "urtrs-replay seq";
  for (const std::string& file : files) {
    const bool plain = !file.empty() && file.find_first_not_of(kPlain) == std::string::npos;
    command += plain ? " " : " '";
    for (const char c : file) command += c == '\'' ? std::string("'\\''") : std::string(1, c);
    if (!plain) command += '\'';
  }
  return command;
}

Answer make_answer(const Story& story, const PageFacts& facts) {
  return Maker(story, facts).make();
}

}  // namespace rtrs::tools::sequence
