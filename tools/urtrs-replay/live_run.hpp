// Sends the requests of a recorded client to a running server.
#pragma once
#include <boost/asio/io_context.hpp>
#include <functional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "tools/lib/control/plugin/settings.hpp"
#include "tools/lib/trace/workload/compare.hpp"

namespace rtrs::replay_tool {

struct LiveOptions {
  bool changes = false;  // also send requests that change blocks
  bool as_recorded =
      false;  // keep the recorded times; if false, send a request after the same responses as in the trace
  Nanos patience = seconds(60);  // time limit for the response to each request
  std::string device;            // replaces the name of the only device; empty: as in the trace
  std::function<void(std::size_t asked)> progress;
};

struct LiveAnswer {
  bool asked = false;  // the request was sent
  workload::Told told;
  Nanos took = 0;
};

struct LiveRun {
  std::uint32_t max_io_size = 0;
  std::uint16_t queue_depth = 0;
  std::uint64_t without_device = 0;  // requests not sent, because the device could not be opened
  std::vector<LiveAnswer> answers;   // indexed by request of the workload
};

// Runs the workload. Every wait has a time limit. The error is a human-readable message that says why there
// is no session.
tl::expected<LiveRun, std::string> run_live(const workload::Workload&, const plugin::Settings&,
                                            const LiveOptions&);

}  // namespace rtrs::replay_tool
