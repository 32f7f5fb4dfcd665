// How far a sweep is, as a file, so that the next one goes on from there.
#pragma once
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "tools/urtrs-sim/seed_range.hpp"

namespace rtrs::tools {

// What a sweep has to have in common with the one before.
struct SweepIdentity {
  SeedRange seeds;
  std::string options;  // that change what is played: " --fabric tcp --without crash"
};

class SweepState {
 public:
  // All seeds below `next()` are done; the first one where there is no such file yet. The error is a
  // sentence: the file is of another sweep or another version, or is no such file, and is left as it is.
  static tl::expected<SweepState, std::string> open(const std::string& file, const SweepIdentity& identity);

  std::uint64_t next() const noexcept { return next_; }
  // Replaces the file, which is always whole. False: it cannot be written, errno says why.
  bool save(std::uint64_t next);
  const std::string& file() const noexcept { return file_; }

 private:
  SweepState(std::string file, SweepIdentity identity, std::uint64_t next);
  std::string file_;
  SweepIdentity identity_;
  std::uint64_t next_;
};

}  // namespace rtrs::tools
