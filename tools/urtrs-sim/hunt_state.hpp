// File that stores the corpus of a guided search, so that the same command continues the search later.
#pragma once
#include <string>
#include <tl/expected.hpp>

#include "sim/hunt/corpus.hpp"

namespace rtrs::sim_tool {

// Fails with a message for the user if the file belongs to another search, or is not a state file. A file
// that does not exist gives a new search with this seed.
tl::expected<sim::hunt::Corpus, std::string> open_hunt_state(const std::string& file, std::uint64_t seed,
                                                             const std::string& options);
// Replaces the file atomically. Returns false and sets errno if it cannot be written.
bool save_hunt_state(const std::string& file, const sim::hunt::Corpus& corpus, const std::string& options);

}  // namespace rtrs::sim_tool
