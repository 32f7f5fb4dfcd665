// Session with 4 KiB requests between two fabrics on in-memory adapters; counts the calls to the adapters.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/verbs/verbs.hpp"
#include "core/driver/client.hpp"
#include "core/driver/server.hpp"
#include "sim/net/adapters/mock_hca.hpp"

namespace rtrs::conformance {

// Keys that each request invalidates: none, the key of its chunk, or its own key.
enum class Keys : std::uint8_t {
  stay,
  of_chunks,    // the server renews the key of the chunk, a type 1 window
  of_requests,  // each read offers a key, a type 2 window, which the server invalidates
};

struct Load {
  Direction direction = Direction::read;
  Keys keys = Keys::stay;
  unsigned in_flight = 1;
  std::uint16_t io_connections = 1;
  bool as_kernel_client = true;  // the client requests no urtrs extensions
  verbs::Posting posting = verbs::Posting::send;
};

class CountedIo {
 public:
  // `both`: profiles of the two adapters. Their names must differ.
  CountedIo(const Load&, const std::array<mock_hca::Profile, 2>& both);
  ~CountedIo();
  CountedIo(const CountedIo&) = delete;
  CountedIo& operator=(const CountedIo&) = delete;

  // True if the session is connected; run() requires it.
  bool ready() const noexcept { return ready_; }
  // Polls both sides in turn until `requests` more requests have completed, and replaces each completed
  // request by a new one. Returns false if a request fails or there is no progress.
  bool run(unsigned requests);

  static constexpr std::size_t kServer = 0, kClient = 1;  // numbers of the adapters

 private:
  bool submit();
  unsigned turn();

  Load load_;
  Nanos now_ = 1;
  std::vector<std::byte> data_;  // destroyed after the fabrics, which have registered this memory
  std::unique_ptr<verbs::VerbsFabric> far_, near_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Client> client_;
  Region region_;
  std::uint16_t affinity_ = 0;
  bool ready_ = false, failed_ = false;
};

}  // namespace rtrs::conformance
