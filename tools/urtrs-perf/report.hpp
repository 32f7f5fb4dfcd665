// Output of results: table, CSV and JSON.
#pragma once
#include <string>

#include "tools/urtrs-perf/result.hpp"

namespace rtrs::perf {

// The columns are those of perftest. The latency is that of a complete IO, not of half a round trip.
std::string table_header(const Options&);
std::string table_row(const Result&);
std::string csv_header();
std::string csv_row(const Options&, const Result&);
std::string to_json(const Options&, const Report&);

// Replaces the file, or the target of a symbolic link, atomically, so that a reader never sees partial
// content. A device, a pipe, and files below /dev (except /dev/shm) and /proc are written to instead. Returns
// 0 or a positive errno.
int write_whole(const std::string& path, const std::string& text);
// Checks before the measurement whether write_whole() can succeed. Returns 0 or an errno; 0 for an empty
// path.
int check_writable(const std::string& path);
// Prints the error and returns its exit code.
int report_unwritable(const std::string& path, int error);

// Prints rows as they become available, and the rest at the end.
class Printer {
 public:
  explicit Printer(const Options& options) : options_(options) {}
  void begin() const;
  void row(const Result&) const;
  // Returns the exit code of the report, or kFailed if the results cannot be written.
  int end(const Report&) const;

 private:
  const Options& options_;
};

}  // namespace rtrs::perf
