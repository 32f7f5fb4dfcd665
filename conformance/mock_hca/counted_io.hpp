// A session of 4 KiB requests between two fabrics on adapters in memory, and what it asks of the adapters.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/verbs/verbs.hpp"
#include "conformance/mock_hca/mock_hca.hpp"
#include "core/driver/client.hpp"
#include "core/driver/server.hpp"

namespace rtrs::mock_hca {

// Whose keys die with each request.
enum class Keys : std::uint8_t {
  stay,
  of_chunks,    // the server renews the key of each chunk: windows of type 1
  of_requests,  // the client offers a key for each read, which the server kills: windows of type 2
};

struct Load {
  Direction direction = Direction::read;
  Keys keys = Keys::stay;
  unsigned in_flight = 1;
  std::uint16_t io_connections = 1;
  bool as_kernel_client = true;  // without the extensions that urtrs has among itself
  verbs::Posting posting = verbs::Posting::send;
};

class CountedIo {
 public:
  // `both`: of the two adapters, whose names have to differ.
  CountedIo(const Load&, const std::array<Profile, 2>& both);
  ~CountedIo();
  CountedIo(const CountedIo&) = delete;
  CountedIo& operator=(const CountedIo&) = delete;

  // The session is up; otherwise nothing may be asked for.
  bool ready() const noexcept { return ready_; }
  // Rounds, each of which lets either side poll once, until so many more requests are done; new ones take the
  // place of those that are done. False: one failed, or nothing moves.
  bool run(unsigned requests);

  static constexpr std::size_t kServer = 0, kClient = 1;  // adapters

 private:
  bool submit();
  unsigned turn();

  Load load_;
  Nanos now_ = 1;
  std::vector<std::byte> data_;  // outlives the fabrics, which know it
  std::unique_ptr<verbs::VerbsFabric> far_, near_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<Client> client_;
  Region region_;
  std::uint16_t affinity_ = 0;
  bool ready_ = false, failed_ = false;
};

}  // namespace rtrs::mock_hca
