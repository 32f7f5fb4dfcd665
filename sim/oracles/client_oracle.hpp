// Base class of oracles that follow one client of a run: the world calls it for each event of the client. To
// add one, create a file NAME_oracle.cpp with the function make_NAME(), and rows in sim/oracles/judge.hpp.
#pragma once
#include <memory>
#include <vector>

#include "core/proto/actions.hpp"
#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

// All times are virtual time.
class ClientOracle {
 public:
  virtual ~ClientOracle() = default;
  // Called when the client process starts or restarts: it has no paths and no link.
  virtual void started() {}
  // Called when a path changes its state. `was_connected`: the path was connected before the change.
  virtual void path(const PathChanged&, bool /*was_connected*/, Nanos) {}
  // Called when the first path connects, and when the last one is lost.
  virtual void link(bool /*up*/, Nanos) {}
  // Called when all events of a poll have been handed out.
  virtual void poll_ends(Nanos) {}
};

// One oracle per row of RTRS_SIM_CLIENT_ORACLES.
using ClientOracles = std::vector<std::unique_ptr<ClientOracle>>;
ClientOracles make_client_oracles(Judge&);

#define RTRS_SIM_CLIENT_ORACLE(name) std::unique_ptr<ClientOracle> make_##name(Judge&);
RTRS_SIM_CLIENT_ORACLES(RTRS_SIM_CLIENT_ORACLE)
#undef RTRS_SIM_CLIENT_ORACLE

}  // namespace rtrs::sim
