// A question about the records of a trace, as `urtrs-replay query` takes it:
//   TERM [[not] preceded by TERM | [not] followed by TERM] [within TIME]
//   TERM: EVENT or the name of a moment, and any number of conditions on its fields
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/urtrs-replay/moments.hpp"
#include "tools/urtrs-replay/record_filter.hpp"

namespace rtrs::replay_tool {

struct Term {
  std::string name;
  std::optional<Moment> moment;
  std::vector<FieldTest> tests;
};

struct Question {
  enum class Form : std::uint8_t { alone, preceded, followed };
  Term a, b;
  Form form = Form::alone;
  bool negated = false;
  Nanos within = kNever;  // kNever: anywhere in the trace
};
// Returns nullopt, and the reason in `why`, if the text is no question.
std::optional<Question> parse_question(const std::string& text, std::string& why);

// Answers the question for one trace. A record is compared only with records of its machine, and, where both
// name one, of the same path, permit or chunk, device, and storage operation.
class Asker {
 public:
  // A record that the question asks for; `group` is a result of the function `group_of`.
  struct Hit {
    std::uint64_t record = 0;
    Nanos time = 0;
    std::size_t group = 0;
  };
  using GroupOf = std::function<std::size_t(const trace::Record&)>;
  using Found = std::function<void(const Hit&)>;

  // `partial`: the trace lacks the beginning of the run.
  Asker(const Question& question, const trace::Schema& schema, bool partial, GroupOf group_of, Found found);
  // True if the schema has the events of both terms.
  bool knows_terms() const { return a_.known && (b_.known || question_.form == Question::Form::alone); }
  // Must be called for every record in order. Returns false, and answers nothing more, if more than kMost
  // records wait for an answer.
  bool add(const trace::Record& record);
  // `complete`: the trace has its end. Returns the number of records without an answer, because the trace
  // begins or ends within the time of the question.
  std::uint64_t finish(bool complete);
  static constexpr std::size_t kMost = std::size_t{1} << 17;

 private:
  struct Side {
    const Term* term = nullptr;
    std::vector<bool> events;         // indexed by event number
    std::vector<std::uint8_t> parts;  // different values of parts_of() of these events
    bool known = false;
  };
  struct Key {
    Place place;
    std::uint8_t b_parts = 0;
    bool operator==(const Key&) const = default;
  };
  struct HashOfKey {
    std::size_t operator()(const Key& key) const noexcept;
  };
  struct Waiting {
    Hit hit;
    Place place;
  };
  Side side(const Term& term) const;
  bool matches(const Side& side, const trace::Record& record, std::optional<Moment> moment) const;
  void look_back(const trace::Record& record, const Place& place);
  void look_ahead(const trace::Record& record, const Place& place);
  void remember(const Place& place, Nanos now);
  void resolve(const Place& place, Nanos now);
  void expire(Nanos now);
  void forget(std::map<std::uint64_t, Waiting>::iterator at);

  const Question& question_;
  const trace::Schema& schema_;
  bool partial_;
  GroupOf group_of_;
  Found found_;
  Moments moments_;
  Side a_, b_;
  std::optional<Nanos> first_;
  Nanos now_ = 0;
  std::uint64_t undecided_ = 0;
  std::unordered_map<Key, Nanos, HashOfKey> last_;                     // time of the last record of B
  std::map<std::uint64_t, Waiting> waiting_;                           // records of A by number
  std::unordered_map<Key, std::set<std::uint64_t>, HashOfKey> lists_;  // their numbers by place
};

}  // namespace rtrs::replay_tool
