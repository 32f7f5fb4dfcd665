// Turns a ring dump into a trace with actions.
#pragma once
#include <string>

#include "tools/lib/trace/reader/reader.hpp"

namespace rtrs::trace {

// Runs the machines of this build on the dump and writes snapshots, inputs and actions to the file `to`.
// Leaves out the records before the first state of their machine. Returns an empty string, or why the trace
// could not be written: no dump of this version, another number of actions, or an error of the file.
std::string write_rerun(Source& dump, const std::string& to);

}  // namespace rtrs::trace
