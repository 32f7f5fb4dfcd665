// Memory windows, and creation and destruction of queue pairs.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "sim/net/adapters/world.hpp"

namespace rtrs::mock_hca {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  const std::scoped_lock lock(world().lock);
  const Profile& profile = static_cast<Context*>(pd->context)->adapter->profile;
  if (profile.refuses_windows || !(type == IBV_MW_TYPE_1 ? profile.windows_type_1 : profile.windows_type_2b))
    return errno = EOPNOTSUPP, nullptr;
  if (world().allocation_fails(pd->context)) return nullptr;
  auto* window = new Window;
  window->context = pd->context;
  window->pd = pd;
  window->type = type;
  Adapter& adapter = *static_cast<Context*>(pd->context)->adapter;
  if (adapter.free_keys.empty()) {
    window->rkey = adapter.next_key++ << 8;
  } else {
    window->rkey = adapter.free_keys.back();
    adapter.free_keys.pop_back();
  }
  window->key = window->rkey;
  world().windows.insert(window);
  ++static_cast<Domain*>(pd)->users;
  return window;
}

int dealloc_mw(ibv_mw* mw) {
  const std::scoped_lock lock(world().lock);
  auto* window = static_cast<Window*>(mw);
  if (window->region != nullptr) --window->region->windows;
  --static_cast<Domain*>(mw->pd)->users;
  Adapter& adapter = *static_cast<Context*>(mw->context)->adapter;
  if (adapter.profile.reuses_numbers) adapter.free_keys.push_back(mw->rkey);
  world().windows.erase(window);
  // No pending bind may name the window.
  for (auto& [number, pair] : world().queue_pairs)
    for (const Work& work : pair->sends)
      if (work.window == window)
        world().problem("a window was deallocated while a work request refers to it");
  const int answer = world().given_back(mw->context);
  delete window;
  return answer;
}

// For a type 1 window the library chooses the key.
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* request) {
  ibv_send_wr wr{};
  wr.wr_id = request->wr_id;
  wr.send_flags = request->send_flags;
  wr.opcode = IBV_WR_BIND_MW;
  wr.bind_mw.mw = mw;
  wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
  wr.bind_mw.bind_info = request->bind_info;
  const std::scoped_lock lock(world().lock);
  if (mw->type != IBV_MW_TYPE_1) {
    world().problem("ibv_bind_mw() was called for a window that is not of type 1");
    return EINVAL;
  }
  ibv_send_wr* refused = nullptr;
  const int error = post_work(*static_cast<QueuePair*>(qp), &wr, &refused);
  if (error == 0) mw->rkey = wr.bind_mw.rkey;
  return error;
}

ibv_qp_cap last_granted() {
  const std::scoped_lock lock(world().lock);
  return world().last_queue_pair == nullptr ? ibv_qp_cap{} : world().last_queue_pair->cap;
}

namespace {

// Returns false if the send queue would be too large. Otherwise grants all inline data that a work request
// has room for.
bool fit_send_queue(const Profile& profile, ibv_qp_cap& cap) {
  if (profile.send_queue_bytes == 0) return true;
  const auto up = [](std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; };
  constexpr std::uint64_t kInlineHeader = 4, kPart = 16;
  const std::uint64_t inline_bytes =
      cap.max_inline_data == 0 ? 0 : up(kInlineHeader + cap.max_inline_data, kPart);
  const std::uint64_t each =
      up(profile.work_bytes + std::max(inline_bytes, kPart * cap.max_send_sge), profile.work_unit);
  if (std::bit_ceil(each * cap.max_send_wr) > profile.send_queue_bytes) return false;
  cap.max_inline_data = static_cast<std::uint32_t>(each - profile.work_bytes - kInlineHeader);
  return true;
}

}  // namespace

void tick() {
  const std::scoped_lock lock(world().lock);
  kick_all();
}

namespace {

constexpr std::uint32_t kFirstNumber = 17;

void clean_queues(const QueuePair& pair) {
  for (ibv_cq* cq : {pair.send_cq, pair.recv_cq}) {
    auto& queue = *static_cast<Queue*>(cq);
    for (auto* entries : {&queue.entries, &queue.late[0], &queue.late[1]})
      std::erase_if(*entries, [&pair](const auto& entry) { return entry.of == &pair; });
  }
}

// Resets the queue pair: drops its work requests and ignores their completions. A library that cleans a
// completion queue when a queue pair is destroyed also cleans it when a queue pair is reset.
void clear(QueuePair& pair) {
  end_sends(pair);
  pair.state = IBV_QPS_RESET;
  pair.sends.clear();
  pair.unheard.clear();
  pair.receives.clear();
  pair.released = pair.posted;
  pair.held_receives = 0;
  pair.peer = 0;
  pair.waits_since = 0;
  if (pair.adapter->profile.destroy_cleans_cq) clean_queues(pair);
}

}  // namespace

QueuePair* make_queue_pair(ibv_pd* pd, ibv_qp_init_attr& wanted) {
  Adapter& adapter = *static_cast<Context*>(pd->context)->adapter;
  const Profile& profile = adapter.profile;
  const ibv_qp_cap& cap = wanted.cap;
  if (is_over(pd->context)) return errno = EIO, nullptr;
  if (cap.max_send_wr > profile.max_qp_wr || cap.max_recv_wr > profile.max_qp_wr ||
      cap.max_inline_data > profile.max_inline || static_cast<int>(cap.max_send_sge) > profile.max_sge ||
      static_cast<int>(cap.max_recv_sge) > profile.max_sge)
    return errno = EINVAL, nullptr;
  ibv_qp_cap granted = cap;
  if (!fit_send_queue(profile, granted)) return errno = EINVAL, nullptr;
  if (world().allocation_fails()) return nullptr;
  wanted.cap = granted;
  auto* pair = new QueuePair;
  pair->adapter = &adapter;
  pair->context = pd->context;
  pair->qp_context = wanted.qp_context;
  pair->pd = pd;
  pair->send_cq = wanted.send_cq;
  pair->recv_cq = wanted.recv_cq;
  pair->qp_type = wanted.qp_type;
  pair->state = IBV_QPS_RESET;
  if (profile.reuses_numbers) {
    pair->qp_num = kFirstNumber;
    while (world().queue_pairs.count(pair->qp_num) != 0) ++pair->qp_num;
  } else {
    pair->qp_num = world().next_queue_pair++;
  }
  pair->cap = cap;
  world().queue_pairs[pair->qp_num] = pair;
  world().last_queue_pair = pair;
  ++static_cast<Domain*>(pd)->users;
  return pair;
}

}  // namespace rtrs::mock_hca

using namespace rtrs::mock_hca;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* wanted) {
  const std::scoped_lock lock(world().lock);
  return make_queue_pair(pd, *wanted);
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  const std::scoped_lock lock(world().lock);
  auto& pair = *static_cast<QueuePair*>(qp);
  check_no_batch(pair, "ibv_modify_qp()");
  if (is_over(qp->context)) return EIO;
  if ((mask & IBV_QP_STATE) == 0) return EINVAL;
  const ibv_qp_state from = pair.state, to = attributes->qp_state;
  if (to == IBV_QPS_ERR) return fail(pair), 0;
  if (to == IBV_QPS_RESET) return clear(pair), 0;
  const bool good = (to == IBV_QPS_INIT && (from == IBV_QPS_RESET || from == IBV_QPS_INIT)) ||
                    (to == IBV_QPS_RTR && from == IBV_QPS_INIT) || (to == IBV_QPS_RTS && from == IBV_QPS_RTR);
  if (!good) return EINVAL;
  pair.state = to;
  if ((mask & IBV_QP_DEST_QPN) != 0) pair.peer = attributes->dest_qp_num;
  if ((mask & IBV_QP_AV) != 0) pair.tos = attributes->ah_attr.grh.traffic_class;
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) pair.access = attributes->qp_access_flags;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) pair.min_rnr_timer = attributes->min_rnr_timer;
  if ((mask & IBV_QP_TIMEOUT) != 0) pair.ack_timeout = attributes->timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) pair.retries = attributes->retry_cnt;
  if ((mask & IBV_QP_RNR_RETRY) != 0) pair.rnr_retry = attributes->rnr_retry;
  kick(pair);
  const auto peer = world().queue_pairs.find(pair.peer);
  if (peer != world().queue_pairs.end()) kick(*peer->second);
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  const std::scoped_lock lock(world().lock);
  auto* pair = static_cast<QueuePair*>(qp);
  check_no_batch(*pair, "ibv_destroy_qp()");
  if (pair->unacknowledged != 0)
    world().problem(
        "a queue pair was given back with events that nobody acknowledged: the call would wait for ever");
  for (const Window* window : world().windows)
    if (window->type == IBV_MW_TYPE_2 && window->region != nullptr && window->of == pair)
      world().problem("a queue pair was given back with windows bound to it: soft-RoCE waits for them");
  end_sends(*pair);
  forget_events(*pair->adapter, qp);
  if (pair->adapter->profile.destroy_cleans_cq) clean_queues(*pair);
  if (world().last_queue_pair == pair) world().last_queue_pair = nullptr;
  for (Identifier* id : world().identifiers)
    if (id->pair == pair) id->pair = nullptr;
  world().queue_pairs.erase(pair->qp_num);
  --static_cast<Domain*>(pair->pd)->users;
  const int answer = world().given_back(qp->context);
  delete pair;
  return answer;
}

}  // extern "C"
