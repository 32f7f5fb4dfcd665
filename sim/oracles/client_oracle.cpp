#include "sim/oracles/client_oracle.hpp"

namespace rtrs::sim {

ClientOracles make_client_oracles(Judge& judge) {
  ClientOracles oracles;
#define RTRS_SIM_CLIENT_ORACLE(name) oracles.push_back(make_##name(judge));
  RTRS_SIM_CLIENT_ORACLES(RTRS_SIM_CLIENT_ORACLE)
#undef RTRS_SIM_CLIENT_ORACLE
  return oracles;
}

}  // namespace rtrs::sim
