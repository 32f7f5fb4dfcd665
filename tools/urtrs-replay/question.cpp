#include "tools/urtrs-replay/question.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "backends/options/quantity.hpp"

namespace rtrs::replay_tool {

namespace {

// Splits at blanks, but not within double quotes.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  bool quoted = false, inside = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    const bool blank = !quoted && (c == ' ' || c == '\t' || c == '\n');
    if (!blank && !inside) words.emplace_back();
    if (!blank) words.back() += c;
    inside = !blank;
  }
  return words;
}

using Words = std::span<const std::string>;

// Returns the number of words that the term takes; 0 after an error.
std::size_t parse_term(Words words, Term& term, std::string& why) {
  if (words.empty() || words[0].find_first_of("=<>!") != std::string::npos) {
    why = "expected the name of an event" + (words.empty() ? std::string() : ", got '" + words[0] + "'");
    return 0;
  }
  term.name = words[0];
  term.moment = moment_named(term.name);
  std::size_t used = 1;
  for (; used < words.size() && words[used].find_first_of("=<>!") != std::string::npos; ++used) {
    const auto test = FieldTest::parse(words[used]);
    if (!test) {
      why = "'" + words[used] + "' is not NAME=VALUE, NAME!=VALUE, NAME<NUMBER or NAME>NUMBER";
      return 0;
    }
    term.tests.push_back(*test);
  }
  return used;
}

bool parse_link(Words& words, Question& question) {
  if (words.front() == "not") {
    question.negated = true;
    words = words.subspan(1);
  }
  if (words.size() < 2 || words[1] != "by" || (words[0] != "preceded" && words[0] != "followed"))
    return false;
  question.form = words[0] == "preceded" ? Question::Form::preceded : Question::Form::followed;
  words = words.subspan(2);
  return true;
}

Nanos elapsed(Nanos from, Nanos to) {
  return to > from ? to - from : 0;
}

}  // namespace

std::optional<Question> parse_question(const std::string& text, std::string& why) {
  const std::vector<std::string> split = words_of(text);
  Words words = split;
  Question question;
  std::size_t used = parse_term(words, question.a, why);
  if (used == 0) return std::nullopt;
  words = words.subspan(used);
  if (words.empty()) return question;
  const std::string unexpected = words.front();
  if (!parse_link(words, question)) {
    why = "expected a condition on a field, 'preceded by' or 'followed by' (both also after 'not'), got '" +
          unexpected + "'";
    return std::nullopt;
  }
  used = parse_term(words, question.b, why);
  if (used == 0) return std::nullopt;
  words = words.subspan(used);
  if (words.empty()) return question;
  const auto within = words[0] == "within" && words.size() == 2
                          ? options::parse_duration(words[1])
                          : tl::make_unexpected("expected 'within TIME' at the end, got '" + words[0] + "'");
  if (!within) {
    why = within.error();
    return std::nullopt;
  }
  question.within = *within;
  return question;
}

std::size_t Asker::HashOfKey::operator()(const Key& key) const noexcept {
  std::uint64_t hash =
      key.place.instance + (std::uint64_t{key.place.has} << 16) + (std::uint64_t{key.b_parts} << 24);
  for (const std::uint64_t value : key.place.value) hash = (hash ^ value) * 0x9e3779b97f4a7c15 + (hash >> 29);
  return hash;
}

Asker::Asker(const Question& question, const trace::Schema& schema, bool partial, GroupOf group_of,
             Found found)
    : question_(question),
      schema_(schema),
      partial_(partial),
      group_of_(std::move(group_of)),
      found_(std::move(found)),
      moments_(schema),
      a_(side(question.a)),
      b_(side(question.b)) {}

Asker::Side Asker::side(const Term& term) const {
  Side side;
  side.term = &term;
  side.events.resize(schema_.events.back().id + std::size_t{1});
  for (const trace::EventInfo& event : schema_.events) {
    if (!is_named(term.moment ? event_of(*term.moment) : term.name, event.name)) continue;
    side.events[event.id] = side.known = true;
    const std::uint8_t parts = parts_of(event);
    if (std::find(side.parts.begin(), side.parts.end(), parts) == side.parts.end())
      side.parts.push_back(parts);
  }
  return side;
}

bool Asker::matches(const Side& side, const trace::Record& record, std::optional<Moment> moment) const {
  if (!side.events[record.event->id] || (side.term->moment && side.term->moment != moment)) return false;
  const tools::sequence::Fields fields(record, schema_);
  return std::all_of(side.term->tests.begin(), side.term->tests.end(),
                     [&fields](const FieldTest& test) { return test.holds(fields); });
}

bool Asker::add(const trace::Record& record) {
  now_ = record.time;
  if (!first_) first_ = now_;
  if (!waiting_.empty()) expire(now_);
  const auto moment = moments_.of(record);
  const bool is_a = matches(a_, record, moment);
  const bool is_b = question_.form != Question::Form::alone && matches(b_, record, moment);
  if (!is_a && !is_b) return true;
  if (question_.form == Question::Form::alone) {
    found_({record.seq, record.time, group_of_(record)});
    return true;
  }
  const Place place = place_of(record, schema_);
  const bool back = question_.form == Question::Form::preceded;
  // A record of both kinds neither precedes nor follows itself.
  if (is_b && !back) resolve(place, now_);
  if (is_a && back) look_back(record, place);
  if (is_a && !back) look_ahead(record, place);
  if (is_b && back) remember(place, now_);
  return waiting_.size() <= kMost && last_.size() <= kMost;
}

void Asker::look_back(const trace::Record& record, const Place& place) {
  const bool preceded = std::any_of(b_.parts.begin(), b_.parts.end(), [&](std::uint8_t parts) {
    const auto at = last_.find({place.only(parts), parts});
    return at != last_.end() && elapsed(at->second, record.time) <= question_.within;
  });
  const bool decided = preceded || !partial_ || elapsed(*first_, record.time) > question_.within;
  if (!decided)
    ++undecided_;
  else if (preceded != question_.negated)
    found_({record.seq, record.time, group_of_(record)});
}

void Asker::remember(const Place& place, Nanos now) {
  if (last_.size() >= kMost)
    std::erase_if(last_, [&](const auto& one) { return elapsed(one.second, now) > question_.within; });
  for (const std::uint8_t parts : a_.parts) last_[{place.only(parts), place.has}] = now;
}

void Asker::look_ahead(const trace::Record& record, const Place& place) {
  waiting_.emplace(record.seq, Waiting{{record.seq, record.time, group_of_(record)}, place});
  for (const std::uint8_t parts : b_.parts) lists_[{place.only(parts), parts}].insert(record.seq);
}

void Asker::forget(std::map<std::uint64_t, Waiting>::iterator at) {
  for (const std::uint8_t parts : b_.parts) {
    const auto list = lists_.find({at->second.place.only(parts), parts});
    if (list == lists_.end()) continue;
    list->second.erase(at->first);
    if (list->second.empty()) lists_.erase(list);
  }
  waiting_.erase(at);
}

void Asker::resolve(const Place& place, Nanos now) {
  std::set<std::uint64_t> answered;
  for (const std::uint8_t parts : a_.parts) {
    const auto list = lists_.find({place.only(parts), place.has});
    if (list != lists_.end()) answered.insert(list->second.begin(), list->second.end());
  }
  for (const std::uint64_t number : answered) {
    const auto at = waiting_.find(number);
    if ((elapsed(at->second.hit.time, now) <= question_.within) != question_.negated) found_(at->second.hit);
    forget(at);
  }
}

void Asker::expire(Nanos now) {
  while (!waiting_.empty() && elapsed(waiting_.begin()->second.hit.time, now) > question_.within) {
    if (question_.negated) found_(waiting_.begin()->second.hit);
    forget(waiting_.begin());
  }
}

std::uint64_t Asker::finish(bool complete) {
  const bool decided = complete && question_.within == kNever;
  if (!decided) undecided_ += waiting_.size();
  if (decided && question_.negated)
    for (const auto& [number, one] : waiting_) found_(one.hit);
  return undecided_;
}

}  // namespace rtrs::replay_tool
