// Keeps the addresses of a path's chunks. With them, the position of the RTRS header in a write can be
// computed (docs/protocol.md, section 5.3).
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "core/wire/messages.hpp"

namespace rtrs::roce {

class ChunkTable {
 public:
  // Reads the chunk parameters from the CON_RSP of cid 0. Returns false if it is invalid.
  bool connected(wire::Bytes conn_rsp);
  // Reads the chunk addresses from INFO_RSP. Returns false if it contradicts CON_RSP.
  bool offered(wire::Bytes info_rsp);
  void renewed(std::uint32_t chunk, std::uint32_t key);

  [[nodiscard]] bool known() const noexcept { return !chunks_.empty(); }
  [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }
  // Returns true if a response also carries the data of its READ (extension data_with_answer). The data is
  // nevertheless sent separately if a SEND_WITH_INV must be sent between data and response.
  [[nodiscard]] bool joins_data() const noexcept { return joins_data_; }
  // Returns the chunk that a request immediate names; nullopt if this path has no such chunk.
  [[nodiscard]] std::optional<wire::Descriptor> chunk(std::uint32_t io_req_imm) const noexcept;
  // Returns the chunk number in a response immediate, without the generation.
  [[nodiscard]] std::uint32_t answered(std::uint32_t io_rsp_imm) const noexcept;

 private:
  std::uint32_t depth_ = 0;
  std::uint32_t chunk_size_ = 0;  // in bytes
  bool generations_ = false;
  bool joins_data_ = false;
  std::vector<wire::Descriptor> chunks_;
};

// Positions of the parts of a written request: data, user header, RTRS header.
struct RequestLayout {
  std::size_t user = 0;    // offset of the user header; also the number of data bytes
  std::size_t header = 0;  // offset of the RTRS header
  Direction direction = Direction::write;
  std::optional<wire::Descriptor> descriptor;
};

// Finds the headers in `payload`, a write with immediate `imm` to `remote_addr`. If the chunks are known, the
// immediate gives the position of the header; otherwise the header is searched for at the end. Returns
// nullopt if there is no header.
[[nodiscard]] std::optional<RequestLayout> find_request(const ChunkTable& chunks, std::uint32_t imm,
                                                        std::uint64_t remote_addr, wire::Bytes payload);

}  // namespace rtrs::roce
