#include "tools/lib/trace/choice_log/schedule.hpp"

#include <cstdio>

#include "sim/choices/shrink.hpp"

namespace rtrs::tools {

namespace {

const char* words(sim::Label label) {
  switch (label) {
    case sim::Label::torn_write:
      return "part of a write is visible before the rest";
    case sim::Label::rnr_placement:
      return "the payload of a write lands although no receive is posted";
    case sim::Label::source_read:
      return "a payload is read when it is posted";
    case sim::Label::ghost_delay:
      return "a message of a dead connection arrives much later";
    case sim::Label::drain_delay:
      return "a connection drains slowly";
    case sim::Label::late_placement:
      return "a write lands after its connection was abandoned";
    case sim::Label::qp_error:
      return "a connection breaks at a message";
    case sim::Label::cm_lost:
      return "a message of the connection manager is lost";
    case sim::Label::cm_late:
      return "a message of the connection manager is late";
    case sim::Label::info_cut:
      return "the link is cut under an INFO message or fence";
    case sim::Label::storage_error:
      return "storage fails a request";
    case sim::Label::storage_order:
      return "storage is slow with a request";
    default:
      return sim::to_string(label);
  }
}

}  // namespace

void Schedule::drawn(const sim::Draw& draw) {
  if (!sim::is_fault(draw)) return;
  std::printf("%s  network   fault: %s\n", sim::to_seconds(world_.now()).c_str(), words(draw.label));
}

}  // namespace rtrs::tools
