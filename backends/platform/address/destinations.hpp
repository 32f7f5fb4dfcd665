// Chooses the address to which each connection of a path connects. Shared by all fabrics. The destination of
// a path is an address or a host name. If a name has several addresses, the caller chooses one by index for
// the first connection (con 0) of an attempt. The other connections of the attempt (same path and epoch) use
// the same address, even if the name service has changed its answer.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <unordered_map>
#include <vector>

#include "backends/platform/address/host_names.hpp"
#include "core/fabric/fabric.hpp"

namespace rtrs::net {

// Not thread-safe. No call blocks, except resolve().
class Destinations {
 public:
  // Parses a numeric address, like parse_address().
  using Parse = std::function<Result<SocketAddress>(std::string_view text, std::uint16_t port)>;
  explicit Destinations(Parse = parse_address, FindHost = find_host, NameBounds = {});

  struct Route {
    SocketAddress to;
    SocketAddress from;       // length 0: any source address
    std::uint16_t count = 1;  // number of addresses to choose from
    // True if the fabric must report event::AddressesFound.
    bool is_choice(const ConKey& key) const noexcept { return key.con == 0 && count > 1; }
  };
  struct Failure {
    Reason reason = Reason::name_unresolved;  // name_unresolved or source_unavailable
    bool silent = false;                      // the name service did not answer or failed
    std::string text;
  };

  // Disables host names, see HostNames::disable_lookups().
  void disable_lookups() noexcept { names_.disable_lookups(); }
  bool asks() const noexcept { return names_.asks(); }
  int wait_fd() const noexcept { return names_.wait_fd(); }

  // Returns all addresses of a text, see net::resolve(). May block until the name service answers. For use in
  // listen().
  std::vector<SocketAddress> resolve(std::string_view text, std::uint16_t port) const;

  // Returns false if route() can be called at once. Returns true if a host name is being resolved; take()
  // returns the key afterwards.
  bool ask(ConKey, const PathAddress&, unsigned address);
  void forget(ConKey) noexcept;
  struct Ready {
    ConKey key{};
    PathAddress path;
    unsigned address = 0;
  };
  std::vector<Ready> take();

  // `address` is an index, taken modulo the number of addresses that have the family of the source.
  tl::expected<Route, Failure> route(ConKey, const PathAddress&, unsigned address);

 private:
  struct Pin {
    std::uint32_t epoch = 0;
    Route route;
  };
  std::vector<SocketAddress> addresses(std::string_view text, std::uint16_t port) const;
  tl::expected<Route, Failure> find(const PathAddress&, unsigned address) const;
  const Route* pinned(ConKey) const noexcept;

  Parse parse_;
  HostNames names_;
  std::uint64_t next_ticket_ = 0;
  std::unordered_map<std::uint64_t, Ready> asked_;  // keyed by ticket
  std::unordered_map<std::uint16_t, Pin> pins_;     // keyed by path
};

}  // namespace rtrs::net
