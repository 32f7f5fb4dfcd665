// Services for a server case: paths of new sessions, and the settings of the run.
#pragma once
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "conformance/cases/endpoint.hpp"
#include "conformance/cases/path.hpp"

namespace rtrs::conformance {

struct ServerSetup {
  // First the address of the server; then its further addresses, or other source addresses, for a second
  // path.
  std::vector<PathAddress> targets;
  std::string device;    // device name on the server; empty: cases that need a device are not run
  bool scratch = false;  // the device's content may be overwritten
  Deadlines deadlines;
  std::uint64_t seed = 1;  // seed of the session UUIDs, which are unique within a run
};

class ServerTester {
 public:
  ServerTester(Endpoint& endpoint, const ServerSetup& setup)
      : endpoint_(endpoint), setup_(setup), random_(setup.seed) {}

  Endpoint& endpoint() noexcept { return endpoint_; }
  const ServerSetup& setup() const noexcept { return setup_; }
  const Deadlines& deadlines() const noexcept { return setup_.deadlines; }
  Nanos now() { return endpoint_.now(); }

  Identity fresh_identity();
  wire::Uuid fresh_uuid();
  // Creates an unconnected path, valid until the end of the case.
  Path& path(std::uint16_t con_num = 2) { return path(fresh_identity(), con_num); }
  Path& path(Identity identity, std::uint16_t con_num = 2, std::size_t target = 0);
  // Opens a path of a new, correct session.
  Path& opened(std::uint16_t con_num = 2);
  // Closes the case's paths and waits until the fabric has released them. Returns false on timeout.
  bool clean_up(std::uint32_t mark);

 private:
  Endpoint& endpoint_;
  const ServerSetup& setup_;
  std::mt19937_64 random_;
  unsigned sessions_ = 0;
  std::uint16_t next_path_ = 1;  // path 0 is the bystander
  std::deque<Path> paths_;
};

}  // namespace rtrs::conformance
