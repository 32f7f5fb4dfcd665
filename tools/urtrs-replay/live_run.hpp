// Asks a server that runs for what a trace's client asked another one for.
#pragma once
#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "tools/lib/control/plugin/settings.hpp"
#include "tools/lib/trace/workload/compare.hpp"

namespace rtrs::tools {

struct LiveOptions {
  bool changes = false;  // sends what changes blocks, too
  bool as_recorded =
      false;  // no request sooner than in the trace; else as soon as what was answered before it
  Nanos patience = seconds(60);  // for any one answer
  std::string device;            // in place of the name of the only one; empty: as in the trace
  std::function<void(std::size_t asked)> progress;
};

struct LiveAnswer {
  bool asked = false;  // false: left out
  workload::Told told;
  Nanos took = 0;
};

struct LiveRun {
  std::uint32_t max_io_size = 0;
  std::uint16_t queue_depth = 0;
  std::uint64_t without_device = 0;  // left out, because the device could not be opened
  std::vector<LiveAnswer> answers;   // of each request of the workload
};

// Every wait has a bound. The error is a sentence: there is no session.
tl::expected<LiveRun, std::string> run_live(const workload::Workload&, const nbdkit::Settings&,
                                            const LiveOptions&);

}  // namespace rtrs::tools
