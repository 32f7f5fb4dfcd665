// Tests how long a BlockClient holds requests that it cannot send, and with which result they then complete.
#include "sim/blocks/test_block_client.hpp"

namespace rtrs::sim::block_waits_test {
namespace {

// Clients with a `queue_timeout` of 3 s.
class PatientTest : public BlockClientTest {
 protected:
  PatientTest() : BlockClientTest(options()) {}

 public:
  static constexpr Nanos kPatience = seconds(3);
  static BlockOptions options() {
    BlockOptions made;
    made.queue_timeout = kPatience;
    return made;
  }
};

class LateWriteTest : public BlockClientTest {
 protected:
  LateWriteTest() : BlockClientTest(options()) {}
  static BlockOptions options() {
    BlockOptions made = PatientTest::options();
    made.storage = seconds(2);
    return made;
  }
};

// A request to a device waits no longer than queue_timeout, whatever its device waits for, and then fails
// with no_path.
TEST_F(PatientTest, R78RequestWaitingForItsDeviceFailsAfterQueueTimeout) {
  const auto device = static_cast<DeviceHandle>(w.map("a"));
  w.until("the device is open", [&] { return w.state(device) == rnbd::DeviceState::open; });
  for (std::uint32_t path = 0; path < BlockWorld::kPaths; ++path) w.cut(path);
  w.until("the link is lost", [&] { return !w.link_up(); });
  for (unsigned round = 0; round < 2; ++round) {
    const Nanos begin = w.now();
    expect(result_of(device, {.opcode = Opcode::write, .length = 4096}), Errc::no_path, EIO);
    EXPECT_GE(w.now() - begin, kPatience);
    EXPECT_LE(w.now() - begin, kPatience + seconds(1));
    w.pass(seconds(1));
  }
}

class SlowOpenTest : public BlockClientTest {
 protected:
  SlowOpenTest() : BlockClientTest(options()) {}
  static BlockOptions options() {
    BlockOptions made = PatientTest::options();
    made.opening = milliseconds(100);
    return made;
  }
};

// The client is paused until OPEN has been answered and queue_timeout has expired.
TEST_F(SlowOpenTest, RequestThatCanBeSentNowIsNotOverdue) {
  const DeviceHandle device = open(w, "a");
  for (std::uint32_t path = 0; path < BlockWorld::kPaths; ++path) w.break_path(path);
  w.until("the link is lost", [&] { return !w.link_up(); });
  w.take_away("a");
  EXPECT_EQ(submit(device, {.length = 4096}), Errc::ok);
  w.until("a path is back", [&] { return w.link_up(); });
  w.pass(milliseconds(1));
  ASSERT_EQ(w.messages_under_way(), 1U) << "OPEN";
  w.pause_client(PatientTest::kPatience + seconds(1));
  w.pass(PatientTest::kPatience + seconds(2));
  expect(next(), Errc::ok, 0);
}

// A write consists of several messages. One fails with an error; the others are at the server when the path
// is lost.
TEST_F(LateWriteTest, ResultIsNoPathIfAMessageMayStillExecute) {
  const DeviceHandle device = open(w, "a");
  ASSERT_LT(2 * w.client().session().max_io_size(), kSectors * 512);
  w.resize("a", 8);
  EXPECT_EQ(submit(device, {.opcode = Opcode::write, .length = kSectors * 512}), Errc::ok);
  w.until("storage has all", [&] { return w.storage_in_flight() == 3; });
  w.until("one has failed", [&] { return w.storage_in_flight() == 2; });
  w.pass(milliseconds(1));
  ASSERT_EQ(w.storage_in_flight(), 2U) << "the other messages take longer";
  for (std::uint32_t path = 0; path < BlockWorld::kPaths; ++path) w.cut(path);
  const BlockCompletion done = next();
  EXPECT_EQ(done.result, Errc::no_path) << "not the error of the server: a message may still execute";
}

class SilentOpenTest : public BlockClientTest {
 protected:
  SilentOpenTest() : BlockClientTest(options()) {}
  static BlockOptions options() {
    BlockOptions made = PatientTest::options();
    made.opening = seconds(1'000'000);
    return made;
  }
};

TEST_F(SilentOpenTest, RequestFailsAfterQueueTimeoutAlthoughTheLinkIsUp) {
  const auto device = static_cast<DeviceHandle>(w.map("a"));
  for (unsigned round = 0; round < 2; ++round) {
    const Nanos begin = w.now();
    expect(result_of(device, {.opcode = Opcode::write, .length = 4096}), Errc::request_timeout, ETIMEDOUT);
    EXPECT_TRUE(w.link_up());
    EXPECT_GE(w.now() - begin, PatientTest::kPatience);
    EXPECT_LE(w.now() - begin, PatientTest::kPatience + seconds(1));
  }
}

// Storage never responds, and its request holds the only permit.
class NoPermitTest : public BlockClientTest {
 protected:
  NoPermitTest() : BlockClientTest(options()) {}
  static BlockOptions options() {
    BlockOptions made = PatientTest::options();
    made.depth = 1;
    made.storage = seconds(1'000'000);
    made.request_timeout = seconds(2);
    return made;
  }
};

TEST_F(NoPermitTest, RequestWithoutPermitFailsWithNoPermitWhileThePathIsUp) {
  const DeviceHandle device = open(w, "a");
  // The request timeout ended one path; the other path is still connected.
  expect(result_of(device, {.length = 512}), Errc::request_timeout, ETIMEDOUT);
  expect(result_of(device, {.length = 512}), Errc::no_permit, EIO);
  EXPECT_TRUE(w.link_up());
}

// With queue_timeout 0, a request that cannot be sent at once fails at once.
class ImpatientTest : public BlockClientTest {
 protected:
  ImpatientTest() : BlockClientTest(options()) {}
  static BlockOptions options() {
    BlockOptions made;
    made.queue_timeout = 0;
    made.opening = milliseconds(100);
    return made;
  }
};

TEST_F(ImpatientTest, FailsAtOnceWithoutAPathOrAnOpenDevice) {
  const auto device = static_cast<DeviceHandle>(w.map("a"));
  const BlockRequest read{.length = 4096};
  Nanos begin = w.now();
  expect(result_of(device, read), Errc::request_timeout, ETIMEDOUT);
  EXPECT_EQ(w.now(), begin);
  w.until("the device is open", [&] { return w.state(device) == rnbd::DeviceState::open; });
  expect(result_of(device, read), Errc::ok, 0);
  for (std::uint32_t path = 0; path < BlockWorld::kPaths; ++path) w.cut(path);
  w.until("the link is lost", [&] { return !w.link_up(); });
  begin = w.now();
  expect(result_of(device, read), Errc::no_path, EIO);
  EXPECT_EQ(w.now(), begin);
}

TEST_F(ImpatientTest, SentRequestsCompleteAndFuaChangesGetTheirFlush) {
  w.disk("a").fua = false;
  const DeviceHandle device = open(w, "a");
  for (unsigned io = 0; io < 20; ++io)
    EXPECT_EQ(submit(device, {.opcode = Opcode::write_zeroes, .length = 4096, .fua = true}), Errc::ok);
  for (unsigned io = 0; io < 20; ++io) expect(next(), Errc::ok, 0);
}

}  // namespace
}  // namespace rtrs::sim::block_waits_test
