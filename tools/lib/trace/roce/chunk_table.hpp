// Where the chunks of a path are, and so where in a write the RTRS header stands (protocol.md section 5.3).
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "core/wire/messages.hpp"

namespace rtrs::roce {

class ChunkTable {
 public:
  // CON_RSP of cid 0; false when it does not parse.
  bool connected(wire::Bytes conn_rsp);
  // INFO_RSP; false when it does not fit what CON_RSP announced.
  bool offered(wire::Bytes info_rsp);
  void renewed(std::uint32_t chunk, std::uint32_t key);

  [[nodiscard]] bool known() const noexcept { return !chunks_.empty(); }
  [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }
  // Whether answers carry the data of READs where no SEND_WITH_INV stands between.
  [[nodiscard]] bool joins_data() const noexcept { return joins_data_; }
  // Nothing for an immediate that names no chunk of this path.
  [[nodiscard]] std::optional<wire::ChunkRef> chunk(std::uint32_t io_req_imm) const noexcept;
  // Chunk of a response's immediate; generations are masked out where they were granted.
  [[nodiscard]] std::uint32_t answered(std::uint32_t io_rsp_imm) const noexcept;

 private:
  std::uint32_t depth_ = 0;
  std::uint32_t chunk_size_ = 0;  // bytes
  bool generations_ = false;
  bool joins_data_ = false;
  std::vector<wire::ChunkRef> chunks_;
};

// A request as it was written: user header, then RTRS header, behind the data.
struct RequestLayout {
  std::size_t user = 0;    // offset of the user header; also bytes of data that were written
  std::size_t header = 0;  // offset of the RTRS header
  Direction direction = Direction::write;
  std::optional<wire::Descriptor> descriptor;
};

// `payload` are the bytes of a write with immediate `imm` to `remote_addr`. With `chunks` known the header is
// where the immediate says; else it is looked for at the end. Nothing when no header is there.
[[nodiscard]] std::optional<RequestLayout> find_request(const ChunkTable& chunks, std::uint32_t imm,
                                                        std::uint64_t remote_addr, wire::Bytes payload);

}  // namespace rtrs::roce
