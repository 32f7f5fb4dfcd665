// What a probe asks of the host beside its RDMA devices. Tests play it.
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
  // The beginning of a file, without the last newline; nothing: it cannot be read.
  virtual std::optional<std::string> read(const std::string& file) const = 0;
  virtual std::vector<std::string> names_in(const std::string& folder) const = 0;
  // The last name of what a link leads to; empty: there is no such link.
  virtual std::string target(const std::string& link) const = 0;
  virtual std::string kernel() const = 0;
  virtual std::string rdma_core() const = 0;                       // its version; empty: not known
  virtual std::optional<std::uint64_t> memlock_bytes() const = 0;  // nothing: no limit
};

std::unique_ptr<System> this_system();

}  // namespace rtrs::probe
