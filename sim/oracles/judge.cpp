#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

const char* id_of(Oracle oracle) noexcept {
  switch (oracle) {
#define RTRS_SIM_ORACLE(name, id, rule) \
  case Oracle::name:                    \
    return id;
    RTRS_SIM_ORACLES(RTRS_SIM_ORACLE)
#undef RTRS_SIM_ORACLE
  }
  return "";
}

const char* rule_of(Oracle oracle) noexcept {
  switch (oracle) {
#define RTRS_SIM_ORACLE(name, id, rule) \
  case Oracle::name:                    \
    return rule;
    RTRS_SIM_ORACLES(RTRS_SIM_ORACLE)
#undef RTRS_SIM_ORACLE
  }
  return "";
}

const char* text_of(Mark mark) noexcept {
  switch (mark) {
#define RTRS_SIM_MARK(name, text) \
  case Mark::name:                \
    return text;
    RTRS_SIM_MARKS(RTRS_SIM_MARK)
#undef RTRS_SIM_MARK
    case Mark::count_:
      break;
  }
  return "";
}

const char* name_of(Mark mark) noexcept {
  switch (mark) {
#define RTRS_SIM_MARK(name, text) \
  case Mark::name:                \
    return #name;
    RTRS_SIM_MARKS(RTRS_SIM_MARK)
#undef RTRS_SIM_MARK
    case Mark::count_:
      break;
  }
  return "";
}

}  // namespace rtrs::sim
