// A libfabric connection with the memory of both sides, but without a protocol.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "backends/libfabric/ofi_handles.hpp"
#include "tools/urtrs-perf/options.hpp"

namespace rtrs::perf {

// Private data that the client sends with connect and the server with accept.
struct RawGreeting {
  std::uint64_t key = 0;
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;  // size of each IO, at most kMaxRawBytes
  std::uint16_t iodepth = 0;
  std::uint16_t reads = 0;
};
inline constexpr std::uint32_t kMaxRawBytes = 1U << 23;
inline constexpr std::uint32_t kRawRequestBytes = 64;  // size of a read request

class RawLink {
 public:
  // Each of these functions returns false and sets error() if it fails.
  bool listen(const Options&, std::uint16_t& port);
  bool accept();  // waits for a client or a signal
  bool connect(const Options&, const RawGreeting& own);
  const std::string& error() const noexcept { return error_; }
  const RawGreeting& peer() const noexcept { return peer_; }

  // Writes the first `bytes` bytes of a slot to the same slot of the peer.
  bool write(std::uint32_t slot, std::uint32_t bytes) noexcept;
  // Appends the received immediates to `arrived`. Returns false if the connection was lost.
  bool poll(std::vector<std::uint32_t>& arrived) noexcept;

 private:
  bool load();
  bool failed(const char* what, int result);
  bool open_domain();
  bool open_endpoint(fi_info&, const RawGreeting& shape);
  ofi::InfoHandle ask(const Options&, const char* node, std::uint64_t flags, int& result) const;
  bool await(std::uint32_t event, Nanos patience, RawGreeting* greeting, fi_info** info);

  std::string error_;
  ofi::InfoHandle info_;
  ofi::FabricHandle fabric_;
  ofi::DomainHandle domain_;
  ofi::EventQueue events_;
  ofi::PassiveEndpoint passive_;
  ofi::CompletionQueue queue_;
  std::vector<std::byte> memory_;
  ofi::MemoryHandle region_;
  ofi::Endpoint endpoint_;  // declared after the queue and the memory that it uses, so closed before them
  RawGreeting own_;
  RawGreeting peer_;
  std::uint32_t slot_bytes_ = 0;
  unsigned posted_ = 0;
  unsigned idle_polls_ = 0;
};

}  // namespace rtrs::perf
