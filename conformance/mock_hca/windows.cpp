// Memory windows, and the queue pairs that they are bound through.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "conformance/mock_hca/world.hpp"

namespace rtrs::mock_hca {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  const std::scoped_lock lock(world().lock);
  const Profile& profile = static_cast<Context*>(pd->context)->adapter->profile;
  if (!(type == IBV_MW_TYPE_1 ? profile.windows_type_1 : profile.windows_type_2b))
    return errno = EOPNOTSUPP, nullptr;
  if (world().falls_short()) return nullptr;
  auto* window = new Window;
  window->context = pd->context;
  window->pd = pd;
  window->type = type;
  window->rkey = world().next_key++ << 8;
  world().windows.insert(window);
  ++static_cast<Domain*>(pd)->users;
  return window;
}

int dealloc_mw(ibv_mw* mw) {
  const std::scoped_lock lock(world().lock);
  auto* window = static_cast<Window*>(mw);
  if (window->region != nullptr) --window->region->windows;
  --static_cast<Domain*>(mw->pd)->users;
  world().windows.erase(window);
  // A binding that is on its way names it no more.
  for (auto& [number, pair] : world().queue_pairs)
    for (const Work& work : pair->sends)
      if (work.window == window) world().problem("a window was given back while a work request named it");
  delete window;
  return 0;
}

// The library chooses the key of a window of type 1.
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* request) {
  ibv_send_wr wr{};
  wr.wr_id = request->wr_id;
  wr.send_flags = request->send_flags;
  wr.opcode = IBV_WR_BIND_MW;
  wr.bind_mw.mw = mw;
  wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
  wr.bind_mw.bind_info = request->bind_info;
  if (mw->type != IBV_MW_TYPE_1) {
    const std::scoped_lock lock(world().lock);
    world().problem("ibv_bind_mw() was called for a window that is not of type 1");
    return EINVAL;
  }
  ibv_send_wr* refused = nullptr;
  const int error = post_send(qp, &wr, &refused);
  if (error == 0) mw->rkey = wr.bind_mw.rkey;
  return error;
}

void tick() {
  const std::scoped_lock lock(world().lock);
  kick_all();
}

void fail_last_queue_pair(ibv_event_type type) {
  const std::scoped_lock lock(world().lock);
  QueuePair* const pair = world().last_queue_pair;
  if (pair == nullptr) return;
  ibv_async_event event{};
  event.event_type = type;
  event.element.qp = pair;
  raise(*pair->adapter, event);
  fail(*pair);
}

}  // namespace rtrs::mock_hca

using namespace rtrs::mock_hca;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* wanted) {
  const std::scoped_lock lock(world().lock);
  Adapter& adapter = *static_cast<Context*>(pd->context)->adapter;
  const Profile& profile = adapter.profile;
  const ibv_qp_cap& cap = wanted->cap;
  if (adapter.removed || static_cast<Context*>(pd->context)->over) return errno = EIO, nullptr;
  if (cap.max_send_wr > profile.max_qp_wr || cap.max_recv_wr > profile.max_qp_wr ||
      cap.max_inline_data > profile.max_inline || static_cast<int>(cap.max_send_sge) > profile.max_sge ||
      static_cast<int>(cap.max_recv_sge) > profile.max_sge)
    return errno = EINVAL, nullptr;
  if (world().falls_short()) return nullptr;
  auto* pair = new QueuePair;
  pair->adapter = &adapter;
  pair->context = pd->context;
  pair->qp_context = wanted->qp_context;
  pair->pd = pd;
  pair->send_cq = wanted->send_cq;
  pair->recv_cq = wanted->recv_cq;
  pair->qp_type = wanted->qp_type;
  pair->state = IBV_QPS_RESET;
  pair->qp_num = world().next_queue_pair++;
  pair->cap = cap;
  world().queue_pairs[pair->qp_num] = pair;
  world().last_queue_pair = pair;
  ++static_cast<Domain*>(pd)->users;
  return pair;
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  const std::scoped_lock lock(world().lock);
  auto& pair = *static_cast<QueuePair*>(qp);
  if (pair.adapter->removed || static_cast<Context*>(pair.context)->over) return EIO;
  if ((mask & IBV_QP_STATE) == 0) return EINVAL;
  const ibv_qp_state from = pair.state, to = attributes->qp_state;
  if (to == IBV_QPS_ERR) return fail(pair), 0;
  const bool good = (to == IBV_QPS_INIT && (from == IBV_QPS_RESET || from == IBV_QPS_INIT)) ||
                    (to == IBV_QPS_RTR && from == IBV_QPS_INIT) || (to == IBV_QPS_RTS && from == IBV_QPS_RTR);
  if (!good) return EINVAL;
  pair.state = to;
  if ((mask & IBV_QP_DEST_QPN) != 0) pair.peer = attributes->dest_qp_num;
  if ((mask & IBV_QP_RNR_RETRY) != 0) pair.rnr_retry = attributes->rnr_retry;
  kick(pair);
  const auto peer = world().queue_pairs.find(pair.peer);
  if (peer != world().queue_pairs.end()) kick(*peer->second);
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  const std::scoped_lock lock(world().lock);
  auto* pair = static_cast<QueuePair*>(qp);
  if (pair->unacknowledged != 0)
    world().problem(
        "a queue pair was given back with events that nobody acknowledged: the call would wait for ever");
  for (const Window* window : world().windows)
    if (window->type == IBV_MW_TYPE_2 && window->region != nullptr && window->of == pair)
      world().problem("a queue pair was given back with windows bound to it: soft-RoCE waits for them");
  end_sends(*pair);
  forget_events(*pair->adapter, qp);
  for (ibv_cq* cq : {qp->send_cq, qp->recv_cq}) {
    if (!pair->adapter->profile.destroy_cleans_cq) continue;
    auto& queue = *static_cast<Queue*>(cq);
    for (auto* entries : {&queue.entries, &queue.late[0], &queue.late[1]})
      std::erase_if(*entries, [pair](const auto& entry) { return entry.second == pair; });
  }
  if (world().last_queue_pair == pair) world().last_queue_pair = nullptr;
  world().queue_pairs.erase(pair->qp_num);
  --static_cast<Domain*>(pair->pd)->users;
  delete pair;
  return 0;
}

}  // extern "C"
