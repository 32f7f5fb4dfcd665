// File that stores the progress of a sweep, so that a later sweep can continue it.
#pragma once
#include <cstdint>
#include <string>
#include <tl/expected.hpp>

#include "tools/urtrs-sim/seed_range.hpp"

namespace rtrs::sim_tool {

// What must be equal in a later sweep that continues an earlier one.
struct SweepIdentity {
  SeedRange seeds;
  std::string options;  // options that change the runs, such as " --fabric tcp --without crash"
};

class SweepState {
 public:
  // Reads the state file; starts a new state if the file does not exist. The error is a human-readable
  // message: the file belongs to another sweep or version, or is not a state file. In this case the file is
  // not changed.
  static tl::expected<SweepState, std::string> open(const std::string& file, const SweepIdentity& identity);

  std::uint64_t next() const noexcept { return next_; }  // all seeds below this one are done
  // Replaces the file atomically. Returns false and sets errno if it cannot be written.
  bool save(std::uint64_t next);
  const std::string& file() const noexcept { return file_; }

 private:
  SweepState(std::string file, SweepIdentity identity, std::uint64_t next);
  std::string file_;
  SweepIdentity identity_;
  std::uint64_t next_;
};

}  // namespace rtrs::sim_tool
