// Prints results as a table, as CSV and as JSON.
#pragma once
#include <string>

#include "tools/urtrs-perf/result.hpp"

namespace rtrs::perf {

// Same columns as perftest, but the latency is the time of a complete IO, not of half a round trip.
std::string table_header(const Options&);
std::string table_row(const Result&);
std::string csv_header();
std::string csv_row(const Options&, const Result&);
std::string to_json(const Options&, const Report&);

// Replaces the file atomically (or the target, if the path is a symbolic link), so that a reader never sees
// partial content. Devices, pipes, and files below /dev (except /dev/shm) and /proc are written to instead.
// Returns 0 or a positive errno.
int write_whole(const std::string& path, const std::string& text);
// Tests before the measurement whether write_whole() would succeed. Returns 0 or an errno; 0 for an empty
// path.
int check_writable(const std::string& path);
// Prints an error about a file that cannot be written. Returns the exit code for this error.
int report_unwritable(const std::string& path, int error);

// Prints each row as it becomes available, and the rest of the output at the end.
class Printer {
 public:
  explicit Printer(const Options& options) : options_(options) {}
  void begin() const;
  void row(const Result&) const;
  // Prints the rest. Returns the exit code of the report, or kFailed if the results cannot be written.
  int end(const Report&) const;

 private:
  const Options& options_;
};

}  // namespace rtrs::perf
