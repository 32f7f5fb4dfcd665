// The word that a misspelt one was probably meant to be.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace rtrs::tools {

// Letters to insert, delete or replace.
inline std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = i;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0]++;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

// The candidate with the fewest letters that differ; empty when more than a third of the word differs in
// every one.
inline std::string nearest_word(std::string_view word, const std::vector<std::string_view>& candidates) {
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::string result;
  for (const std::string_view candidate : candidates) {
    const std::size_t apart = edit_distance(word, candidate);
    if (apart >= best) continue;
    best = apart;
    result = candidate;
  }
  return result;
}

}  // namespace rtrs::tools
