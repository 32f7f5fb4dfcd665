// Joins the parts of the snapshots in a trace.
#pragma once
#include <string>
#include <unordered_map>

#include "core/record/kinds.hpp"

namespace rtrs::trace {

class SnapshotParts {
 public:
  enum class Status : std::uint8_t { incomplete, complete, out_of_order };
  // Adds a part. After `complete`, state() is the whole state until the next call.
  Status add(InstanceId instance, const Snapshot& part);
  const std::string& state() const noexcept { return state_; }

 private:
  std::unordered_map<InstanceId, std::string> parts_;
  std::string state_;
};

}  // namespace rtrs::trace
