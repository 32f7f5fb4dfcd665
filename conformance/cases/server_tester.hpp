// What a case against a server works with: paths of new sessions, and the settings of the run.
#pragma once
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "conformance/cases/endpoint.hpp"
#include "conformance/cases/path.hpp"

namespace rtrs::conformance {

struct ServerSetup {
  // The server; further addresses, or sources of the first, where a session can have a second path.
  std::vector<PathAddress> targets;
  std::string device;    // that the server exports; empty: cases that need one are not run
  bool scratch = false;  // its content may be overwritten
  Deadlines deadlines;
  std::uint64_t seed = 1;  // of the identities, which are never used twice in a run
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
  // A path that is not connected yet; belongs to the case and ends with it.
  Path& path(std::uint16_t con_num = 2) { return path(fresh_identity(), con_num); }
  Path& path(Identity identity, std::uint16_t con_num = 2, std::size_t target = 0);
  // The path of an honest session.
  Path& opened(std::uint16_t con_num = 2);
  // Ends the case's paths and waits until nothing of them is left here. False: the fabric holds on to one.
  bool clean_up(std::uint32_t mark);

 private:
  Endpoint& endpoint_;
  const ServerSetup& setup_;
  std::mt19937_64 random_;
  unsigned sessions_ = 0;
  std::uint16_t next_path_ = 1;  // 0 is the witness
  std::deque<Path> paths_;
};

}  // namespace rtrs::conformance
