// Posting with ibv_wr_*(), which is used only if the adapter's library supports it for all operations. Also
// tests which work still goes through ibv_post_send(), and the state after a failed batch.
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "conformance/adapters/test_two_ends.hpp"

namespace rtrs::conformance::calls_test {
namespace {

using Kind = SeenEvent::Kind;
using verbs::Posting;

constexpr const char* kWarning = "its library lacks some of ibv_wr_*()";

class Calls : public TwoEnds {
 protected:
  void connected(const mock_hca::Profile& adapter, Posting posting = Posting::calls) {
    verbs::VerbsOptions options;
    options.posting = posting;
    open({adapter}, options);
    listen(kAddress);
    connect_both_ends(kAddress);
    poll_both();
    memory = *server.fabric->allocate(8192);
    source = *client.fabric->allocate(8192);
    key = *server.fabric->make_key(memory.id, 0, 8192);
    for (std::size_t i = 0; i < source.bytes.size(); ++i) source.bytes[i] = static_cast<std::byte>(i * 7);
  }
  WorkRequest write(std::uint64_t offset, const std::vector<std::uint32_t>& lengths,
                    std::uint32_t imm) const {
    WorkRequest work;
    work.key = kNear;
    work.op = WorkRequest::Op::write_imm;
    work.imm = imm;
    work.rkey = key.rkey;
    work.remote_addr = key.remote_addr + offset;
    for (std::uint32_t i = 0; i < lengths.size(); ++i) work.parts[i] = {source.id, i * 4096, lengths[i]};
    work.part_count = static_cast<std::uint8_t>(lengths.size());
    return work;
  }
  static WorkRequest message(std::string_view text) {
    WorkRequest work;
    work.key = kNear;
    work.op = WorkRequest::Op::send;
    work.inline_bytes = std::as_bytes(std::span(text));
    return work;
  }
  void post(std::span<const WorkRequest> work) { ASSERT_EQ(client.fabric->post(work), work.size()); }
  // Counts doorbells and ibv_wr_*() batches since construction.
  struct Since {
    std::uint64_t doorbells = mock_hca::counts(0).doorbells, batches = mock_hca::counts(0).batches;
    std::uint64_t all() const { return mock_hca::counts(0).doorbells - doorbells; }
    std::uint64_t by_calls() const { return mock_hca::counts(0).batches - batches; }
  };
  void invalidate_server_key(const RemoteKey& one, ConKey on) {
    server.fabric->invalidate(on, one.id, 1);
    EXPECT_EQ(take(server, Kind::chunk_invalidated, on).cookie, 1U);
  }
  // Makes three keys at the client, which the server invalidates remotely; each key has a different rkey.
  void use_type_2_windows() {
    std::uint32_t last = 0;
    for (unsigned i = 0; i < 3; ++i) {
      const Since since;
      const auto own = client.fabric->make_request_key(kNear, source.id, 0, 4096);
      ASSERT_TRUE(own);
      EXPECT_NE(own->rkey, std::exchange(last, own->rkey));
      EXPECT_TRUE(carries());
      EXPECT_EQ(since.by_calls(), 1U);
      WorkRequest invalidation;
      invalidation.key = kFar;
      invalidation.op = WorkRequest::Op::send_inv;
      invalidation.rkey = own->rkey;
      ASSERT_EQ(server.fabric->post(std::span(&invalidation, 1)), 1U);
      take(client, Kind::key_invalidated, kNear);
      EXPECT_EQ(since.by_calls(), 2U);
      EXPECT_EQ(since.all(), 2U);
      client.fabric->release_key(own->id);
    }
  }
  Region memory, source;
  RemoteKey key;
};

// The batch has work requests without data, with one part, with two parts and inline, with and without an
// immediate. All must arrive in order.
TEST_F(Calls, PostAllKindsOfWorkInOneBatch) {
  connected(mock_hca::mlx5());
  EXPECT_EQ(mock_hca::queue_pairs_with_calls(), 2U);
  EXPECT_TRUE(client.logged("posted by ibv_wr_*()") && server.logged("posted by ibv_wr_*()"));
  EXPECT_EQ(client.fabric->device_of(kNear).posting, "wr");
  EXPECT_EQ(client.fabric->device_of(kNear).name, "mlx5_0");
  const std::string_view text = "a message that goes inline";
  WorkRequest plain = write(4096, {4096}, 0);
  plain.op = WorkRequest::Op::write;
  WorkRequest with_imm = message(text);
  with_imm.op = WorkRequest::Op::send_imm;
  with_imm.imm = 7;
  const std::array work{plain,    write(0, {2000, 100}, 1), write(3000, {20, 30}, 2), message(text),
                        with_imm, write(0, {}, 3)};
  const Since since;
  post(work);
  std::array<SeenEvent, 3> seen{take(server, Kind::imm_received, kFar),
                                take(server, Kind::imm_received, kFar),
                                take(server, Kind::imm_received, kFar)};
  for (unsigned i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i].imm, i + 1);
  EXPECT_EQ(take(server, Kind::message_received, kFar).text, text);
  EXPECT_EQ(take(server, Kind::message_received, kFar).imm, 7U);
  EXPECT_EQ(since.all(), 1U);
  EXPECT_EQ(since.by_calls(), 1U);
  const auto same = [this](std::size_t to, std::size_t from, std::size_t bytes) {
    return std::memcmp(&memory.bytes[to], &source.bytes[from], bytes) == 0;
  };
  EXPECT_TRUE(same(0, 0, 2000) && same(2000, 4096, 100) && same(3000, 0, 20) && same(3020, 4096, 30));
  EXPECT_TRUE(same(4096, 0, 4096));
}

// Only work with the signalled flag produces a completion event.
TEST_F(Calls, OnlySignalledWorkCompletes) {
  connected(mock_hca::mlx5());
  std::array work{write(0, {64}, 1), write(64, {64}, 2), write(128, {64}, 3)};
  work[1].signalled = true;
  work[1].cookie = 5;
  post(work);
  EXPECT_EQ(take(client, Kind::send_done, kNear).cookie, 5U);
  poll_both();
  EXPECT_EQ(client.count(Kind::send_done, kNear), 0U);
}

TEST_F(Calls, AreNotUsedByDefault) {
  connected(mock_hca::mlx5(), Posting::send);
  EXPECT_EQ(mock_hca::queue_pairs_with_calls(), 0U);
  EXPECT_TRUE(client.logged("posted by ibv_post_send()"));
  EXPECT_EQ(client.fabric->device_of(kNear).posting, "send");
  EXPECT_TRUE(carries());
  EXPECT_EQ(mock_hca::counts(0).batches, 0U);
}

mock_hca::Profile without(std::uint64_t op, bool granted) {
  mock_hca::Profile one = mock_hca::mlx5();
  one.calls &= ~op;
  one.grants_any_call = granted;
  return one;
}

// Adapters that do not support ibv_wr_*(), lack a needed operation, or grant an operation that they lack. All
// work must be posted with ibv_post_send().
TEST_F(Calls, AreNotUsedIfTheLibraryLacksAnOperation) {
  for (const mock_hca::Profile& adapter :
       {mock_hca::irdma(), mock_hca::bnxt_re(), mock_hca::hfi1(), without(IBV_QP_EX_WITH_BIND_MW, false),
        without(IBV_QP_EX_WITH_BIND_MW, true), without(IBV_QP_EX_WITH_SEND_WITH_INV, true),
        without(IBV_QP_EX_WITH_RDMA_WRITE, true), without(IBV_QP_EX_WITH_SEND_WITH_IMM, true)}) {
    for (const Posting posting : {Posting::automatic, Posting::calls}) {
      close();
      client.log.clear();
      connected(adapter, posting);
      EXPECT_TRUE(client.logged("posted by ibv_post_send()"));
      EXPECT_EQ(client.logged(kWarning), posting == Posting::calls);
      EXPECT_EQ(client.unmet(), posting == Posting::calls ? 1U : 0U);
      EXPECT_TRUE(carries());
      EXPECT_EQ(mock_hca::counts(0).batches, 0U);
    }
  }
}

TEST_F(Calls, AreUsedWithoutAWarningIfSupported) {
  connected(mock_hca::rxe(), Posting::automatic);
  EXPECT_EQ(mock_hca::queue_pairs_with_calls(), 2U);
  EXPECT_FALSE(client.logged(kWarning));
  EXPECT_TRUE(carries());
}

TEST_F(Calls, AreUsedInThreadDomainsToo) {
  verbs::VerbsOptions options;
  options.posting = Posting::calls;
  options.thread_domains = true;
  open({mock_hca::mlx5()}, options);
  listen(kAddress);
  connect_both_ends(kAddress);
  EXPECT_EQ(mock_hca::queue_pairs_with_calls(), 2U);
  EXPECT_EQ(mock_hca::queue_pairs_of_threads(), 2U);
  EXPECT_TRUE(carries());
}

// An adapter without memory windows need not support the bind operation.
TEST_F(Calls, NeedNoOperationThatTheAdapterCannotDo) {
  mock_hca::Profile adapter = without(IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV, false);
  adapter.windows_type_1 = adapter.windows_type_2b = adapter.send_invalidate = false;
  connected(adapter);
  EXPECT_EQ(mock_hca::queue_pairs_with_calls(), 2U);
  EXPECT_TRUE(carries());
}

// The adapter stops granting ibv_wr_*() after the first connection was made, as a replaced adapter might.
TEST_F(Calls, AreNotUsedByAConnectionThatIsNotGrantedThem) {
  connected(mock_hca::mlx5());
  mock_hca::forget_calls(0);
  connect_both_ends(kAddress, kNearAgain, kFarAgain);
  EXPECT_EQ(mock_hca::queue_pairs_with_calls(), 2U);
  const Since since;
  EXPECT_TRUE(carries(kNearAgain, kFarAgain));
  EXPECT_EQ(since.by_calls(), 0U);
  EXPECT_EQ(client.fabric->device_of(kNearAgain).posting, "send");
  EXPECT_EQ(client.fabric->device_of(kNear).posting, "wr") << "posting is set for each connection";
  EXPECT_TRUE(carries());
  EXPECT_EQ(since.by_calls(), 1U);
}

// No work of a failed batch reaches the peer, its connection is lost, and the next connection works.
TEST_F(Calls, FailedBatchPostsNothingAndEndsItsConnection) {
  connected(mock_hca::mlx5());
  const auto own = client.fabric->make_request_key(kNear, source.id, 0, 4096);
  ASSERT_TRUE(own);
  std::array work{write(0, {64}, 1), write(64, {64}, 2)};
  work[1].signalled = true;
  const std::uint64_t before = mock_hca::counts(0).work_requests;
  mock_hca::refuse_next_batch(ENOMEM);
  post(work);
  take(client, Kind::connection_lost, kNear);
  EXPECT_TRUE(client.logged("cannot post"));
  EXPECT_EQ(mock_hca::counts(0).work_requests, before);
  EXPECT_EQ(server.count(Kind::imm_received, kFar) + client.count(Kind::send_done, kNear), 0U);
  client.fabric->release_key(own->id);
  leave();
  EXPECT_EQ(client.fabric->stats().discarded_work, 2U);
  connect_both_ends(kAddress, kNearAgain, kFarAgain);
  EXPECT_TRUE(carries(kNearAgain, kFarAgain));
  EXPECT_EQ(client.count(Kind::send_done, kNear), 0U);
}

// With ibv_wr_*(), the mlx5 library would bind a type 1 window as type 2; the soft-RoCE library binds it as
// type 1.
TEST_F(Calls, BindType1WindowsOnlyOnSoftRoce) {
  for (const auto& [adapter, by_calls] :
       {std::pair{mock_hca::mlx5(), false}, std::pair{mock_hca::rxe(), true}}) {
    close();
    connected(adapter);
    const Since since;
    const auto revocable = server.fabric->make_revocable_key(kFar, memory.id, 0, 4096);
    ASSERT_TRUE(revocable);
    for (std::uint64_t cookie = 1; cookie < 4; ++cookie) {
      server.fabric->invalidate(kFar, revocable->id, cookie);
      EXPECT_EQ(take(server, Kind::chunk_invalidated, kFar).cookie, cookie);
      ASSERT_TRUE(server.fabric->rebind(kFar, revocable->id));
      poll_both();
    }
    EXPECT_EQ(since.by_calls(), by_calls ? since.all() : 0U);
    const Since later;
    EXPECT_TRUE(carries());
    EXPECT_EQ(later.by_calls(), 1U) << "the connection goes on with them";
  }
}

// A chain of work requests with a type 1 bind, at any position, must be posted with ibv_post_send() if the
// device accepts this.
TEST_F(Calls, AreNotUsedForAChainWithAType1Bind) {
  connected(mock_hca::mlx5());
  const auto revocable = server.fabric->make_revocable_key(kFar, memory.id, 0, 4096);
  ASSERT_TRUE(revocable);
  invalidate_server_key(*revocable, kFar);
  connect_both_ends(kAddress, kNearAgain, kFarAgain);
  const Since since;
  WorkRequest word = message("ahead of the binding");
  word.key = kFarAgain;
  ASSERT_EQ(server.fabric->post(std::span(&word, 1)), 1U);
  const auto second = server.fabric->make_revocable_key(kFarAgain, memory.id, 0, 4096);
  ASSERT_TRUE(second);
  take(client, Kind::message_received, kNearAgain);
  EXPECT_EQ(since.all(), 1U);
  EXPECT_EQ(since.by_calls(), 0U);
  invalidate_server_key(*second, kFarAgain);
}

mock_hca::Profile only_type_2() {
  mock_hca::Profile one = mock_hca::mlx5();
  one.windows_type_1 = false;
  return one;
}

// The peer invalidates the key; the window is then bound again with the next key.
TEST_F(Calls, BindType2Windows) {
  for (const mock_hca::Profile& adapter : {mock_hca::mlx5(), only_type_2()}) {
    close();
    connected(adapter);
    use_type_2_windows();
  }
}

// With ibv_wr_*(), soft-RoCE's library would miscount the length of a work request with two parts.
TEST_F(Calls, AreNotUsedForTwoPartsOnSoftRoce) {
  connected(mock_hca::rxe());
  for (const std::uint32_t first : {2000U, 20U}) {
    const Since since;
    const std::array work{write(4096, {64}, 1), write(0, {first, 30}, 2)};
    post(work);
    take(server, Kind::imm_received, kFar);
    EXPECT_EQ(take(server, Kind::imm_received, kFar).imm, 2U);
    EXPECT_EQ(since.all(), 1U);
    EXPECT_EQ(since.by_calls(), 0U);
    EXPECT_EQ(std::memcmp(memory.bytes.data(), source.bytes.data(), first), 0);
    EXPECT_EQ(std::memcmp(&memory.bytes[first], &source.bytes[4096], 30), 0);
  }
  const Since since;
  const std::array work{write(4096, {64}, 3), message("inline")};
  post(work);
  take(server, Kind::message_received, kFar);
  EXPECT_EQ(since.by_calls(), 1U);
}

}  // namespace
}  // namespace rtrs::conformance::calls_test
