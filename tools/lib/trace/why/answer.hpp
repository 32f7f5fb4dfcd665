// Answer to "why did this happen": sentences in the order from the effect back to its causes, then what
// followed. Each sentence names the records that prove it.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/lib/trace/sequence/story.hpp"

namespace rtrs::tools::why {

inline constexpr std::size_t kMostSentences = 10;

// A record of a trace.
struct Ref {
  sequence::Index file = sequence::kNone;
  std::uint64_t record = 0;
  Nanos time = 0;  // on the clock of the trace
  bool operator==(const Ref&) const = default;
};

struct Sentence {
  std::string text;  // without a full stop
  std::vector<Ref> records;
  bool cause = false;  // the earliest cause that the traces show
};

enum class Subject : std::uint8_t { nothing, violation, request, path, device };
const char* to_string(Subject) noexcept;

struct Answer {
  Subject subject = Subject::nothing;
  std::string title;  // what happened
  std::vector<Sentence> sentences;
  std::vector<std::string> unknown;  // what the traces do not tell
  std::vector<std::string> others;   // similar events, each with the arguments of `why` that explain it

  void say(std::string text, std::vector<Ref> records, bool cause = false) {
    sentences.push_back({std::move(text), std::move(records), cause});
  }
  // Keeps at most kMostSentences sentences: all causes, and of the others the first ones.
  void shorten();
};

}  // namespace rtrs::tools::why
