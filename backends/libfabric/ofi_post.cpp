// Functions of Connection that post work requests.
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "backends/libfabric/ofi_connection.hpp"
#include "core/base/assert.hpp"

namespace rtrs::ofi {

Connection::Posted Connection::post(const WorkRequest& work) noexcept {
  // Without this limit, the provider would queue any number of requests.
  if (outstanding() >= params_.send_depth) return Posted::try_later;
  SendSlot& slot = sends_[next_send_ & (sends_.size() - 1)];
  slot.number = next_send_;
  slot.cookie = work.cookie;
  slot.report = work.signalled;
  // Only a completion frees ring entries, so at least two completions per ring are requested, even if the
  // caller requests none.
  const bool ask = work.signalled || since_signal_ + 1 >= std::max(params_.send_depth / 2, 1u);
  const ssize_t result = submit(work, slot, ask ? FI_COMPLETION : 0);
  if (result == -FI_EAGAIN) return Posted::try_later;
  if (result != 0) return Posted::failed;
  ++next_send_;
  since_signal_ = ask ? 0 : since_signal_ + 1;
  return Posted::yes;
}

ssize_t Connection::submit(const WorkRequest& work, SendSlot& slot, std::uint64_t flags) noexcept {
  switch (work.op) {
    case WorkRequest::Op::write:
      return submit_write(work, slot, flags);
    case WorkRequest::Op::write_imm:
      return submit_write(work, slot, flags | FI_REMOTE_CQ_DATA);
    case WorkRequest::Op::send:
      return submit_send(work, slot, flags);
    case WorkRequest::Op::send_imm:
      return submit_send(work, slot, flags | FI_REMOTE_CQ_DATA);
    case WorkRequest::Op::send_inv:
      break;  // unreachable: libfabric does not support it, and capability send_invalidate is false
  }
  return -FI_EOPNOTSUPP;
}

ssize_t Connection::submit_write(const WorkRequest& work, SendSlot& slot, std::uint64_t flags) noexcept {
  RTRS_ASSERT(work.part_count <= work.parts.size());
  std::array<iovec, 2> parts{};
  std::array<void*, 2> descriptors{};
  fi_rma_iov remote{};
  std::size_t count = 0;
  for (const LocalPart& part : std::span(work.parts).first(work.part_count)) {
    if (part.length == 0) continue;
    parts[count].iov_base = fabric_parts_.memory.address(part);
    parts[count].iov_len = part.length;
    descriptors[count] = fabric_parts_.memory.descriptor(part.region);
    remote.len += part.length;
    ++count;
  }
  remote.addr = work.remote_addr;
  remote.key = work.rkey;
  fi_msg_rma message{};
  message.msg_iov = parts.data();
  message.desc = descriptors.data();
  message.iov_count = count;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.context = &slot.context;
  message.data = work.imm;
  return fi_writemsg(endpoint_.get(), &message, flags);
}

ssize_t Connection::submit_send(const WorkRequest& work, SendSlot& slot, std::uint64_t flags) noexcept {
  const std::size_t size = work.inline_bytes.size();
  iovec part{const_cast<std::byte*>(work.inline_bytes.data()), size};
  void* descriptor = nullptr;
  if (size != 0 && size <= fabric_parts_.device.inject_size) {
    flags |= FI_INJECT;
  } else if (size != 0) {
    if (!slot.bounce.reserve(fabric_parts_.device, size)) return -FI_ENOMEM;
    std::memcpy(slot.bounce.data(), work.inline_bytes.data(), size);
    part.iov_base = slot.bounce.data();
    descriptor = slot.bounce.descriptor();
  }
  fi_msg message{};
  message.msg_iov = &part;
  message.desc = &descriptor;
  message.iov_count = size == 0 ? 0 : 1;
  message.context = &slot.context;
  message.data = work.imm;
  return fi_sendmsg(endpoint_.get(), &message, flags);
}

bool Connection::post_receive(std::uint32_t bytes) noexcept try {
  if (free_receives_.empty()) free_receives_.push_back(&receives_.emplace_back());
  ReceiveSlot* slot = free_receives_.back();
  if (!slot->buffer.reserve(fabric_parts_.device, bytes)) return false;
  const iovec part{bytes == 0 ? nullptr : slot->buffer.data(), bytes};
  void* descriptor = slot->buffer.descriptor();
  fi_msg message{};
  message.msg_iov = &part;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.context = &slot->context;
  const ssize_t result = fi_recvmsg(endpoint_.get(), &message, FI_COMPLETION);
  if (result != 0) return false;
  free_receives_.pop_back();
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

}  // namespace rtrs::ofi
