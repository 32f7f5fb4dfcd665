// Tests reading a workload from a client's trace, and rejecting unusable traces.
#include "tools/lib/trace/workload/workload.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>

#include "core/proto/errc.hpp"
#include "core/proto/inputs.hpp"
#include "core/rnbd/client_events.hpp"
#include "core/wire/messages.hpp"
#include "tools/lib/trace/reader/test_traces.hpp"

namespace rtrs::workload::workload_test {
namespace {

using trace::MessageDone;
using trace::SendMessage;
using trace::WireSent;
using wire::rnbd::AccessMode;
using wire::rnbd::Opcode;

constexpr InstanceId kClient = 0;
constexpr InstanceId kDevices = 1;

// Builds a trace record by record; timestamps advance by 1 us per record.
class Story {
 public:
  Story() : writer_(std::make_unique<trace::StringSink>(bytes_)) {
    EXPECT_EQ(writer_.start(trace::test::plain_header()), 0);
  }
  Story& begin() {
    put(kDevices, trace::BeginClientDevices{});
    put(kClient, trace::BeginClient{});
    Connected connected{};
    connected.max_io_size = 126976;
    connected.queue_depth = 512;
    return put(kClient, connected);
  }
  template <class T>
  Story& put(InstanceId instance, T event) {
    now_ += microseconds(1);
    if constexpr (trace::Timed<T>) event.now = now_;
    if constexpr (trace::KindOf<T>::category == trace::EventClass::note)
      EXPECT_EQ(writer_.append_note(instance, event), 0);
    else
      EXPECT_EQ(writer_.append(trace::kKindOf<T>, instance, &event), 0);
    return *this;
  }

  Story& sends_open(std::uint64_t token, const char* name, AccessMode mode = AccessMode::read_write) {
    wire::rnbd::Open open{mode, wire::make_name(name).value};
    std::array<std::byte, wire::rnbd::kOpenBytes> header{};
    EXPECT_NE(wire::rnbd::encode(open, header), 0U);
    return sends(token, header);
  }
  Story& sends_close(std::uint64_t token, std::uint32_t id) {
    std::array<std::byte, wire::rnbd::kCloseBytes> header{};
    EXPECT_NE(wire::rnbd::encode(wire::rnbd::Close{id}, header), 0U);
    return sends(token, header);
  }
  Story& is_answered(std::uint64_t token, std::uint16_t peer_errno, std::uint32_t id = 0,
                     std::uint64_t nsectors = 2048) {
    MessageDone done{};
    done.token = token;
    done.peer_errno = peer_errno;
    done.delivered = true;
    if (id != 0) {
      wire::rnbd::OpenRsp response;
      response.device_id = id;
      response.nsectors = nsectors;
      response.logical_block_size = 512;
      std::array<std::byte, wire::rnbd::kOpenRspBytes> body{};
      EXPECT_NE(wire::rnbd::encode(response, body), 0U);
      done.response.assign(body.data(), body.size());
    }
    return put(kDevices, done);
  }

  Story& submits(std::uint16_t permit, std::uint16_t affinity = 0) {
    Submitted submitted{};
    submitted.permit = permit;
    submitted.affinity = affinity;
    return put(kClient, submitted);
  }
  // Records a post and its wire record.
  Story& posts(std::uint16_t permit, std::uint32_t id, Opcode opcode, std::uint64_t sector,
               std::uint32_t size, const std::string& data = "", std::uint16_t path = 0) {
    wire::rnbd::Io io;
    io.device_id = id;
    io.opcode = opcode;
    io.sector = sector;
    io.size = size;
    std::string head = data;
    std::array<std::byte, wire::rnbd::kIoBytes> header{};
    EXPECT_NE(wire::rnbd::encode(io, header), 0U);
    head.append(reinterpret_cast<const char*>(header.data()), header.size());
    std::array<std::byte, wire::kMaxIoHeaderBytes> end{};
    wire::IoRequest request;
    request.direction = wire::rnbd::io_framing(io).direction;
    request.usr_len = wire::rnbd::kIoBytes;
    const std::size_t length = wire::encode(request, end);
    head.append(reinterpret_cast<const char*>(end.data()), length);
    PostRequest post{};
    post.permit = permit;
    post.imm = permit;
    post.key.path = path;
    put(kClient, post);
    WireSent sent{};
    sent.imm = permit;
    sent.key.path = path;
    sent.head = trace::test::borrowed(std::move(head));
    return put(kClient, sent);
  }
  Story& completes(std::uint16_t permit, Errc result = Errc::ok, std::uint16_t peer_errno = 0) {
    return put(kClient, Complete{permit, result, peer_errno});
  }

  tl::expected<Workload, std::string> read() {
    EXPECT_EQ(writer_.finish(), 0);
    trace::MemorySource source(bytes_);
    trace::Reader reader(source);
    EXPECT_EQ(reader.open(), trace::Reader::Status::ok);
    return read_workload(reader);
  }

 private:
  Story& sends(std::uint64_t token, std::span<const std::byte> header) {
    SendMessage message{};
    message.token = token;
    message.header.assign(header.data(), header.size());
    return put(kDevices, message);
  }
  std::string bytes_;
  trace::Writer writer_;
  Nanos now_ = seconds(1);
};

std::string moments_of(const Workload& work) {
  std::string text;
  for (const Moment& moment : work.moments)
    text += (text.empty() ? "" : " ") + std::string(moment.answer ? "answer " : "ask ") +
            std::to_string(moment.request);
  return text;
}

TEST(Workload, RequestsAndResponsesAreInOrder) {
  Story story;
  story.begin().sends_open(1, "d").is_answered(1, 0, 9, 4096);
  story.submits(0).posts(0, 9, Opcode::read, 8, 4096);
  story.submits(1, 3).posts(1, 9, Opcode::write, 16, 512, std::string(512, 'x'));
  story.completes(1).completes(0, Errc::peer_error, EIO);
  story.sends_close(2, 9).is_answered(2, 0);
  const auto work = story.read();
  ASSERT_TRUE(work) << work.error();
  EXPECT_EQ(work->devices, std::vector<std::string>{"d"});
  EXPECT_EQ(work->max_io_size, 126976U);
  EXPECT_EQ(work->queue_depth, 512U);
  EXPECT_EQ(moments_of(*work), "ask 0 answer 0 ask 1 ask 2 answer 2 answer 1 ask 3 answer 3");
  ASSERT_EQ(work->requests.size(), 4U);
  const Asked& open = work->requests[0];
  EXPECT_EQ(open.kind, Asked::Kind::open);
  EXPECT_EQ(open.mode, AccessMode::read_write);
  ASSERT_TRUE(open.opened);
  EXPECT_EQ(open.opened->nsectors, 4096U);
  const Asked& read = work->requests[1];
  EXPECT_EQ(read.kind, Asked::Kind::io);
  EXPECT_EQ(read.io.sector, 8U);
  EXPECT_EQ(read.peer_errno, EIO);
  EXPECT_TRUE(read.answered);
  EXPECT_EQ(read.record, 5U) << "of Submitted";
  EXPECT_EQ(read.answered_at - read.at, microseconds(5)) << "an action has the time of the input before it";
  EXPECT_FALSE(changes_blocks(read));
  const Asked& write = work->requests[2];
  EXPECT_EQ(write.data, std::string(512, 'x'));
  EXPECT_EQ(write.affinity, 3U);
  EXPECT_TRUE(changes_blocks(write));
  EXPECT_EQ(work->requests[3].kind, Asked::Kind::close);
}

TEST(Workload, ResentRequestCountsOnce) {
  Story story;
  story.begin().sends_open(1, "d").is_answered(1, 0, 9);
  story.submits(0).posts(0, 9, Opcode::read, 8, 4096).posts(0, 9, Opcode::read, 8, 4096, "", 1).completes(0);
  const auto work = story.read();
  ASSERT_TRUE(work) << work.error();
  EXPECT_EQ(moments_of(*work), "ask 0 answer 0 ask 1 answer 1");
}

TEST(Workload, TryThatARestartedServerRefusedIsNoPartOfIt) {
  Story story;
  const auto judge = [&story](rnbd::Disposition disposition, std::uint16_t peer_errno) {
    trace::IoDone done{};
    done.peer_errno = peer_errno;
    story.put(kDevices, done).put(kDevices, trace::IoJudged{disposition});
  };
  story.begin().sends_open(1, "d").is_answered(1, 0, 9);
  story.submits(0).posts(0, 9, Opcode::read, 8, 512).completes(0, Errc::peer_error, ENOTCONN);
  judge(rnbd::Disposition::retry_after_remap, ENOTCONN);
  story.sends_open(2, "d").is_answered(2, 0, 12);
  story.submits(0).posts(0, 12, Opcode::read, 8, 512).completes(0);
  judge(rnbd::Disposition::ok, 0);
  story.submits(1).posts(1, 12, Opcode::read, 16, 512).completes(1, Errc::peer_error, ENOTCONN);
  judge(rnbd::Disposition::fail, ENOTCONN);
  const auto work = story.read();
  ASSERT_TRUE(work) << work.error();
  EXPECT_EQ(moments_of(*work), "ask 0 answer 0 ask 1 answer 1 ask 2 answer 2");
  ASSERT_EQ(work->requests.size(), 3U);
  EXPECT_EQ(work->requests[1].peer_errno, 0);
  EXPECT_EQ(work->requests[2].peer_errno, ENOTCONN) << "the application saw it";
}

TEST(Workload, RequestWithoutResponseIsUnanswered) {
  Story story;
  story.begin().sends_open(1, "d").is_answered(1, 0, 9);
  story.submits(0).completes(0, Errc::no_path);
  story.submits(0).posts(0, 9, Opcode::flush, 0, 0).completes(0, Errc::no_path);
  story.submits(1).posts(1, 9, Opcode::read, 0, 512);
  const auto work = story.read();
  ASSERT_TRUE(work) << work.error();
  EXPECT_EQ(work->unsent, 1U);
  EXPECT_EQ(moments_of(*work), "ask 0 answer 0 ask 1 ask 2");
  EXPECT_FALSE(work->requests[1].answered);
  EXPECT_FALSE(changes_blocks(work->requests[1])) << "a flush";
}

TEST(Workload, ReopenAfterALostLinkKeepsTheDevice) {
  Story story;
  story.begin().sends_open(1, "d").is_answered(1, 0, 9);
  story.sends_open(2, "d").is_answered(2, 0, 12);
  story.submits(0).posts(0, 12, Opcode::read, 0, 512).completes(0);
  story.sends_close(3, 12).is_answered(3, 0);
  story.sends_open(4, "d").is_answered(4, 0, 13);
  story.sends_open(5, "e").is_answered(5, ENOENT);
  story.sends_open(6, "e").is_answered(6, 0, 14);
  const auto work = story.read();
  ASSERT_TRUE(work) << work.error();
  EXPECT_EQ(moments_of(*work),
            "ask 0 answer 0 ask 1 answer 1 ask 2 answer 2 ask 3 answer 3 ask 4 answer 4 ask 5 answer 5");
  EXPECT_EQ(work->requests[1].device, 0U);
  EXPECT_EQ(work->devices, (std::vector<std::string>{"d", "e"}));
  EXPECT_EQ(work->requests[4].peer_errno, ENOENT);
}

TEST(Workload, ServiceMessageIsNoIo) {
  Story story;
  story.begin().sends_open(1, "d");
  Submitted service{};
  service.service = true;
  story.put(kClient, service).completes(0).is_answered(1, 0, 9);
  story.submits(0).posts(0, 9, Opcode::read, 0, 512).completes(0);
  const auto work = story.read();
  ASSERT_TRUE(work) << work.error();
  EXPECT_EQ(work->unsent, 0U);
  EXPECT_EQ(moments_of(*work), "ask 0 answer 0 ask 1 answer 1");
}

TEST(Workload, UnusableTraceIsRefusedWithAReason) {
  const auto why = [](Story& story) {
    const auto work = story.read();
    return work ? std::string("read") : work.error();
  };
  Story none;
  EXPECT_EQ(why(none), "it is not the trace of a client");
  Story idle;
  idle.begin();
  EXPECT_EQ(why(idle), "no device was opened and no IO was requested");
  Story machines;
  machines.begin().sends_open(1, "d").is_answered(1, 0, 9).submits(0).completes(0);
  EXPECT_EQ(why(machines), "it has no messages of the wire; record it with trace_detail=wire or payload");
  Story other;
  WireSent strange{};
  strange.head = trace::test::borrowed("of another application");
  other.begin().submits(0).put(kClient, PostRequest{}).put(kClient, strange).completes(0);
  EXPECT_EQ(why(other), "it has no IO of block devices");
  Story late;
  late.begin().submits(0).posts(0, 9, Opcode::read, 0, 512);
  EXPECT_EQ(why(late),
            "it has IO of a device whose opening is not in it; record from the beginning of the session");
  Story two;
  two.begin().put(2, trace::BeginClient{});
  EXPECT_EQ(why(two), "it has several clients; record each client in a separate trace");
  Story odd;
  odd.begin().sends_open(1, "d").is_answered(1, 0);
  EXPECT_EQ(why(odd), "the answer to the opening of a device cannot be read");
}

RC_GTEST_PROP(WorkloadProperty, RandomRecordsAreSafe, ()) {
  std::string bytes;
  trace::Writer writer(std::make_unique<trace::StringSink>(bytes));
  RC_ASSERT(writer.start(trace::test::plain_header()) == 0);
  std::vector<trace::test::Written> written;
  const trace::KindId kinds[] = {trace::kKindOf<trace::BeginClient>,
                                 trace::kKindOf<trace::BeginClientDevices>,
                                 trace::kKindOf<SendMessage>,
                                 trace::kKindOf<MessageDone>,
                                 trace::kKindOf<Connected>,
                                 trace::kKindOf<Submitted>,
                                 trace::kKindOf<PostRequest>,
                                 trace::kKindOf<WireSent>,
                                 trace::kKindOf<Complete>};
  const auto records = *rc::gen::inRange(0, 60);
  for (int i = 0; i < records; ++i)
    trace::test::write_random(writer, *rc::gen::elementOf(std::vector(std::begin(kinds), std::end(kinds))),
                              written);
  RC_ASSERT(writer.finish() == 0);
  trace::MemorySource source(bytes);
  trace::Reader reader(source);
  RC_ASSERT(reader.open() == trace::Reader::Status::ok);
  const auto work = read_workload(reader);
  if (!work) return;
  std::set<std::size_t> asked;
  for (const Moment& moment : work->moments) {
    RC_ASSERT(moment.request < work->requests.size());
    const bool right = moment.answer ? asked.contains(moment.request) : asked.insert(moment.request).second;
    RC_ASSERT(right);
    RC_ASSERT(work->requests[moment.request].device < work->devices.size());
  }
}

}  // namespace
}  // namespace rtrs::workload::workload_test
