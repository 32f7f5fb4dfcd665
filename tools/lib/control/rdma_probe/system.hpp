// Facts about the host that a probe needs in addition to its RDMA devices. Tests replace this class.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rtrs::probe {

class System {
 public:
  virtual ~System() = default;
  // Returns the beginning of a file without trailing newlines; nullopt if the file cannot be read.
  virtual std::optional<std::string> read(const std::string& file) const = 0;
  virtual std::vector<std::string> names_in(const std::string& folder) const = 0;
  // Returns the file name of a link's target; an empty string if there is no such link.
  virtual std::string target(const std::string& link) const = 0;
  virtual std::string kernel() const = 0;
  virtual std::string rdma_core() const = 0;                       // version of rdma-core; empty: unknown
  virtual std::optional<std::uint64_t> memlock_bytes() const = 0;  // limit; nullopt: no limit
};

std::unique_ptr<System> this_system();

}  // namespace rtrs::probe
