// Queue pairs: posting of work requests, and their execution at the other end.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "sim/net/adapters/world.hpp"

namespace rtrs::mock_hca {
namespace {

ibv_wc_opcode opcode_of(const Work& work) {
  switch (work.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
      return IBV_WC_RDMA_WRITE;
    case IBV_WR_BIND_MW:
      return IBV_WC_BIND_MW;
    default:
      return IBV_WC_SEND;
  }
}

}  // namespace

void finish(QueuePair& pair, const Work& work, ibv_wc_status status) {
  if (status == IBV_WC_SUCCESS && !work.signalled) return;
  ibv_wc completion{};
  completion.wr_id = work.id;
  completion.status = status;
  completion.opcode = opcode_of(work);
  completion.qp_num = pair.qp_num;
  complete(*static_cast<Queue*>(pair.send_cq), {completion, &pair, work.number});
}

namespace {

void finish(QueuePair& pair, const Receive& receive, ibv_wc completion) {
  completion.wr_id = receive.id;
  completion.qp_num = pair.qp_num;
  if (completion.status != IBV_WC_SUCCESS) completion.opcode = IBV_WC_RECV;
  complete(*static_cast<Queue*>(pair.recv_cq), {completion, &pair, 0});
}

void tell(QueuePair& pair, ibv_event_type type) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.qp = &pair;
  raise(*pair.adapter, event);
}

bool inside(const MemoryRegion& region, std::uint64_t address, std::uint64_t bytes) {
  const auto start = reinterpret_cast<std::uintptr_t>(region.addr);
  return address >= start && address - start <= region.length && bytes <= region.length - (address - start);
}

// Copies the data of a work request to `bytes`. Returns false if a part is not in a registered region of the
// domain.
bool gather(const QueuePair& pair, const Work& work, std::vector<std::byte>& bytes) {
  if (work.is_inline) return bytes = work.inline_bytes, true;
  for (const ibv_sge& part : work.parts) {
    const MemoryRegion* const region = world().region(pair.pd, part.lkey);
    if (region == nullptr || !inside(*region, part.addr, part.length)) return false;
    const auto* from = reinterpret_cast<const std::byte*>(part.addr);
    bytes.insert(bytes.end(), from, from + part.length);
  }
  return true;
}

bool may_write(const QueuePair& pair, std::uint32_t key, std::uint64_t address, std::uint64_t bytes) {
  if ((pair.access & IBV_ACCESS_REMOTE_WRITE) == 0) return false;
  if (const MemoryRegion* const region = world().region(pair.pd, key))
    return (region->access & IBV_ACCESS_REMOTE_WRITE) != 0 && inside(*region, address, bytes);
  for (const Window* window : world().windows) {
    if (window->region == nullptr || window->live_key != key || window->pd != protection_of(pair.pd))
      continue;
    if (window->type == IBV_MW_TYPE_2 && window->of != &pair) return false;
    return address >= window->start && address - window->start <= window->length &&
           bytes <= window->length - (address - window->start);
  }
  return false;
}

bool invalidate(const QueuePair& pair, std::uint32_t key) {
  for (Window* window : world().windows) {
    if (window->region == nullptr || window->live_key != key || window->type != IBV_MW_TYPE_2 ||
        window->of != &pair)
      continue;
    --window->region->windows;
    window->region = nullptr;
    return true;
  }
  return false;
}

ibv_wc_status bind(QueuePair& pair, const Work& work) {
  Window& window = *work.window;
  if (world().windows.count(&window) == 0 || window.pd != protection_of(pair.pd)) return IBV_WC_LOC_PROT_ERR;
  // Soft-RoCE compares the old key. For other adapters a wrong old key names another window.
  if (work.old_key != window.key) return IBV_WC_MW_BIND_ERR;
  auto* const region = static_cast<MemoryRegion*>(work.bind.mr);
  // A type 2 window must not be bound already.
  if (window.type == IBV_MW_TYPE_2 && window.region != nullptr) return IBV_WC_MW_BIND_ERR;
  if (window.region != nullptr) --window.region->windows;
  window.region = nullptr;
  if (work.bind.length == 0) return window.key = work.key, IBV_WC_SUCCESS;
  if (world().region(pair.pd, region->lkey) != region || (region->access & IBV_ACCESS_MW_BIND) == 0 ||
      !inside(*region, work.bind.addr, work.bind.length))
    return IBV_WC_MW_BIND_ERR;
  window.region = region;
  ++region->windows;
  window.start = work.bind.addr;
  window.length = work.bind.length;
  window.access = work.bind.mw_access_flags;
  window.live_key = window.key = work.key;
  window.of = &pair;
  return IBV_WC_SUCCESS;
}

bool takes_receive(const Work& work) {
  return work.opcode != IBV_WR_RDMA_WRITE && work.opcode != IBV_WR_BIND_MW;
}

// Copies the data into the receive. Returns false if the data does not fit or the receive's memory is not
// registered.
bool place(QueuePair& peer, const Receive& receive, const std::vector<std::byte>& bytes) {
  std::size_t done = 0;
  for (const ibv_sge& part : receive.parts) {
    const std::size_t count = std::min<std::size_t>(part.length, bytes.size() - done);
    const MemoryRegion* const region = world().region(peer.pd, part.lkey);
    if (count != 0 && (region == nullptr || !inside(*region, part.addr, count))) return false;
    if (count != 0) std::memcpy(reinterpret_cast<std::byte*>(part.addr), bytes.data() + done, count);
    done += count;
  }
  return done == bytes.size();
}

// Executes a work request at the other end. Returns the completion status for this end.
ibv_wc_status deliver(QueuePair& peer, const Work& work, const std::vector<std::byte>& bytes) {
  const bool writes = work.opcode == IBV_WR_RDMA_WRITE || work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (writes && !bytes.empty()) {
    if (!may_write(peer, work.key, work.address, bytes.size())) {
      tell(peer, IBV_EVENT_QP_ACCESS_ERR);
      fail(peer);
      return IBV_WC_REM_ACCESS_ERR;
    }
    std::memcpy(reinterpret_cast<std::byte*>(work.address), bytes.data(), bytes.size());
  }
  if (!takes_receive(work)) return IBV_WC_SUCCESS;
  const Receive receive = peer.receives.front();
  peer.receives.pop_front();
  ibv_wc completion{};
  completion.opcode = writes ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
  completion.byte_len = static_cast<std::uint32_t>(bytes.size());
  if (work.opcode == IBV_WR_RDMA_WRITE_WITH_IMM || work.opcode == IBV_WR_SEND_WITH_IMM) {
    completion.wc_flags = IBV_WC_WITH_IMM;
    completion.imm_data = work.imm;
  }
  if (!writes && !place(peer, receive, bytes)) {
    completion.status = IBV_WC_LOC_LEN_ERR;
    finish(peer, receive, completion);
    fail(peer);
    return IBV_WC_REM_INV_REQ_ERR;
  }
  if (work.opcode == IBV_WR_SEND_WITH_INV) {
    if (!invalidate(peer, work.key)) {
      tell(peer, IBV_EVENT_QP_ACCESS_ERR);
      fail(peer);
      return IBV_WC_REM_ACCESS_ERR;
    }
    completion.wc_flags = peer.adapter->profile.with_invalidate;
    completion.invalidated_rkey = work.key;
  }
  if ((peer.state == IBV_QPS_RTR || world().hostile) && !std::exchange(peer.comm_est_raised, true))
    tell(peer, IBV_EVENT_COMM_EST);
  finish(peer, receive, completion);
  return IBV_WC_SUCCESS;
}

}  // namespace

Step carry_out(QueuePair& pair, ibv_wc_status& status) {
  const Work& work = pair.sends.front();
  status = IBV_WC_SUCCESS;
  if (work.opcode == IBV_WR_BIND_MW) {
    status = bind(pair, work);
    return status == IBV_WC_SUCCESS ? Step::done : Step::failed;
  }
  const auto found = world().queue_pairs.find(pair.peer);
  QueuePair* const peer = found == world().queue_pairs.end() ? nullptr : found->second;
  const bool gone = peer == nullptr || peer->state == IBV_QPS_ERR ||
                    (peer->peer != pair.qp_num && peer->state != IBV_QPS_INIT) || pair.adapter->port_down ||
                    peer->adapter->port_down;
  if (gone) {
    if (pair.waits_since == 0) pair.waits_since = clock_now();
    if (world().conductor != nullptr || clock_now() - pair.waits_since < pair.adapter->profile.gives_up_after)
      return Step::waits;
    status = IBV_WC_RETRY_EXC_ERR;
    return Step::failed;
  }
  pair.waits_since = 0;
  if (peer->state != IBV_QPS_RTR && peer->state != IBV_QPS_RTS) return Step::waits;
  if (takes_receive(work) && peer->receives.empty()) {
    if (pair.rnr_retry == 7) return Step::no_receive;
    status = IBV_WC_RNR_RETRY_EXC_ERR;
    return Step::failed;
  }
  std::vector<std::byte> bytes;
  world().carrying = true;
  status = gather(pair, work, bytes) ? deliver(*peer, work, bytes) : IBV_WC_LOC_PROT_ERR;
  world().carrying = false;
  return status == IBV_WC_SUCCESS ? Step::done : Step::failed;
}

namespace {

// Executes the first work request if possible. Returns true if it was executed successfully.
bool step(QueuePair& pair) {
  ibv_wc_status status = IBV_WC_SUCCESS;
  const Step made = carry_out(pair, status);
  if (made == Step::waits || made == Step::no_receive) return false;
  const Work work = std::move(pair.sends.front());
  pair.sends.pop_front();
  finish(pair, work, status);
  if (made == Step::failed) fail(pair);
  return made == Step::done;
}

}  // namespace

bool awaits_rejection(const QueuePair& pair) {
  return !pair.unheard.empty() && pair.unheard.back().second != IBV_WC_SUCCESS;
}

void end_sends(QueuePair& pair) {
  Conductor* const conductor = world().conductor;
  if (conductor == nullptr || world().carrying || pair.state != IBV_QPS_RTS || pair.sends.empty() ||
      awaits_rejection(pair))
    return;
  if (world().severed.count(pair.adapter->host) != 0 || std::exchange(pair.ended, true)) return;
  unsigned count = conductor->still_arrives(pair.qp_num, static_cast<unsigned>(pair.sends.size()));
  ibv_wc_status status = IBV_WC_SUCCESS;
  while (count-- != 0 && pair.sends.front().opcode != IBV_WR_BIND_MW &&
         carry_out(pair, status) == Step::done) {
    pair.unheard.emplace_back(std::move(pair.sends.front()), status);
    pair.sends.pop_front();
    if (pair.sends.empty()) return;
  }
}

void fail(QueuePair& pair) {
  if (pair.state == IBV_QPS_ERR) return;
  end_sends(pair);
  pair.state = IBV_QPS_ERR;
  for (const auto& [work, status] : std::exchange(pair.unheard, {})) finish(pair, work, IBV_WC_WR_FLUSH_ERR);
  for (const Work& work : std::exchange(pair.sends, {})) finish(pair, work, IBV_WC_WR_FLUSH_ERR);
  ibv_wc flushed{};
  flushed.status = IBV_WC_WR_FLUSH_ERR;
  for (const Receive& receive : std::exchange(pair.receives, {})) finish(pair, receive, flushed);
}

void kick(QueuePair& pair) {
  if (world().conductor != nullptr) {
    if (pair.state == IBV_QPS_RTS && !pair.sends.empty())
      world().conductor->work_waits(pair.qp_num, pair.sends.size());
    return;
  }
  std::size_t steps = world().hostile ? world().pick(4) : ~std::size_t{0};
  while (steps-- != 0 && pair.state == IBV_QPS_RTS && !pair.sends.empty() && step(pair)) {
  }
}

void kick_all() {
  std::vector<QueuePair*> all;
  for (auto& [number, pair] : world().queue_pairs) all.push_back(pair);
  if (world().hostile) std::shuffle(all.begin(), all.end(), world().chance);
  for (QueuePair* pair : all) kick(*pair);
  deliver_held_events();
}

int post_send(ibv_qp* qp, ibv_send_wr* first, ibv_send_wr** refused) {
  const std::scoped_lock lock(world().lock);
  auto& pair = *static_cast<QueuePair*>(qp);
  using Chain = Profile::Type1Chain;
  const Chain type_1 = pair.adapter->profile.type_1_in_chain;
  for (ibv_send_wr* wr = first; wr != nullptr && type_1 != Chain::takes; wr = wr->next) {
    if (wr->opcode != IBV_WR_BIND_MW || wr->bind_mw.mw->type != IBV_MW_TYPE_1) continue;
    if (type_1 == Chain::refuses) return *refused = wr, EINVAL;
    // Address 0 is in no region, so that the bind fails.
    wr->bind_mw.bind_info.addr = 0;
    wr->bind_mw.bind_info.length = ~std::uint64_t{0};
  }
  return post_work(pair, first, refused);
}

int post_work(QueuePair& pair, ibv_send_wr* first, ibv_send_wr** refused) {
  check_no_batch(pair, "ibv_post_send()");
  ++pair.adapter->counts.doorbells;
  for (ibv_send_wr* wr = first; wr != nullptr; wr = wr->next) {
    *refused = wr;
    const std::uint32_t old_key = wr->opcode == IBV_WR_BIND_MW ? wr->bind_mw.mw->rkey : 0;
    if (const int error = post_one(pair, *wr, old_key); error != 0) return error;
  }
  *refused = nullptr;
  kick(pair);
  return 0;
}

namespace {

int take_binding(const ibv_send_wr& wr, Work& work) {
  // Soft-RoCE's library checks these fields, although a bind uses neither of them.
  if (wr.num_sge != 0 || wr.imm_data != 0) return EINVAL;
  work.window = static_cast<Window*>(wr.bind_mw.mw);
  if (world().windows.count(work.window) == 0)
    return world().problem("a window that is gone was bound"), EINVAL;
  work.bind = wr.bind_mw.bind_info;
  work.key = wr.bind_mw.rkey;
  if ((work.key >> 8) == (work.window->rkey >> 8)) return 0;
  world().problem("a window was bound under a key that is not its own");
  return EINVAL;
}

}  // namespace

int post_one(QueuePair& pair, const ibv_send_wr& wr, std::uint32_t old_key) {
  if (is_over(pair.context)) return EIO;
  if (pair.state != IBV_QPS_RTS && pair.state != IBV_QPS_ERR) {
    world().problem("a work request was posted to a queue pair that cannot send yet");
    return EINVAL;
  }
  Work work;
  work.opcode = wr.opcode;
  work.id = wr.wr_id;
  work.signalled = (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  work.is_inline = (wr.send_flags & IBV_SEND_INLINE) != 0;
  work.imm = wr.imm_data;
  work.old_key = old_key;
  work.parts.assign(wr.sg_list, wr.sg_list + wr.num_sge);
  std::uint64_t total = 0;
  for (const ibv_sge& part : work.parts) total += part.length;
  if (static_cast<std::uint32_t>(wr.num_sge) > pair.cap.max_send_sge ||
      (work.is_inline && total > pair.cap.max_inline_data)) {
    world().problem("a work request has more parts, or more inline data, than its queue pair takes");
    return EINVAL;
  }
  if (work.opcode == IBV_WR_BIND_MW) {
    if (const int error = take_binding(wr, work); error != 0) return error;
  } else if (work.opcode == IBV_WR_SEND_WITH_INV) {
    if (!pair.adapter->profile.send_invalidate) return EINVAL;
    work.key = wr.invalidate_rkey;
  } else {
    work.key = wr.wr.rdma.rkey;
    work.address = wr.wr.rdma.remote_addr;
  }
  if (work.is_inline) {
    for (const ibv_sge& part : std::exchange(work.parts, {})) {
      const auto* from = reinterpret_cast<const std::byte*>(part.addr);
      work.inline_bytes.insert(work.inline_bytes.end(), from, from + part.length);
    }
  }
  if (pair.posted - pair.released == pair.cap.max_send_wr) return ENOMEM;
  work.number = pair.posted++;
  ++pair.adapter->counts.work_requests;
  if (pair.state == IBV_QPS_ERR)
    finish(pair, work, IBV_WC_WR_FLUSH_ERR);
  else
    pair.sends.push_back(std::move(work));
  return 0;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* first, ibv_recv_wr** refused) {
  const std::scoped_lock lock(world().lock);
  auto& pair = *static_cast<QueuePair*>(qp);
  ++pair.adapter->counts.receive_calls;
  for (ibv_recv_wr* wr = first; wr != nullptr; wr = wr->next) {
    *refused = wr;
    if (is_over(pair.context)) return EIO;
    if (pair.state == IBV_QPS_RESET) return EINVAL;
    if (pair.held_receives == pair.cap.max_recv_wr) return ENOMEM;
    ++pair.held_receives;
    ++pair.adapter->counts.receives;
    Receive receive;
    receive.id = wr->wr_id;
    receive.parts.assign(wr->sg_list, wr->sg_list + wr->num_sge);
    ibv_wc flushed{};
    flushed.status = IBV_WC_WR_FLUSH_ERR;
    if (pair.state == IBV_QPS_ERR)
      finish(pair, receive, flushed);
    else
      pair.receives.push_back(std::move(receive));
  }
  *refused = nullptr;
  const auto peer = world().queue_pairs.find(pair.peer);
  if (peer != world().queue_pairs.end()) kick(*peer->second);
  return 0;
}

}  // namespace rtrs::mock_hca
