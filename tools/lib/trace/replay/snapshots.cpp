#include "tools/lib/trace/replay/snapshots.hpp"

namespace rtrs::trace {

SnapshotParts::Status SnapshotParts::add(InstanceId instance, const Snapshot& part) {
  std::string& bytes = parts_[instance];
  if (part.offset == 0) bytes.clear();
  if (part.offset != bytes.size() || part.part.size() > part.size - part.offset) return Status::out_of_order;
  bytes.append(reinterpret_cast<const char*>(part.part.data()), part.part.size());
  if (bytes.size() != part.size) return Status::incomplete;
  state_ = std::move(bytes);
  parts_.erase(instance);
  return Status::complete;
}

}  // namespace rtrs::trace
