// Tests devices that violate a guarantee of the verbs API: the probe must report the affected test as
// `failed`.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>

#include "sim/net/adapters/test_no_problems.hpp"
#include "tools/lib/control/rdma_probe/test_lines.hpp"

namespace rtrs::probe::broken_device_test {
namespace {

using mock_hca::Profile;

const auto* const environment = ::testing::AddGlobalTestEnvironment(new mock_hca::NoProblems);

// Replacements for operations of a device; nullptr: the original, correct operation.
struct Broken {
  int (*post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**) = nullptr;
  int (*poll_cq)(ibv_cq*, int, ibv_wc*) = nullptr;
  int (*bind_mw)(ibv_qp*, ibv_mw*, ibv_mw_bind*) = nullptr;
};
ibv_context_ops good_ops;
unsigned turn;

class BrokenDevice : public ::testing::Test {
 protected:
  Lines probed(const Broken& broken, Profile profile = mock_hca::mlx5()) {
    profile.gives_up_after = 0;
    mock_hca::reset({profile});
    std::string why;
    turn = 0;
    const auto device = open_device(system, profile.name, why);
    EXPECT_NE(device, nullptr) << why;
    good_ops = device->context->ops;
    if (broken.post_send != nullptr) device->context->ops.post_send = broken.post_send;
    if (broken.poll_cq != nullptr) device->context->ops.poll_cq = broken.poll_cq;
    if (broken.bind_mw != nullptr) device->context->ops.bind_mw = broken.bind_mw;
    Pace pace = short_pace();
    pace.patience = std::chrono::milliseconds(20);
    Lines lines;
    for (Lines more : {test_messages(*device, pace), test_windows(*device, pace), test_memory(*device, pace),
                       test_order(*device, pace, {.count = 20, .all = true}), test_flush(*device, pace)})
      lines.insert(lines.end(), more.begin(), more.end());
    return lines;
  }
  void TearDown() override {
    EXPECT_EQ(mock_hca::objects(), 0U);
    EXPECT_EQ(mock_hca::problems(), std::vector<std::string>());
  }
  PlayedSystem system;
};

TEST_F(BrokenDevice, WriteThatTransfersNothingFails) {
  const Lines lines = probed({.post_send = [](ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** refused) {
    if (request->opcode == IBV_WR_RDMA_WRITE) request->num_sge = 0;
    return good_ops.post_send(pair, request, refused);
  }});
  expect(lines, "write", Grade::failed, "its data did not arrive");
  expect(lines, "inline write", Grade::failed);
  expect(lines, "window of type 1", Grade::failed, "its data did not arrive");
  expect(lines, "data before immediates", Grade::failed, "in round 0 the immediate arrived before the data");
  expect(lines, "write with immediate", Grade::ok);
}

TEST_F(BrokenDevice, LostImmediateFails) {
  const Lines lines = probed({.poll_cq = [](ibv_cq* queue, int count, ibv_wc* out) {
    const int found = good_ops.poll_cq(queue, count, out);
    if (found == 1) out->wc_flags &= ~unsigned{IBV_WC_WITH_IMM};
    return found;
  }});
  for (const char* check : {"empty write with immediate", "write with immediate", "message with immediate"})
    expect(lines, check, Grade::failed, "not told of the immediate");
  expect(lines, "write", Grade::ok);
}

TEST_F(BrokenDevice, WrongImmediateFails) {
  const Lines lines = probed({.poll_cq = [](ibv_cq* queue, int count, ibv_wc* out) {
    const int found = good_ops.poll_cq(queue, count, out);
    if (found == 1) out->imm_data ^= 1U;
    return found;
  }});
  expect(lines, "empty write with immediate", Grade::failed, "the immediate is");
  expect(lines, "data before immediates", Grade::failed, "has the immediate of round");
}

TEST_F(BrokenDevice, MissingCompletionFails) {
  const Lines lines = probed({.poll_cq = [](ibv_cq*, int, ibv_wc*) { return 0; }});
  for (const Line& one : lines)
    EXPECT_EQ(one.grade, one.check == "memory of a session" ? Grade::ok : Grade::failed) << one.check;
  expect(lines, "write", Grade::failed, "no completion within 20 ms");
  expect(lines, "flush", Grade::failed, "0 of 8 receives are given back");
}

TEST_F(BrokenDevice, UnreadableCompletionQueueFails) {
  const Lines lines = probed({.poll_cq = [](ibv_cq*, int, ibv_wc*) { return -1; }});
  expect(lines, "write", Grade::failed, "the completion queue cannot be read");
}

TEST_F(BrokenDevice, RefusedPostFails) {
  const Lines lines = probed({.post_send = [](ibv_qp*, ibv_send_wr* request, ibv_send_wr** refused) {
    *refused = request;
    return ENOMEM;
  }});
  expect(lines, "write", Grade::failed, "posting a write: Cannot allocate memory");
  expect(lines, "window of type 2", Grade::failed, "posting a binding");
  expect(lines, "flush", Grade::ok);
}

TEST_F(BrokenDevice, SendWithoutInvalidationFails) {
  const Lines lines = probed({.post_send = [](ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** refused) {
    if (request->opcode == IBV_WR_SEND_WITH_INV) request->opcode = IBV_WR_SEND;
    return good_ops.post_send(pair, request, refused);
  }});
  expect(lines, "message with invalidation", Grade::failed, "not told of an invalidation");
  expect(lines, "window of type 2", Grade::ok);
}

// The device reports the invalidation, but the key stays valid.
TEST_F(BrokenDevice, ReportedInvalidationWithoutEffectFails) {
  static std::uint32_t key;
  const Lines lines = probed({.post_send =
                                  [](ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** refused) {
                                    if (request->opcode == IBV_WR_SEND_WITH_INV) {
                                      key = request->invalidate_rkey;
                                      request->opcode = IBV_WR_SEND;
                                    }
                                    return good_ops.post_send(pair, request, refused);
                                  },
                              .poll_cq =
                                  [](ibv_cq* queue, int count, ibv_wc* out) {
                                    const int found = good_ops.poll_cq(queue, count, out);
                                    if (found == 1 && out->opcode == IBV_WC_RECV && out->byte_len == 0) {
                                      out->wc_flags = IBV_WC_WITH_INV;
                                      out->invalidated_rkey = key;
                                    }
                                    return found;
                                  }});
  expect(lines, "message with invalidation", Grade::failed, "an invalidated key is taken");
}

TEST_F(BrokenDevice, UnbindWithoutEffectFails) {
  const Lines lines = probed({.bind_mw = [](ibv_qp* pair, ibv_mw* window, ibv_mw_bind* request) {
    // Completes an unbind request successfully, but without unbinding the window.
    if (request->bind_info.length != 0) return good_ops.bind_mw(pair, window, request);
    ibv_send_wr nothing{}, *refused = nullptr;
    nothing.opcode = IBV_WR_RDMA_WRITE;
    nothing.send_flags = request->send_flags;
    return good_ops.post_send(pair, &nothing, &refused);
  }});
  expect(lines, "window of type 1", Grade::failed, "the key of an unbound window is taken");
  expect(lines, "window of type 2", Grade::ok);
}

// The device writes the data and completes successfully, even if the key is wrong.
TEST_F(BrokenDevice, UncheckedKeysFail) {
  const Lines lines = probed({.post_send = [](ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** refused) {
    if (request->opcode == IBV_WR_RDMA_WRITE) {
      const ibv_sge& from = request->sg_list[0];
      std::memcpy(reinterpret_cast<void*>(request->wr.rdma.remote_addr), reinterpret_cast<void*>(from.addr),
                  from.length);
      request->num_sge = 0;
    }
    return good_ops.post_send(pair, request, refused);
  }});
  expect(lines, "registration", Grade::failed, "the key of a registration that is undone is taken");
  expect(lines, "window of type 1", Grade::failed, "the key of an unbound window is taken");
  expect(lines, "window of type 2", Grade::failed, "a key of another queue pair is taken");
  expect(lines, "message with invalidation", Grade::failed, "an invalidated key is taken");
  expect(lines, "write", Grade::ok);
}

// The device writes the data before it fails the work request.
TEST_F(BrokenDevice, KeysCheckedAfterTheWriteFail) {
  const Lines lines = probed({.post_send = [](ibv_qp* pair, ibv_send_wr* request, ibv_send_wr** refused) {
    if (request->opcode == IBV_WR_RDMA_WRITE) {
      const ibv_sge& from = request->sg_list[0];
      std::memcpy(reinterpret_cast<void*>(request->wr.rdma.remote_addr), reinterpret_cast<void*>(from.addr),
                  from.length);
    }
    return good_ops.post_send(pair, request, refused);
  }});
  expect(lines, "registration", Grade::failed, "changes memory");
  expect(lines, "window of type 1", Grade::failed, "fails, and changes memory");
  expect(lines, "window of type 2", Grade::failed, "fails, and changes memory");
  expect(lines, "message with invalidation", Grade::failed, "fails, and changes memory");
}

TEST_F(BrokenDevice, RefusedWindowBindFails) {
  const Lines lines = probed({.bind_mw = [](ibv_qp*, ibv_mw*, ibv_mw_bind*) { return EINVAL; }});
  expect(lines, "window of type 1", Grade::failed, "posting a binding: Invalid argument");
  EXPECT_FALSE(windows_work(lines));
}

TEST_F(BrokenDevice, ReceivesThatAreNotFlushedFail) {
  const Lines lines = probed({.poll_cq = [](ibv_cq* queue, int count, ibv_wc* out) {
    const int found = good_ops.poll_cq(queue, count, out);
    return found == 1 && out->status == IBV_WC_WR_FLUSH_ERR && ++turn > 3 ? 0 : found;
  }});
  expect(lines, "flush", Grade::failed, "of 8 receives are given back");
  expect(lines, "write", Grade::ok);
}

TEST_F(BrokenDevice, ReceivesFlushedWithSuccessFail) {
  const Lines lines = probed({.poll_cq = [](ibv_cq* queue, int count, ibv_wc* out) {
    const int found = good_ops.poll_cq(queue, count, out);
    if (found == 1 && out->status == IBV_WC_WR_FLUSH_ERR) out->status = IBV_WC_SUCCESS;
    return found;
  }});
  expect(lines, "flush", Grade::failed, "given back as \"success\"");
}

}  // namespace
}  // namespace rtrs::probe::broken_device_test
