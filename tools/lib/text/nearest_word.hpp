// Finds the word that a misspelt word was probably meant to be.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rtrs::tools {

// Returns the number of edits that turn `a` into `b`. An edit inserts, deletes or replaces a letter, or swaps
// two neighbours.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + cost});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

// Returns the candidate with the fewest edits; empty if every candidate needs more edits than a third of the
// letters of `word` (but one edit is always allowed). A candidate that contains `word`, or is contained in
// it, also counts as near if the contained word has at least 4 letters.
template <class Candidates>
std::string nearest_word(std::string_view word, const Candidates& candidates) {
  constexpr std::size_t kMinPart = 4;
  const std::size_t tolerated = std::max<std::size_t>(1, word.size() / 3);
  std::size_t best = tolerated + 1;
  std::string result;
  for (const std::string_view candidate : candidates) {
    std::size_t apart = edit_distance(word, candidate);
    const bool part = (word.size() >= kMinPart && candidate.find(word) != std::string_view::npos) ||
                      (candidate.size() >= kMinPart && word.find(candidate) != std::string_view::npos);
    if (part) apart = std::min(apart, tolerated);
    if (apart >= best) continue;
    best = apart;
    result = candidate;
  }
  return result;
}

}  // namespace rtrs::tools
