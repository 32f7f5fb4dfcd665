#include "tools/urtrs-perf/recording.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "backends/options/process.hpp"
#include "backends/platform/system/clock.hpp"
#include "core/record/writer.hpp"

namespace rtrs::perf {
namespace {

bool told(const Options& options, int error) {
  if (error != 0)
    fmt::print(stderr, "urtrs-perf: cannot write the trace {}: {}\n", options.record,
               trace::file_error_text(error));
  return error == 0;
}

}  // namespace

bool open_record(Recorder& recorder, const Options& options, const std::string& role,
                 const std::string& backend) {
  if (options.record.empty()) return true;
  rtrs::options::ProcessOptions process;
  process.trace_detail = options.record_detail;
  return told(
      options,
      recorder.open_file(
          options.record.c_str(),
          {"urtrs-perf " URTRS_VERSION, role, backend, 0, {}, platform::steady_now(), platform::wall_now()},
          process.file_options()));
}

bool close_record(Recorder& recorder, const Options& options) {
  return options.record.empty() || told(options, recorder.close_file());
}

}  // namespace rtrs::perf
