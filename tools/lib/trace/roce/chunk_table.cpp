#include "tools/lib/trace/roce/chunk_table.hpp"

#include "core/wire/imm.hpp"

namespace rtrs::roce {

bool ChunkTable::connected(wire::Bytes conn_rsp) {
  const auto rsp = wire::parse_conn_rsp(conn_rsp);
  if (!rsp || rsp.value.error != 0) return false;
  depth_ = rsp.value.queue_depth;
  chunk_size_ = static_cast<std::uint32_t>(rsp.value.chunk_size());
  generations_ = (rsp.value.flags & wire::kConnRspGeneration) != 0;
  joins_data_ = (rsp.value.flags & wire::kConnRspDataWithAnswer) != 0;
  chunks_.clear();
  return true;
}

bool ChunkTable::offered(wire::Bytes info_rsp) {
  if (!wire::parse_info_rsp(info_rsp, depth_, chunk_size_)) return false;
  chunks_.clear();
  wire::ChunkWalk walk(info_rsp, chunk_size_);
  for (std::uint32_t i = 0; i < depth_; ++i) chunks_.push_back(walk.next().value);
  return true;
}

void ChunkTable::renewed(std::uint32_t chunk, std::uint32_t key) {
  if (chunk < chunks_.size()) chunks_[chunk].key = key;
}

std::optional<wire::Descriptor> ChunkTable::chunk(std::uint32_t io_req_imm) const noexcept {
  if (!known() || !wire::check_io_req(depth_, chunk_size_, io_req_imm)) return std::nullopt;
  return chunks_[wire::decode_io_req(depth_, io_req_imm).buf_id];
}

std::uint32_t ChunkTable::answered(std::uint32_t io_rsp_imm) const noexcept {
  const std::uint32_t id = wire::decode_io_rsp(io_rsp_imm).msg_id;
  return generations_ ? wire::split_msg_id(depth_, id).buf_id : id;
}

namespace {

// Returns the layout of the request if an RTRS header begins at `at`.
std::optional<RequestLayout> layout_at(wire::Bytes payload, std::size_t at) {
  if (payload.size() < at + wire::kWriteHeaderBytes) return std::nullopt;
  RequestLayout layout;
  layout.header = at;
  const std::uint8_t type = wire::load_u8(payload, at);
  const std::size_t usr_len = wire::load_le16(payload, at + 2);
  if (usr_len > at) return std::nullopt;
  layout.user = at - usr_len;
  if (type == static_cast<std::uint8_t>(wire::MsgType::write)) return layout;
  if (type != static_cast<std::uint8_t>(wire::MsgType::read) || payload.size() < at + wire::kReadHeaderBytes)
    return std::nullopt;
  layout.direction = Direction::read;
  if (wire::load_le16(payload, at + 6) != 1) return layout;
  if (payload.size() < at + wire::kMaxIoHeaderBytes) return std::nullopt;
  layout.descriptor = wire::Descriptor{wire::load_le64(payload, at + 8), wire::load_le32(payload, at + 16),
                                       wire::load_le32(payload, at + 20)};
  return layout;
}

}  // namespace

std::optional<RequestLayout> find_request(const ChunkTable& chunks, std::uint32_t imm,
                                          std::uint64_t remote_addr, wire::Bytes payload) {
  if (const auto chunk = chunks.chunk(imm)) {
    const std::uint64_t at = chunk->addr + wire::decode_io_req(chunks.depth(), imm).off - remote_addr;
    return at < payload.size() ? layout_at(payload, static_cast<std::size_t>(at)) : std::nullopt;
  }
  // Without known chunks, tries each possible header length at the end of the payload.
  for (const std::size_t length :
       {wire::kMaxIoHeaderBytes, wire::kReadHeaderBytes, wire::kWriteHeaderBytes}) {
    if (payload.size() < length) continue;
    const auto layout = layout_at(payload, payload.size() - length);
    if (!layout) continue;
    const std::size_t found = layout->direction == Direction::write ? wire::kWriteHeaderBytes
                              : layout->descriptor                  ? wire::kMaxIoHeaderBytes
                                                                    : wire::kReadHeaderBytes;
    if (found == length) return layout;
  }
  return std::nullopt;
}

}  // namespace rtrs::roce
