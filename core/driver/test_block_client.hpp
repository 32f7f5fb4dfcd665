// A server's fabric without a network, and handwritten clients: requests are placed in the chunks like a
// client's RDMA writes, and responses are read from the server's posts.
#pragma once
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "core/base/assert.hpp"
#include "core/fabric/plain_fabric.hpp"
#include "core/rnbd/io_request.hpp"
#include "core/wire/imm.hpp"
#include "core/wire/messages.hpp"
#include "core/wire/rnbd_messages.hpp"

namespace rtrs::test {

class ServerSideFabric final : public PlainFabric {
 public:
  ServerSideFabric() {
    capabilities_.max_send_depth = capabilities_.max_receive_depth = 65535;
    capabilities_.connect_data = capabilities_.accept_data = capabilities_.reject_data = 64;
    capabilities_.invalidation = true;
  }
  const Capabilities& capabilities() const noexcept override { return capabilities_; }
  Result<Region> allocate(std::size_t size) override {
    memory.emplace_back(size);
    return Region{static_cast<RegionId>(memory.size() - 1), memory.back()};
  }
  Result<Region> register_memory(std::span<std::byte>) override {
    return tl::make_unexpected(Errc::no_memory);
  }
  void release(RegionId id) override { released.push_back(id); }
  Result<RemoteKey> make_key(RegionId id, std::size_t, std::size_t) override {
    return RemoteKey{id, 1, 4096};
  }
  void release_key(RemoteKeyId) override {}
  // Completes at once, as most fabrics do.
  void invalidate(ConKey key, RemoteKeyId, std::uint64_t cookie) override {
    events.emplace_back(event::ChunkInvalidated{key, cookie, true});
  }
  Result<std::uint32_t> rebind(ConKey, RemoteKeyId) override { return 8U; }
  Errc listen(const PathAddress&) override { return Errc::ok; }
  void connect(ConKey, const PathAddress&, const ConnectionParams&, std::span<const std::byte>) override {}
  void accept(std::uint32_t request, ConKey key, const ConnectionParams&,
              std::span<const std::byte>) override {
    accepted[request] = key;
  }
  void reject(std::uint32_t request, std::span<const std::byte>) override { rejected.push_back(request); }
  void disconnect(ConKey key) override { events.emplace_back(event::ConnectionClosed{key}); }
  std::string describe(ConKey) const override { return "client > server"; }
  void post_receive(ConKey, unsigned, std::uint32_t) noexcept override {}
  std::size_t post(std::span<const WorkRequest> work) noexcept override {
    for (const WorkRequest& one : work) {
      if (one.op == WorkRequest::Op::write_imm) answers.push_back({one.key, one.imm});
      if (one.signalled) events.emplace_back(event::SendDone{one.key, one.cookie});
    }
    return work.size();
  }
  std::size_t poll(Nanos, std::span<FabricEvent> out) noexcept override {
    const std::size_t count = std::min(out.size(), events.size());
    std::copy_n(events.begin(), count, out.begin());
    events.erase(events.begin(), events.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }

  struct Answer {
    ConKey key;
    std::uint32_t imm = 0;
  };
  std::deque<std::vector<std::byte>> memory;  // indexed by region
  std::vector<RegionId> released;
  std::map<std::uint32_t, ConKey> accepted;  // key: number of the connect request
  std::vector<std::uint32_t> rejected;
  std::vector<Answer> answers;
  std::deque<FabricEvent> events;

 private:
  Capabilities capabilities_;
};

template <class Message>
std::size_t write_message(const Message& message, std::span<std::byte> out) {
  const std::size_t length = encode(message, out);
  RTRS_ASSERT(length != 0);
  return length;
}

inline constexpr std::uint16_t kTestDepth = 8;
inline constexpr std::uint32_t kTestChunk = 16384;

// A client session with one path. The server gets its messages at the next poll().
class RawClient {
 public:
  // `turn` runs the server until it is idle.
  template <class Turn>
  RawClient(ServerSideFabric& fabric, std::uint8_t number, const Turn& turn) : fabric_(fabric) {
    wire::ConnReq connect;
    connect.cid_num = 2;
    connect.paths_uuid.bytes[0] = connect.sess_uuid.bytes[0] = number;
    connect.sess_uuid.bytes[1] = 1;
    connect.first_conn = true;
    for (std::uint16_t con = 0; con < 2; ++con) {
      connect.cid = con;
      std::array<std::byte, wire::kConnReqBytes> bytes;
      write_message(connect, bytes);
      event::ConnectRequested requested;
      requested.request = requests++;
      requested.private_data = bytes;
      fabric.events.emplace_back(requested);
      turn();
      keys_[con] = fabric.accepted.at(requested.request);
    }
    wire::InfoReq info;
    info.name = wire::make_name(std::string(1, static_cast<char>('a' + number))).value;
    std::array<std::byte, wire::kInfoReqBytes> bytes;
    const std::size_t length = write_message(info, bytes);
    fabric.events.emplace_back(event::MessageReceived{keys_[0], {}, std::span(bytes).first(length)});
    region_ = fabric.memory.size();
    turn();
    RTRS_ASSERT(fabric.memory.size() == region_ + 1);
  }

  std::span<std::byte> chunk(std::uint16_t index) {
    return std::span(fabric_.memory[region_]).subspan(std::size_t{index} * kTestChunk, kTestChunk);
  }
  RegionId region() const { return static_cast<RegionId>(region_); }
  // Sends a request. The data of a write is already in the chunk.
  void request(std::uint16_t index, Direction direction, std::uint32_t data_len, wire::Bytes header) {
    std::memcpy(chunk(index).data() + data_len, header.data(), header.size());
    const auto off = static_cast<std::uint32_t>(data_len + header.size());
    const auto usr_len = static_cast<std::uint16_t>(header.size());
    wire::IoRequest request;
    request.direction = direction;
    request.usr_len = usr_len;
    request.has_descriptor = direction == Direction::read && data_len != 0;
    request.desc = {0x1000, 7, data_len};
    write_message(request, chunk(index).subspan(off));
    fabric_.events.emplace_back(event::ImmReceived{keys_[1], wire::encode_io_req(kTestDepth, index, off)});
  }
  // `room`: bytes for the response.
  void open(std::uint16_t index, std::string_view name, std::uint32_t room = wire::rnbd::kOpenRspBytes) {
    std::array<std::byte, wire::rnbd::kOpenBytes> header;
    write_message(wire::rnbd::Open{wire::rnbd::AccessMode::read_write, wire::make_name(name).value}, header);
    request(index, Direction::read, room, header);
  }
  // Device id in the response in this chunk.
  std::uint32_t device_id(std::uint16_t index) {
    return wire::rnbd::parse_open_rsp(chunk(index)).value.device_id;
  }
  void close(std::uint16_t index, std::uint32_t device) {
    std::array<std::byte, wire::rnbd::kCloseBytes> header;
    write_message(wire::rnbd::Close{device}, header);
    request(index, Direction::write, 0, header);
  }
  void io(std::uint16_t index, std::uint32_t device, wire::rnbd::Opcode opcode, std::uint32_t bytes = 4096,
          std::uint64_t sector = 0) {
    wire::rnbd::Io message;
    message.device_id = device;
    message.opcode = opcode;
    message.sector = sector;
    message.size = opcode == wire::rnbd::Opcode::flush ? 0 : bytes;
    const auto framing = wire::rnbd::io_framing(message);
    std::array<std::byte, wire::rnbd::kIoBytes> header;
    write_message(message, header);
    request(index, framing.direction, framing.data_len, header);
  }
  // Takes the errno of the last response in this chunk; empty if there is none.
  std::optional<int> answer(std::uint16_t index) {
    for (auto one = fabric_.answers.begin(); one != fabric_.answers.end(); ++one) {
      const bool response = wire::imm_type(one->imm) == wire::ImmType::io_rsp;
      const auto decoded = wire::decode_io_rsp(one->imm);
      if (one->key != keys_[1] || !response || decoded.msg_id != index) continue;
      fabric_.answers.erase(one);
      return decoded.error;
    }
    return std::nullopt;
  }
  void drop() {
    for (const ConKey key : keys_)
      fabric_.events.emplace_back(event::ConnectionLost{key, Reason::transport_error});
  }

 private:
  static inline std::uint32_t requests = 0;
  ServerSideFabric& fabric_;
  std::array<ConKey, 2> keys_;
  std::size_t region_ = 0;
};

}  // namespace rtrs::test
