// Posting with ibv_wr_*(), in batches. A call that succeeds here but makes a real library crash, hang or lose
// data is recorded as a problem.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "sim/net/adapters/world.hpp"

namespace rtrs::mock_hca {
namespace {

Batch& of(ibv_qp_ex* calls) {
  return *static_cast<Batch*>(calls);
}

const Profile& profile_of(const Batch& batch) {
  return batch.pair->adapter->profile;
}

void spoil(Batch& batch, int error, const std::string& problem) {
  if (batch.error == 0) batch.error = error;
  world().problem(problem);
}

void check_data(Batch& batch) {
  if (std::exchange(batch.wants_data, false))
    spoil(batch, EINVAL, "a work request got no data: even where it has none, one of ibv_wr_set_*() ends it");
}

// Returns the work request that a call begins; nullptr if no batch is open.
Batch::Built* begin(Batch& batch, std::uint64_t op, ibv_wr_opcode opcode) {
  if (!batch.open) return world().problem("a work request was begun without ibv_wr_start()"), nullptr;
  check_data(batch);
  if ((batch.ops & op) == 0) spoil(batch, EINVAL, "a work request was begun that is not in send_ops_flags");
  Batch::Built& one = batch.built.emplace_back();
  one.request.opcode = opcode;
  one.request.wr_id = batch.wr_id;
  one.request.send_flags = batch.wr_flags;
  batch.wants_data = opcode != IBV_WR_BIND_MW;
  return &one;
}

void write(ibv_qp_ex* calls, std::uint64_t op, ibv_wr_opcode opcode, std::uint32_t key, std::uint64_t address,
           __be32 imm) {
  const std::scoped_lock lock(world().lock);
  Batch::Built* const one = begin(of(calls), op, opcode);
  if (one == nullptr) return;
  one->request.imm_data = imm;
  one->request.wr.rdma = {.remote_addr = address, .rkey = key};
}

void send(ibv_qp_ex* calls, std::uint64_t op, ibv_wr_opcode opcode, __be32 imm) {
  const std::scoped_lock lock(world().lock);
  Batch::Built* const one = begin(of(calls), op, opcode);
  if (one != nullptr) one->request.imm_data = imm;
}

void rdma_write(ibv_qp_ex* calls, std::uint32_t key, std::uint64_t address) {
  write(calls, IBV_QP_EX_WITH_RDMA_WRITE, IBV_WR_RDMA_WRITE, key, address, 0);
}
void rdma_write_imm(ibv_qp_ex* calls, std::uint32_t key, std::uint64_t address, __be32 imm) {
  write(calls, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM, key, address, imm);
}
void send_plain(ibv_qp_ex* calls) {
  send(calls, IBV_QP_EX_WITH_SEND, IBV_WR_SEND, 0);
}
void send_imm(ibv_qp_ex* calls, __be32 imm) {
  send(calls, IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_WR_SEND_WITH_IMM, imm);
}
void send_inv(ibv_qp_ex* calls, std::uint32_t key) {
  const std::scoped_lock lock(world().lock);
  Batch::Built* const one = begin(of(calls), IBV_QP_EX_WITH_SEND_WITH_INV, IBV_WR_SEND_WITH_INV);
  if (one != nullptr) one->request.invalidate_rkey = key;
}

void bind_mw(ibv_qp_ex* calls, ibv_mw* window, std::uint32_t key, const ibv_mw_bind_info* what) {
  const std::scoped_lock lock(world().lock);
  Batch& batch = of(calls);
  Batch::Built* const one = begin(batch, IBV_QP_EX_WITH_BIND_MW, IBV_WR_BIND_MW);
  if (one == nullptr) return;
  if (window->type == IBV_MW_TYPE_1 && !profile_of(batch).calls_of_soft_roce)
    spoil(batch, EINVAL, "ibv_wr_bind_mw() was called for a window of type 1, and makes it one of type 2");
  one->request.bind_mw = {.mw = window, .rkey = key, .bind_info = *what};
  one->old_key = window->rkey;
}

// Returns the work request whose data the current call sets; nullptr if no work request lacks its data.
Batch::Built* end(Batch& batch, bool is_inline) {
  if (!batch.open || !std::exchange(batch.wants_data, false)) {
    spoil(batch, EINVAL, "data was set without a work request, or twice for one");
    return nullptr;
  }
  Batch::Built& one = batch.built.back();
  const bool flagged = (one.request.send_flags & IBV_SEND_INLINE) != 0;
  if (profile_of(batch).calls_of_soft_roce && flagged != is_inline)
    spoil(batch, EINVAL, "soft-RoCE decides only by IBV_SEND_INLINE whether a work request has inline data");
  one.request.send_flags &= ~static_cast<unsigned>(IBV_SEND_INLINE);
  if (is_inline) one.request.send_flags |= IBV_SEND_INLINE;
  return &one;
}

void set_sge_list(ibv_qp_ex* calls, std::size_t count, const ibv_sge* list) {
  const std::scoped_lock lock(world().lock);
  Batch& batch = of(calls);
  Batch::Built* const one = end(batch, false);
  if (one == nullptr) return;
  if (count > 1 && profile_of(batch).calls_of_soft_roce)
    spoil(batch, EINVAL, "soft-RoCE miscounts data that lies in two places");
  if (count > batch.pair->cap.max_send_sge)
    return spoil(batch, EINVAL, "a work request has more parts than its queue pair takes");
  std::copy_if(list, list + count, std::back_inserter(one->parts),
               [](const ibv_sge& part) { return part.length != 0; });
}

void set_sge(ibv_qp_ex* calls, std::uint32_t key, std::uint64_t address, std::uint32_t length) {
  const ibv_sge part{.addr = address, .length = length, .lkey = key};
  set_sge_list(calls, 1, &part);
}

void set_inline_data_list(ibv_qp_ex* calls, std::size_t count, const ibv_data_buf* list) {
  const std::scoped_lock lock(world().lock);
  Batch& batch = of(calls);
  Batch::Built* const one = end(batch, true);
  if (one == nullptr) return;
  if (count > 1 && profile_of(batch).calls_of_soft_roce)
    spoil(batch, EINVAL, "soft-RoCE miscounts data that lies in two places");
  for (const ibv_data_buf* part = list; part != list + count; ++part) {
    const auto* from = static_cast<const std::byte*>(part->addr);
    one->bytes.insert(one->bytes.end(), from, from + part->length);
  }
  if (one->bytes.size() > batch.pair->cap.max_inline_data)
    spoil(batch, ENOMEM, "a work request has more inline data than its queue pair takes");
}

void set_inline_data(ibv_qp_ex* calls, void* address, std::size_t length) {
  const ibv_data_buf part{.addr = address, .length = length};
  set_inline_data_list(calls, 1, &part);
}

void start(ibv_qp_ex* calls) {
  const std::scoped_lock lock(world().lock);
  Batch& batch = of(calls);
  if (std::exchange(batch.open, true))
    world().problem("ibv_wr_start() was called twice, and the second would wait for ever");
  batch.built.clear();
  batch.wants_data = false;
  batch.error = 0;
}

// Ends the batch and moves its work requests to `built`. Returns false if no batch is open.
bool close(Batch& batch, const char* call, std::deque<Batch::Built>& built) {
  if (!std::exchange(batch.open, false))
    return world().problem(std::string(call) + " was called without ibv_wr_start()"), false;
  built = std::exchange(batch.built, {});
  return true;
}

int complete(ibv_qp_ex* calls) {
  const std::scoped_lock lock(world().lock);
  Batch& batch = of(calls);
  QueuePair& pair = *batch.pair;
  check_data(batch);
  std::deque<Batch::Built> built;
  if (!close(batch, "ibv_wr_complete()", built)) return EINVAL;
  if (batch.error == 0) batch.error = std::exchange(world().batch_refusal, 0);
  if (batch.error == 0 && built.size() > pair.cap.max_send_wr - (pair.posted - pair.released))
    batch.error = ENOMEM;
  if (batch.error != 0 || built.empty()) return batch.error;
  ++pair.adapter->counts.doorbells;
  ++pair.adapter->counts.batches;
  for (Batch::Built& one : built) {
    ibv_sge inside{.addr = reinterpret_cast<std::uintptr_t>(one.bytes.data()),
                   .length = static_cast<std::uint32_t>(one.bytes.size()),
                   .lkey = 0};
    const bool is_inline = (one.request.send_flags & IBV_SEND_INLINE) != 0;
    one.request.sg_list = is_inline ? &inside : one.parts.data();
    one.request.num_sge = is_inline ? 1 : static_cast<int>(one.parts.size());
    if (const int error = post_one(pair, one.request, one.old_key); error != 0) return error;
  }
  kick(pair);
  return 0;
}

void abort(ibv_qp_ex* calls) {
  const std::scoped_lock lock(world().lock);
  std::deque<Batch::Built> built;
  close(of(calls), "ibv_wr_abort()", built);
}

std::unique_ptr<Batch> make_batch(QueuePair& pair, std::uint64_t ops) {
  auto batch = std::make_unique<Batch>();
  batch->pair = &pair;
  batch->ops = ops;
  const std::uint64_t has = pair.adapter->profile.calls;
  if ((has & IBV_QP_EX_WITH_RDMA_WRITE) != 0) batch->wr_rdma_write = rdma_write;
  if ((has & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM) != 0) batch->wr_rdma_write_imm = rdma_write_imm;
  if ((has & IBV_QP_EX_WITH_SEND) != 0) batch->wr_send = send_plain;
  if ((has & IBV_QP_EX_WITH_SEND_WITH_IMM) != 0) batch->wr_send_imm = send_imm;
  if ((has & IBV_QP_EX_WITH_SEND_WITH_INV) != 0) batch->wr_send_inv = send_inv;
  if ((has & IBV_QP_EX_WITH_BIND_MW) != 0) batch->wr_bind_mw = bind_mw;
  batch->wr_set_sge = set_sge;
  batch->wr_set_sge_list = set_sge_list;
  batch->wr_set_inline_data = set_inline_data;
  batch->wr_set_inline_data_list = set_inline_data_list;
  batch->wr_start = start;
  batch->wr_complete = complete;
  batch->wr_abort = abort;
  return batch;
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* wanted) {
  const std::scoped_lock lock(world().lock);
  constexpr std::uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if ((wanted->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || wanted->pd->context != context)
    return world().problem("a queue pair was asked for without a domain of its device"), nullptr;
  const bool calls = (wanted->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  const std::uint64_t ops = calls ? wanted->send_ops_flags : 0;
  const Profile& profile = static_cast<Context*>(context)->adapter->profile;
  if ((wanted->comp_mask & ~kKnown) != 0 || (!profile.grants_any_call && (ops & ~profile.calls) != 0))
    return errno = EOPNOTSUPP, nullptr;
  ibv_qp_init_attr plain{};
  plain.qp_context = wanted->qp_context;
  plain.send_cq = wanted->send_cq;
  plain.recv_cq = wanted->recv_cq;
  plain.cap = wanted->cap;
  plain.qp_type = wanted->qp_type;
  QueuePair* const pair = make_queue_pair(wanted->pd, plain);
  if (pair == nullptr) return nullptr;
  wanted->cap = plain.cap;
  if (calls) pair->batch = make_batch(*pair, ops);
  return pair;
}

}  // namespace

void offer_calls(Context& context) {
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  verbs_context* const extension = verbs_get_ctx(&context);
  extension->sz = sizeof(verbs_context);
  extension->create_qp_ex = create_qp_ex;
}

void check_no_batch(const QueuePair& pair, const char* call) {
  if (pair.batch != nullptr && pair.batch->open)
    world().problem(std::string(call) + " was called between ibv_wr_start() and ibv_wr_complete()");
}

std::size_t queue_pairs_with_calls() {
  const std::scoped_lock lock(world().lock);
  const auto& pairs = world().queue_pairs;
  return static_cast<std::size_t>(std::count_if(
      pairs.begin(), pairs.end(), [](const auto& one) { return one.second->batch != nullptr; }));
}

void forget_calls(std::size_t adapter) {
  const std::scoped_lock lock(world().lock);
  world().adapters.at(adapter)->profile.calls = 0;
}

void refuse_next_batch(int error) {
  const std::scoped_lock lock(world().lock);
  world().batch_refusal = error;
}

}  // namespace rtrs::mock_hca

extern "C" ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  return static_cast<rtrs::mock_hca::QueuePair*>(qp)->batch.get();
}
