// --record: a trace of the whole run.
#pragma once
#include <string>

#include "core/record/recorder.hpp"
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// Where --record asks for it; before the first step. False when the file cannot be written, which is said.
bool open_record(Recorder&, const Options&, const std::string& role, const std::string& backend);
// Completes it. False when something of it was not written, which is said.
bool close_record(Recorder&, const Options&);

}  // namespace rtrs::perf
