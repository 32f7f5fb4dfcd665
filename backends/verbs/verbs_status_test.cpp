#include "backends/verbs/verbs_status.hpp"

#include <gtest/gtest.h>

#include <cerrno>

namespace rtrs::verbs::verbs_status_test {
namespace {

TEST(VerbsStatus, ConnectReasonFollowsTheEvent) {
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH), Reason::address_unresolved);
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_ADDR_ERROR, -ENOMEM), Reason::no_resources);
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT), Reason::address_unresolved);
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_CONNECT_ERROR, -ENOMEM), Reason::no_resources);
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL), Reason::transport_error);
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT), Reason::connect_timeout);
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_DISCONNECTED, 0), Reason::peer_closed);
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_DEVICE_REMOVAL, 0), Reason::fabric_gone);
}

TEST(VerbsStatus, RejectReasonsAreDistinguished) {
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_REJECTED, 8), Reason::connect_refused) << "no listener";
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_REJECTED, 10), Reason::transport_error) << "stale; a retry may do";
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_REJECTED, 28), Reason::rejected);
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_REJECTED, 3), Reason::rejected);
}

TEST(VerbsStatus, OnlyAFatalErrorMeansThatTheDeviceIsGone) {
  EXPECT_EQ(loss_reason(IBV_WC_FATAL_ERR), Reason::fabric_gone);
  for (const ibv_wc_status status : {IBV_WC_RETRY_EXC_ERR, IBV_WC_WR_FLUSH_ERR, IBV_WC_REM_ACCESS_ERR})
    EXPECT_EQ(loss_reason(status), Reason::transport_error);
}

}  // namespace
}  // namespace rtrs::verbs::verbs_status_test
