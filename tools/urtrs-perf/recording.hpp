// --record: writes a trace of the whole run.
#pragma once
#include <string>

#include "core/record/recorder.hpp"
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// If --record is given, opens the trace file. Call it before the first step. If the file cannot be written,
// prints an error and returns false.
bool open_record(Recorder&, const Options&, const std::string& role, const std::string& backend);
// Completes the trace. If the trace is incomplete, prints an error and returns false.
bool close_record(Recorder&, const Options&);

}  // namespace rtrs::perf
