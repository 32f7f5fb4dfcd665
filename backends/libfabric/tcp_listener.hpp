// Listens on TCP for provider tcp and reads connect requests without blocking, in a separate thread.
//
// libfabric 1.17 reads a connect request with blocking calls, so a client that sends half of one blocks all
// others. This listener passes on only complete requests. Clients that send nothing, or stop in the middle,
// use a descriptor for a bounded time and block no other client. ofi_adopt.hpp then makes the provider serve
// the socket.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "backends/libfabric/ofi.hpp"
#include "backends/libfabric/ofi_admission.hpp"

namespace rtrs::ofi {

// The provider's connection management message: a header of 32 bytes, then private data.
namespace cm {
inline constexpr std::size_t kHeaderBytes = 32;
inline constexpr std::size_t kMaxData = 256;
inline constexpr std::uint8_t kVersion = 3;
inline constexpr std::uint8_t kRequest = 0;
inline constexpr std::uint8_t kReject = 6;
// Number of bytes of private data that follow, according to the header.
std::size_t data_size(const char* header) noexcept;
// Sends a reject without blocking; delivery is not guaranteed.
void send_reject(int socket, const void* data, std::size_t size) noexcept;
}  // namespace cm

class TcpListener final : public Admission {
 public:
  explicit TcpListener(const OfiOptions&);  // must outlive the listener
  ~TcpListener() override;

  Errc start() override;
  Errc listen(const net::SocketAddress&) override;
  std::uint16_t port() const noexcept override { return port_; }
  int wait_fd() const noexcept override { return arrived_.get(); }
  std::vector<ConnectRequest> take() override;
  std::uint64_t reaped() const noexcept override { return reaped_.load(std::memory_order_relaxed); }

 private:
  // A client whose request has not arrived in full.
  struct Handshake {
    net::UniqueFd socket;
    net::SocketAddress client;
    std::uint32_t host = 0;        // host_digest() of its address
    std::uint64_t began = 0;       // start time in ms
    std::uint64_t first_byte = 0;  // time in ms; 0: no byte arrived yet
    std::size_t size = 0;
    std::array<char, cm::kHeaderBytes + cm::kMaxData> bytes;
  };
  enum class Progress : std::uint8_t { waits, complete, broken, foreign };

  void run() noexcept;
  void turn();
  void accept_clients(int listener);
  // Returns false if no descriptor is left for the client.
  bool accept_one(int listener);
  // Frees a descriptor if none is left. Returns false if there is nothing more to accept now.
  bool make_room(int listener);
  void add(net::UniqueFd socket, const net::SocketAddress& client);
  void read(int fd);
  static Progress receive(Handshake&, std::uint64_t now) noexcept;
  void hand_over(Handshake&);
  void close_overdue(std::uint64_t now);
  // Closes the oldest handshake of the host that has the most handshakes.
  void close_oldest_of_busiest_host();
  void report(std::uint64_t now);
  std::uint64_t deadline_of(const Handshake&) const noexcept;
  int pause_ms(std::uint64_t now) const noexcept;
  bool watch(int fd) noexcept;

  const OfiOptions& options_;
  net::UniqueFd epoll_;
  net::UniqueFd stop_;
  net::UniqueFd arrived_;
  // Reserve descriptor. If no other descriptor is left, it is closed for a moment, so that a client can be
  // accepted and closed.
  net::UniqueFd spare_;
  std::uint16_t port_ = 0;
  std::atomic<std::uint64_t> reaped_{0};

  std::mutex mutex_;  // protects the two members below
  std::vector<net::UniqueFd> listening_;
  std::vector<ConnectRequest> requests_;

  // Used only by the listener thread.
  std::map<int, Handshake> handshakes_;  // keyed by descriptor
  std::uint64_t closed_ = 0;             // handshakes closed since the last log line
  std::uint64_t dropped_clients_ = 0;
  std::uint64_t foreign_ = 0;
  std::string last_closed_;
  std::string last_foreign_;
  std::uint64_t next_report_ = 0;
  std::thread thread_;
};

}  // namespace rtrs::ofi
