// Compares the responses of two servers to one request, field by field.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tools/lib/trace/workload/workload.hpp"

namespace rtrs::workload {

// Response of the server to which the workload is replayed.
struct Told {
  bool answered = false;
  std::uint16_t peer_errno = 0;               // errno of the response; 0: success
  std::optional<wire::rnbd::OpenRsp> opened;  // response body; successful OPEN only
  std::string failure;                        // error message if there was no response
};

struct Difference {
  std::string field;  // "errno", "nsectors", ..., or "answer": one server sent no response
  // Position of the field in the response, in bytes. Position and length are 0 if the difference is not in a
  // field.
  std::size_t offset = 0;
  std::size_t length = 0;
  std::string recorded;  // value as a number or as text
  std::string told;
};

// Returns the differences; empty if the responses agree. Fields whose value is specific to one server (ids,
// cache instances) are not compared. Returns no difference if the trace has no response.
std::vector<Difference> compare(const Asked&, const Told&);

// Returns a one-line description of a request, such as "READ 4096 B at sector 8 of \"disk\"" or "OPEN
// \"disk\" rw".
std::string words_of(const Workload&, const Asked&);

}  // namespace rtrs::workload
