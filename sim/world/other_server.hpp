// A server that clients are led to by a mistaken address: it opens sessions, and answers no request. No
// oracle watches it.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/driver/server.hpp"
#include "sim/choices/choice.hpp"
#include "sim/net/basic/net.hpp"

namespace rtrs::sim {

// What a process does of what it is told to: keys are not taken back where its adapters have no way to.
ServerConfig fitted(const ServerConfig&, const Fabric&);

class OtherServer {
 public:
  // A new node of the network; it outlives this, and so does `choice`.
  OtherServer(Net&, ChoiceSource&, const ServerConfig&);
  // Where `client` finds it, by a port of the client's own.
  PathAddress address(NodeId client, std::uint32_t port) const;
  bool is_at(const PathAddress&) const;
  // When to poll, in true time; kNever: when something comes.
  Nanos next_time() const noexcept;
  void poll();
  // How many paths of the client's session have come up here, the last one included; 0: it has none.
  unsigned came_up(const std::string& session_name) const;

 private:
  struct Opened {
    std::string name;
    unsigned paths = 0;  // that came up
  };
  Net& network_;
  NodeId id_;
  std::unique_ptr<Fabric> fabric_;
  Server server_;
  std::map<std::uint16_t, Opened> opened_;  // sessions, by index
  std::vector<RequestId> asked_;            // requests of sessions that have a path
};

}  // namespace rtrs::sim
