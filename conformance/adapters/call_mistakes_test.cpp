// Checks that the in-memory adapters detect incorrect use of ibv_wr_*().
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <vector>

#include "sim/net/adapters/mock_hca.hpp"

namespace rtrs::conformance::call_mistakes_test {
namespace {

constexpr std::uint64_t kOps = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_BIND_MW;

class CallMistakes : public ::testing::Test {
 protected:
  void SetUp() override { open(mock_hca::mlx5()); }
  void TearDown() override {
    close();
    EXPECT_EQ(mock_hca::objects(), 0U);
    EXPECT_EQ(mock_hca::problems(), std::vector<std::string>{});
  }
  void open(const mock_hca::Profile& adapter) {
    mock_hca::reset({adapter});
    ibv_device** list = ibv_get_device_list(nullptr);
    context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    domain = ibv_alloc_pd(context);
    queue = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    ibv_qp_init_attr_ex wanted{};
    wanted.send_cq = wanted.recv_cq = queue;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap = {
        .max_send_wr = 2, .max_recv_wr = 1, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 32};
    wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    wanted.pd = domain;
    wanted.send_ops_flags = kOps;
    pair = ibv_create_qp_ex(context, &wanted);
    ASSERT_NE(pair, nullptr);
    calls = ibv_qp_to_qp_ex(pair);
    ASSERT_NE(calls, nullptr);
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
      ibv_qp_attr attributes{};
      attributes.qp_state = state;
      EXPECT_EQ(ibv_modify_qp(pair, &attributes, IBV_QP_STATE), 0);
    }
  }
  void close() {
    ibv_destroy_qp(pair);
    ibv_destroy_cq(queue);
    ibv_dealloc_pd(domain);
    ibv_close_device(context);
  }
  void send_empty() {
    ibv_wr_send(calls);
    ibv_wr_set_sge(calls, 0, 0, 0);
  }
  static bool found(const std::string& part) {
    const std::vector<std::string> problems = mock_hca::problems();
    return problems.size() == 1 && problems[0].find(part) != std::string::npos;
  }
  static std::uint64_t posted() { return mock_hca::counts(0).work_requests; }
  ibv_context* context = nullptr;
  ibv_pd* domain = nullptr;
  ibv_cq* queue = nullptr;
  ibv_qp* pair = nullptr;
  ibv_qp_ex* calls = nullptr;
};

TEST_F(CallMistakes, CallOutsideABatchIsReported) {
  ibv_wr_send(calls);
  EXPECT_TRUE(found("begun without ibv_wr_start()"));
  ibv_wr_set_sge(calls, 0, 0, 0);
  EXPECT_TRUE(found("data was set without a work request"));
  EXPECT_EQ(ibv_wr_complete(calls), EINVAL);
  EXPECT_TRUE(found("ibv_wr_complete() was called without ibv_wr_start()"));
  ibv_wr_abort(calls);
  EXPECT_TRUE(found("ibv_wr_abort() was called without ibv_wr_start()"));
}

TEST_F(CallMistakes, BatchInsideABatchIsReported) {
  ibv_wr_start(calls);
  ibv_wr_start(calls);
  EXPECT_TRUE(found("would wait for ever"));
  ibv_wr_abort(calls);
}

TEST_F(CallMistakes, OtherCallInsideABatchIsReported) {
  ibv_wr_start(calls);
  ibv_send_wr request{}, *refused = nullptr;
  request.opcode = IBV_WR_SEND;
  EXPECT_EQ(ibv_post_send(pair, &request, &refused), 0);
  EXPECT_TRUE(found("ibv_post_send() was called between"));
  ibv_wc completion{};
  ibv_poll_cq(queue, 1, &completion);
  EXPECT_TRUE(found("ibv_poll_cq() was called between"));
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  EXPECT_EQ(ibv_modify_qp(pair, &attributes, IBV_QP_STATE), 0);
  EXPECT_TRUE(found("ibv_modify_qp() was called between"));
  ibv_wr_abort(calls);
}

TEST_F(CallMistakes, OperationThatTheQueuePairLacksIsReported) {
  ibv_wr_start(calls);
  ibv_wr_send_imm(calls, 1);
  ibv_wr_set_sge(calls, 0, 0, 0);
  EXPECT_EQ(ibv_wr_complete(calls), EINVAL);
  EXPECT_TRUE(found("not in send_ops_flags"));
}

TEST_F(CallMistakes, DataSetTwiceOrNotAtAllIsReported) {
  ibv_wr_start(calls);
  send_empty();
  ibv_wr_set_sge(calls, 0, 0, 0);
  EXPECT_EQ(ibv_wr_complete(calls), EINVAL);
  EXPECT_TRUE(found("or twice for one"));
  ibv_wr_start(calls);
  ibv_wr_send(calls);
  send_empty();
  EXPECT_EQ(ibv_wr_complete(calls), EINVAL);
  EXPECT_TRUE(found("got no data"));
  ibv_wr_start(calls);
  ibv_wr_send(calls);
  EXPECT_EQ(ibv_wr_complete(calls), EINVAL);
  EXPECT_TRUE(found("got no data"));
  EXPECT_EQ(posted(), 0U);
}

TEST_F(CallMistakes, TooMuchInlineDataIsReported) {
  ibv_wr_start(calls);
  ibv_wr_send(calls);
  std::vector<std::byte> bytes(mock_hca::last_granted().max_inline_data + 1);
  ibv_wr_set_inline_data(calls, bytes.data(), bytes.size());
  EXPECT_EQ(ibv_wr_complete(calls), ENOMEM);
  EXPECT_TRUE(found("more inline data"));
}

TEST_F(CallMistakes, TooManyPartsAreReported) {
  const std::array<ibv_sge, 3> parts{};
  ibv_wr_start(calls);
  ibv_wr_send(calls);
  ibv_wr_set_sge_list(calls, parts.size(), parts.data());
  EXPECT_EQ(ibv_wr_complete(calls), EINVAL);
  EXPECT_TRUE(found("more parts"));
}

TEST_F(CallMistakes, Type1WindowThatTheLibraryTreatsAsType2IsReported) {
  ibv_mw* const window = ibv_alloc_mw(domain, IBV_MW_TYPE_1);
  const ibv_mw_bind_info nothing{};
  ibv_wr_start(calls);
  ibv_wr_bind_mw(calls, window, ibv_inc_rkey(window->rkey), &nothing);
  EXPECT_EQ(ibv_wr_complete(calls), EINVAL);
  EXPECT_TRUE(found("makes it one of type 2"));
  ibv_dealloc_mw(window);
}

TEST_F(CallMistakes, CallsThatTheSoftRoceLibraryMishandlesAreReported) {
  close();
  open(mock_hca::rxe());
  std::byte byte{};
  for (const bool flagged : {false, true}) {
    ibv_wr_start(calls);
    calls->wr_flags = flagged ? IBV_SEND_INLINE : 0;
    ibv_wr_send(calls);
    if (flagged)
      ibv_wr_set_sge(calls, 0, 0, 0);
    else
      ibv_wr_set_inline_data(calls, &byte, 1);
    EXPECT_EQ(ibv_wr_complete(calls), EINVAL);
    EXPECT_TRUE(found("decides only by IBV_SEND_INLINE"));
  }
  const std::array<ibv_sge, 2> parts{};
  ibv_wr_start(calls);
  calls->wr_flags = 0;
  ibv_wr_send(calls);
  ibv_wr_set_sge_list(calls, parts.size(), parts.data());
  EXPECT_EQ(ibv_wr_complete(calls), EINVAL);
  EXPECT_TRUE(found("miscounts"));
}

// Two cases that are not mistakes: an aborted batch, and a batch that does not fit in the send queue.
TEST_F(CallMistakes, AbortedOrTooLargeBatchPostsNothing) {
  ibv_wr_start(calls);
  send_empty();
  ibv_wr_abort(calls);
  ibv_wr_start(calls);
  for (unsigned i = 0; i < 3; ++i) send_empty();
  EXPECT_EQ(ibv_wr_complete(calls), ENOMEM);
  EXPECT_EQ(posted(), 0U);
  ibv_wr_start(calls);
  for (unsigned i = 0; i < 2; ++i) send_empty();
  EXPECT_EQ(ibv_wr_complete(calls), 0);
  EXPECT_EQ(posted(), 2U);
}

}  // namespace
}  // namespace rtrs::conformance::call_mistakes_test
