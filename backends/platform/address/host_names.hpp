// Resolves host names. A name service may take minutes to answer, so other threads query it, and the thread
// that owns the fabric never blocks.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/platform/address/socket_address.hpp"

namespace rtrs::net {

// Time that one attempt waits for the name service. `first`: no answer about the name is known yet. `newer`:
// an answer is known; the attempt uses it if no newer one arrives in this time.
struct NameBounds {
  Nanos first = seconds(5);
  Nanos newer = seconds(1);
};

// Returns 0 and at least one address, or a code of getaddrinfo(3). May block for a long time; called from
// several threads.
using FindHost = std::function<int(const std::string& host, std::vector<SocketAddress>&)>;
// Returns the addresses in the order of in_turn().
int find_host(const std::string& host, std::vector<SocketAddress>&);

// Used by one thread. No call waits; the only exception is std::bad_alloc. A thread that waits for a silent
// name service may outlive the object.
class HostNames {
 public:
  explicit HostNames(FindHost = find_host, NameBounds = {});
  ~HostNames();
  HostNames(const HostNames&) = delete;
  HostNames& operator=(const HostNames&) = delete;

  // Call before ask(). Afterwards no name is looked up, no thread is started, and addresses() finds none for
  // a host name.
  void disable_lookups() noexcept;
  bool asks() const noexcept;

  // Resolves each host name among the texts, which have the forms that resolve() accepts. Returns false if no
  // text has a host name: call addresses() at once. Returns true otherwise: call addresses() after take() has
  // returned the ticket. The ticket must not be reused before that or forget().
  bool ask(std::uint64_t ticket, std::initializer_list<std::string_view> texts);
  void forget(std::uint64_t ticket) noexcept;
  // Returns the tickets whose names are all answered or whose time in NameBounds has passed.
  std::vector<std::uint64_t> take();
  // Becomes readable when take() would return a ticket; -1 if no descriptor could be opened.
  int wait_fd() const noexcept;

  // Returns the address in `text`, or all addresses from the last answer for its host name; may be empty. An
  // address that was already in the previous answer keeps its place.
  std::vector<SocketAddress> addresses(std::string_view text, std::uint16_t port) const;
  // Reason why addresses() is empty: an error in the text, or the answer of the name service.
  std::string unresolved_reason(std::string_view text) const;
  // True if addresses() is empty because the name service did not answer or failed.
  bool is_silent(std::string_view text) const;

 private:
  struct Shared;
  struct Waiting {
    std::uint64_t ticket = 0;
    std::vector<std::string> hosts;
    Nanos deadline = 0;
  };
  static void work(const std::shared_ptr<Shared>&);
  void start_thread();
  void arm() noexcept;

  NameBounds bounds_;
  std::vector<Waiting> waiting_;
  std::shared_ptr<Shared> shared_;
};

}  // namespace rtrs::net
