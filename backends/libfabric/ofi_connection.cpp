#include "backends/libfabric/ofi_connection.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <array>
#include <bit>

#include "backends/libfabric/ofi_sockets.hpp"
#include "backends/libfabric/ofi_status.hpp"

namespace rtrs::ofi {

Connection::Connection(const FabricParts& around, ConKey key, const ConnectionParams& params, bool is_client)
    : fabric_parts_(around),
      key_(key),
      params_(params),
      is_client_(is_client),
      sends_(std::bit_ceil(std::max<std::size_t>(params.send_depth, 1))) {
  free_receives_.reserve(params.receive_depth);
  delivered_.reserve(params.receive_depth);
}

Connection::~Connection() {
  close();
}

int Connection::open(fi_info& info, fid_eq* events) {
  const Capabilities& can = fabric_parts_.device.capabilities;
  if (params_.send_depth > can.max_send_depth || params_.receive_depth > can.max_receive_depth)
    return -FI_EINVAL;
  info.tx_attr->size = std::max<std::size_t>(params_.send_depth, 1);
  info.rx_attr->size = std::max<std::size_t>(params_.receive_depth, 1);
  fid_ep* endpoint = nullptr;
  int result = fi_endpoint(fabric_parts_.device.domain.get(), &info, &endpoint, nullptr);
  if (result != 0) return result;
  endpoint_.reset(endpoint);
  fi_cq_attr attributes{};
  attributes.size = params_.send_depth + params_.receive_depth + 64;
  attributes.format = FI_CQ_FORMAT_DATA;
  attributes.wait_obj = FI_WAIT_FD;
  fid_cq* queue = nullptr;
  result = fi_cq_open(fabric_parts_.device.domain.get(), &attributes, &queue, nullptr);
  if (result != 0) return result;
  queue_.reset(queue);
  result = fi_control(&queue->fid, FI_GETWAIT, &wait_fd_);
  if (result == 0)
    result = fi_ep_bind(endpoint, &queue->fid, FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION);
  if (result == 0) result = fi_ep_bind(endpoint, &events->fid, 0);
  if (result == 0) result = fi_enable(endpoint);
  return result;
}

void Connection::close() noexcept {
  stage_ = Stage::lost;
  if (endpoint_ != nullptr) {
    // If an endpoint that was never connected is shut down, provider tcp accesses objects that were never
    // bound.
    if (begun_) fi_shutdown(endpoint_.get(), 0);
    endpoint_.reset();
  }
  if (queue_ != nullptr) {
    // Closing the endpoint has put every unfinished operation into the queue. Reading them shows which work
    // requests completed after all.
    std::array<FabricEvent, 16> unused;
    for (unsigned round = 0; round < 4096; ++round) {
      const Read read = this->read(unused);
      if (read.drained) break;
    }
    queue_.reset();
  }
  wait_fd_ = -1;
  fabric_parts_.stats.discarded_work += outstanding();
  done_sends_ = next_send_;
}

void Connection::set_addresses(const net::SocketAddress& client, const net::SocketAddress& server) {
  description_ = to_text(client) + " > " + to_text(server);
}

void Connection::read_addresses(unsigned undelivered_ms) {
  net::SocketAddress own;
  net::SocketAddress peer;
  std::size_t own_length = sizeof own.storage;
  std::size_t peer_length = sizeof peer.storage;
  if (fi_getname(&endpoint_->fid, &own.storage, &own_length) != 0 ||
      fi_getpeer(endpoint_.get(), &peer.storage, &peer_length) != 0) {
    return;
  }
  is_client_ ? set_addresses(own, peer) : set_addresses(peer, own);
  own.length = static_cast<socklen_t>(own_length);
  peer.length = static_cast<socklen_t>(peer_length);
  limit_undelivered(own, peer, undelivered_ms);
}

event::ConnectionLost Connection::lost(Reason reason) noexcept {
  stage_ = Stage::lost;
  return {key_, reason};
}

bool Connection::take_error(Reason& reason) noexcept {
  fi_cq_err_entry error{};
  if (fi_cq_readerr(queue_.get(), &error, 0) < 0) return false;
  // Provider tcp reports errors for injected operations too, without a context, and reports some operations
  // twice. So an error is used only as a sign that the connection is lost; closing the connection settles the
  // outstanding work.
  if (error.op_context == nullptr) ++fabric_parts_.stats.anonymous_errors;
  if (stage_ == Stage::lost) return false;
  reason = ending_ != Reason::none ? ending_ : loss_reason(error.err);
  return true;
}

Connection::Read Connection::read(std::span<FabricEvent> out) noexcept {
  Read result;
  std::array<fi_cq_data_entry, 16> entries;
  while (result.events < out.size()) {
    const std::size_t room = std::min(entries.size(), out.size() - result.events);
    const ssize_t count = fi_cq_read(queue_.get(), entries.data(), room);
    if (count > 0) {
      for (const fi_cq_data_entry& entry : std::span(entries).first(static_cast<std::size_t>(count))) {
        if (translate(entry, out[result.events])) ++result.events;
      }
      return result;
    }
    Reason reason = Reason::transport_error;
    if (count == -FI_EAVAIL) {
      if (take_error(reason)) out[result.events++] = lost(reason);
      if (stage_ != Stage::lost) return result;
      continue;
    }
    if (count != -FI_EAGAIN && stage_ != Stage::lost) {
      out[result.events++] = lost(loss_reason(static_cast<int>(-count)));
    } else if (ending_ != Reason::none && stage_ != Stage::lost) {
      out[result.events++] = lost(ending_);
    }
    result.drained = true;
    return result;
  }
  return result;
}

bool Connection::translate(const fi_cq_data_entry& entry, FabricEvent& event) noexcept {
  if ((entry.flags & (FI_RECV | FI_REMOTE_WRITE)) == 0) return retire(entry, event);
  const auto imm = static_cast<std::uint32_t>(entry.data);
  auto* slot = static_cast<ReceiveSlot*>(entry.op_context);
  if ((entry.flags & FI_REMOTE_WRITE) != 0) {
    event = event::ImmReceived{key_, imm};
    if (slot != nullptr) free_receives_.push_back(slot);
  } else {
    event::MessageReceived message{key_, {}, std::span<const std::byte>(slot->buffer.data(), entry.len)};
    if ((entry.flags & FI_REMOTE_CQ_DATA) != 0) message.imm = imm;
    event = message;
    delivered_.push_back(slot);
  }
  if (stage_ != Stage::lost) return true;
  ++fabric_parts_.stats.dropped_completions;
  return false;
}

bool Connection::retire(const fi_cq_data_entry& entry, FabricEvent& event) noexcept {
  const auto* slot = static_cast<const SendSlot*>(entry.op_context);
  if (slot == nullptr || slot->number < done_sends_) return false;
  // Work requests complete in order, so this completion also covers the unsignalled ones before it.
  done_sends_ = slot->number + 1;
  event = event::SendDone{key_, slot->cookie};
  return slot->report && stage_ != Stage::lost;
}

void Connection::reuse_delivered() noexcept {
  free_receives_.insert(free_receives_.end(), delivered_.begin(), delivered_.end());
  delivered_.clear();
}

}  // namespace rtrs::ofi
