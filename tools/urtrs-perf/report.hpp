// Results for people and for programs.
#pragma once
#include <string>

#include "tools/urtrs-perf/result.hpp"

namespace rtrs::perf {

// perftest's columns. Latency is that of the whole IO, not half a round trip.
std::string table_header(const Options&);
std::string table_row(const Result&);
std::string csv_header();
std::string csv_row(const Options&, const Result&);
std::string to_json(const Options&, const Report&);

// Replaces the file, or that which a link leads to, at once and whole, so that a reader never sees half of
// it; into a device, a pipe and what is below /dev and /proc it is written, but not below /dev/shm. 0 or a
// positive errno.
int write_whole(const std::string& path, const std::string& text);
// Whether that may be tried, asked before anything is measured; "": nothing is to be written.
int check_writable(const std::string& path);
// Says so, and returns the exit code for it.
int tell_unwritable(const std::string& path, int error);

// Where results go: rows as they come, the rest at the end.
class Printer {
 public:
  explicit Printer(const Options& options) : options_(options) {}
  void begin() const;
  void row(const Result&) const;
  // Returns the exit code: that of the report, unless the results could not be written.
  int end(const Report&) const;

 private:
  const Options& options_;
};

}  // namespace rtrs::perf
