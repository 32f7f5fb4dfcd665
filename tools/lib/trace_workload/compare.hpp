// What two servers answered to one request, field by field.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tools/lib/trace_workload/workload.hpp"

namespace rtrs::workload {

// Of the server that is asked now.
struct Told {
  bool answered = false;
  std::uint16_t peer_errno = 0;               // Linux errno
  std::optional<wire::rnbd::OpenRsp> opened;  // of an open that went well
  std::string failure;                        // a sentence, where nothing was answered
};

struct Difference {
  std::string field;  // "errno", "nsectors", ..., or "answer": one of them gave none
  // In the answer, bytes; 0 and 0: in none.
  std::size_t offset = 0;
  std::size_t length = 0;
  std::string recorded;  // numbers, or words
  std::string told;
};

// None: the same. What means something to one server alone (ids, instances of caches) is not compared, and
// nothing where the trace has no answer.
std::vector<Difference> compare(const Asked&, const Told&);

// "READ 4096 B at sector 8 of \"disk\"", "OPEN \"disk\" rw".
std::string words_of(const Workload&, const Asked&);

}  // namespace rtrs::workload
