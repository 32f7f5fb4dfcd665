// --record: a trace of the whole run.
#pragma once
#include <string>

#include "core/record/recorder.hpp"
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// Opens the trace file if --record is given. Call it before the first step. Returns false after printing an
// error if the file cannot be written.
bool open_record(Recorder&, const Options&, const std::string& role, const std::string& backend);
// Completes the trace. Returns false after printing an error if it is incomplete.
bool close_record(Recorder&, const Options&);

}  // namespace rtrs::perf
