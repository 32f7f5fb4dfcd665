// Two fabrics in one process that deliver everything at once, without network, delay, or allocation after the
// connections are established. A benchmark on them measures only state machines, drivers and copies.
#pragma once
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "core/fabric/plain_fabric.hpp"

namespace rtrs::bench {

class LoopFabric final : public PlainFabric {
 public:
  LoopFabric() : ring_(kEvents) {
    can_.name = "loop";
    can_.max_send_depth = can_.max_receive_depth = 65535;
    can_.max_message = 1U << 30;
    can_.connect_data = can_.accept_data = can_.reject_data = 64;
    can_.done_means_delivered = true;
  }
  static void join(LoopFabric& a, LoopFabric& b) {
    a.peer_ = &b;
    b.peer_ = &a;
  }

  const Capabilities& capabilities() const noexcept override { return can_; }
  Result<Region> allocate(std::size_t bytes) override {
    memory_.push_back(std::make_unique<std::byte[]>(bytes));
    return register_memory({memory_.back().get(), bytes});
  }
  Result<Region> register_memory(std::span<std::byte> bytes) override {
    regions_.push_back(bytes);
    return Region{static_cast<RegionId>(regions_.size() - 1), bytes};
  }
  void release(RegionId) override {}
  Result<RemoteKey> make_key(RegionId id, std::size_t offset, std::size_t) override {
    return RemoteKey{id, 1, reinterpret_cast<std::uint64_t>(regions_[id].data() + offset)};
  }
  void release_key(RemoteKeyId) override {}
  void invalidate(ConKey, RemoteKeyId, std::uint64_t) override {}
  Result<std::uint32_t> rebind(ConKey, RemoteKeyId) override { return 1U; }

  Errc listen(const PathAddress&) override { return Errc::ok; }
  void connect(ConKey key, const PathAddress& to, const ConnectionParams&,
               std::span<const std::byte> data) override {
    event::ConnectRequested requested;
    requested.request = static_cast<std::uint32_t>(peer_->requests_.size());
    requested.address_pair = to.port;
    peer_->requests_.push_back(key);
    peer_->push(requested, data);
  }
  void accept(std::uint32_t request, ConKey key, const ConnectionParams&,
              std::span<const std::byte> data) override {
    const ConKey client = requests_[request];
    far(key) = client;
    peer_->far(client) = key;
    peer_->push(event::Connected{client, {}}, data);
  }
  void reject(std::uint32_t request, std::span<const std::byte> data) override {
    peer_->push(event::ConnectFailed{requests_[request], Reason::rejected, {}}, data);
  }
  void disconnect(ConKey key) override {
    push(event::ConnectionClosed{key}, {});
    peer_->push(event::ConnectionLost{far(key), Reason::peer_closed}, {});
  }
  std::string describe(ConKey) const override { return "loop"; }
  void post_receive(ConKey, unsigned, std::uint32_t) noexcept override {}

  std::size_t post(std::span<const WorkRequest> work) noexcept override {
    ++posts_;
    for (const WorkRequest& one : work) carry(one);
    return work.size();
  }
  std::size_t poll(Nanos, std::span<FabricEvent> out) noexcept override {
    std::size_t count = 0;
    while (count < out.size() && head_ != tail_) out[count++] = ring_[head_++ % kEvents].event;
    return count;
  }

  unsigned posts() const noexcept { return posts_; }  // number of post() calls

 private:
  static constexpr std::size_t kEvents = 8192;
  struct Slot {
    FabricEvent event;
    std::array<std::byte, 320> bytes;
  };

  ConKey& far(ConKey key) {
    const std::size_t at = std::size_t{key.place()} * 16 + key.con;
    if (far_.size() <= at) far_.resize(at + 1);
    return far_[at];
  }
  void push(const FabricEvent& event, std::span<const std::byte> bytes) {
    Slot& slot = ring_[tail_++ % kEvents];
    slot.event = event;
    if (bytes.empty()) return;
    std::memcpy(slot.bytes.data(), bytes.data(), bytes.size());
    *bytes_in(slot.event) = std::span(slot.bytes).first(bytes.size());
  }
  void carry(const WorkRequest& work) {
    auto* to = reinterpret_cast<std::byte*>(work.remote_addr);
    for (unsigned part = 0; part < work.part_count; ++part) {
      const LocalPart& from = work.parts[part];
      std::memcpy(to, regions_[from.region].data() + from.offset, from.length);
      to += from.length;
    }
    if (work.op == WorkRequest::Op::write_imm) {
      peer_->push(event::ImmReceived{far(work.key), work.imm}, {});
    } else if (work.op != WorkRequest::Op::write) {
      event::MessageReceived message{far(work.key), {}, {}};
      if (work.op == WorkRequest::Op::send_imm) message.imm = work.imm;
      peer_->push(message, work.inline_bytes);
    }
    if (work.signalled) push(event::SendDone{work.key, work.cookie}, {});
  }

  Capabilities can_;
  LoopFabric* peer_ = nullptr;
  std::vector<std::unique_ptr<std::byte[]>> memory_;
  std::vector<ConKey> requests_;
  std::vector<ConKey> far_;
  std::vector<Slot> ring_;
  std::size_t head_ = 0, tail_ = 0;
  unsigned posts_ = 0;
};

}  // namespace rtrs::bench
