// A server that clients reach through a wrong address: it opens sessions and answers no request. No oracle
// watches it.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/driver/server.hpp"
#include "sim/choices/choice.hpp"
#include "sim/net/basic/net.hpp"

namespace rtrs::sim {

// Returns the configuration without options that the fabric does not support. For example, the server does
// not revoke keys if its adapters cannot.
ServerConfig fitted(const ServerConfig&, const Fabric&);

class OtherServer {
 public:
  // Adds a node to the network. The network and `choice` must outlive this object.
  OtherServer(Net&, ChoiceSource&, const ServerConfig&);
  // Address of this server for `client`, from one of the client's own ports.
  PathAddress address(NodeId client, std::uint32_t port) const;
  bool is_at(const PathAddress&) const;
  // Virtual time of the next poll; kNever: no timer is set and no event is pending.
  Nanos next_time() const noexcept;
  void poll();
  // Number of paths that have connected in the client's session at this server; 0: no session.
  unsigned connected_paths(const std::string& session_name) const;

 private:
  struct Opened {
    std::string name;
    unsigned paths = 0;  // number of paths that connected
  };
  Net& network_;
  NodeId id_;
  std::unique_ptr<Fabric> fabric_;
  Server server_;
  std::map<std::uint16_t, Opened> opened_;  // open sessions, keyed by index
  std::vector<RequestId> asked_;            // unanswered requests of sessions with a path
};

}  // namespace rtrs::sim
