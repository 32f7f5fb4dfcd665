// Tests the log messages on a host without RDMA, and how status codes of librdmacm map to reasons and texts.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <string>

#include "backends/verbs/verbs.hpp"
#include "backends/verbs/verbs_status.hpp"

namespace rtrs::verbs::verbs_open_test {
namespace {

TEST(VerbsOpen, an_error_names_what_is_missing_and_the_fix) {
  int count = 0;
  if (ibv_device** devices = ibv_get_device_list(&count)) ibv_free_device_list(devices);
  if (count != 0) GTEST_SKIP() << "this machine has an RDMA device";
  std::string said;
  VerbsOptions options;
  options.log = [&](LogLevel level, const std::string& text) {
    if (level == LogLevel::error) said += text;
  };
  const auto fabric = open_verbs_fabric(options);
  ASSERT_FALSE(fabric.has_value());
  EXPECT_EQ(fabric.error(), Errc::not_supported);
  EXPECT_NE(said.find("no RDMA device"), std::string::npos) << said;
  EXPECT_NE(said.find("rdma link add rxe0 type rxe"), std::string::npos) << said;
}

TEST(VerbsOpen, out_of_range_options_are_rejected) {
  VerbsOptions options;
  options.retry_count = 8;
  EXPECT_EQ(open_verbs_fabric(options).error(), Errc::invalid);
  options.retry_count = 6;
  options.min_rnr_timer = 32;
  EXPECT_EQ(open_verbs_fabric(options).error(), Errc::invalid);
}

TEST(VerbsStatus, a_rejection_differs_from_a_missing_listener) {
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_REJECTED, 8), Reason::connect_refused);
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_REJECTED, 28), Reason::rejected);
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_REJECTED, 10), Reason::transport_error);
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT), Reason::connect_timeout);
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_ADDR_ERROR, -ENODEV), Reason::address_unresolved);
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_ROUTE_ERROR, -ENOMEM), Reason::no_resources);
  EXPECT_EQ(connect_reason(RDMA_CM_EVENT_DEVICE_REMOVAL, 0), Reason::fabric_gone);
}

TEST(VerbsStatus, texts_explain_the_error) {
  EXPECT_EQ(connect_text(RDMA_CM_EVENT_REJECTED, 8), "no server listens on that address (reason 8)");
  EXPECT_NE(connect_text(RDMA_CM_EVENT_ADDR_ERROR, -ENODEV).find("rdma link"), std::string::npos);
  EXPECT_NE(connect_text(RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL).find("(22)"), std::string::npos);
}

TEST(VerbsStatus, memlock_advice_names_the_limit_and_the_fix) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before), 0);
  rlimit small = before;
  small.rlim_cur = 64 << 10;
  if (before.rlim_max < small.rlim_cur) GTEST_SKIP() << "the limit is lower than the test's";
  ASSERT_EQ(::setrlimit(RLIMIT_MEMLOCK, &small), 0);
  const std::string advice = memlock_advice(1 << 20);
  ::setrlimit(RLIMIT_MEMLOCK, &before);
  EXPECT_NE(advice.find("1024 KiB"), std::string::npos) << advice;
  EXPECT_NE(advice.find("64 KiB"), std::string::npos) << advice;
  EXPECT_NE(advice.find("ulimit -l unlimited"), std::string::npos) << advice;
}

}  // namespace
}  // namespace rtrs::verbs::verbs_open_test
