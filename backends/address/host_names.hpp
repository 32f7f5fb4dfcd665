// Addresses of hosts that are given by name. A name service may be silent for minutes, so a thread of its own
// asks it, and whoever owns a fabric goes on meanwhile.
#pragma once
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/address/socket_address.hpp"

namespace rtrs::net {

// How long one attempt waits for the name service: for the first answer about a name, and for a newer answer
// than the known one, which is used when this time is over.
struct NameBounds {
  Nanos first = seconds(5);
  Nanos newer = seconds(1);
};

// 0 and at least one address, or a code of getaddrinfo(3). May take long, and is called from several threads.
using FindHost = std::function<int(const std::string& host, std::vector<SocketAddress>&)>;
// The addresses are in_turn().
int find_host(const std::string& host, std::vector<SocketAddress>&);

// One thread calls it. No call waits, and none throws but std::bad_alloc. Threads that a silent name service
// holds up outlive it.
class HostNames {
 public:
  explicit HostNames(FindHost = find_host, NameBounds = {});
  ~HostNames();
  HostNames(const HostNames&) = delete;
  HostNames& operator=(const HostNames&) = delete;

  // Before the first question: there never is one, hence no thread. Only addresses in figures are known.
  void never_ask() noexcept;
  bool asks() const noexcept;

  // Asks for each host name among the texts, which have the forms that resolve() takes. False: there is none,
  // and addresses() tells at once. True: it tells once take() has named the ticket, which is in use until
  // then or until forget().
  bool ask(std::uint64_t ticket, std::initializer_list<std::string_view> texts);
  void forget(std::uint64_t ticket) noexcept;
  // Those whose names are answered, or whose time is over.
  std::vector<std::uint64_t> take();
  // Becomes readable when take() has something; -1 where there is no descriptor for it.
  int wait_fd() const noexcept;

  // An address in figures, or all addresses of the last answer for a host name; empty: there is none. An
  // address that was in the answer before keeps its place.
  std::vector<SocketAddress> addresses(std::string_view text, std::uint16_t port) const;
  // Why addresses() has none: what is wrong with the text, or what the name service said.
  std::string why_unknown(std::string_view text) const;
  // That is because the name service has said nothing of use.
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
