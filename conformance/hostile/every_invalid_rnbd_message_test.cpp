// Sends every invalid RNBD message in every device state, to the server and to the client. Each request must
// be answered once, storage must be accessed only inside an open device, and no device may stay open.
#include <set>

#include "conformance/hostile/message_variants.hpp"
#include "core/rnbd/device_reasons.hpp"
#include "core/rnbd/test_client.hpp"
#include "core/rnbd/test_server_session.hpp"

namespace rtrs::hostile::every_invalid_rnbd_message_test {
namespace {

using wire::rnbd::Opcode;

enum class Stage { nothing, greeted, opening, open, busy, closing, taken_away };
constexpr Stage kEveryStage[] = {Stage::nothing, Stage::greeted, Stage::opening,   Stage::open,
                                 Stage::busy,    Stage::closing, Stage::taken_away};
constexpr std::uint64_t kSectors = 1024;  // size of each device

template <class Value>
Message rnbd_message(const Value& value) {
  const rnbd::test::Header header = rnbd::test::encoded(value);
  return Message(header.begin(), header.end());
}

// Server end of a session, with one device in a chosen stage.
class Server {
 public:
  explicit Server(Stage stage) {
    if (stage == Stage::nothing) return;
    send_sess_info();
    if (stage == Stage::greeted) return;
    session_.open("disk");
    if (stage == Stage::opening) return;
    session_.export_opened(0);
    id_ = session_.response().device_id;
    if (stage == Stage::open) return;
    session_.io(id_, Opcode::write, 8);
    if (stage == Stage::closing) session_.close(id_);
    if (stage == Stage::taken_away) session_.step(rnbd::DeviceForceClosed{id_});
  }
  // Id of the device, or an arbitrary id if none is open.
  std::uint32_t id() const { return id_; }

  void expect_answered(Direction direction, std::uint32_t data_len, const Message& header) {
    const auto request = session_.arrive(direction, data_len, header);
    for (const rnbd::Storage& one : session_.storage) expect_inside(one);
    for (const rnbd::Storage& one : session_.storage) {
      if (one.request != request || (one.opcode != Opcode::read && one.opcode != Opcode::write)) continue;
      EXPECT_EQ(one.bytes, data_len) << "storage accesses only the data of the request";
      EXPECT_EQ(one.opcode == Opcode::read, direction == Direction::read);
    }
    settle();
    EXPECT_NE(session_.errno_of(request), session_.kUnanswered);
    EXPECT_LE(session_.errno_of(request), rnbd::kMaxWireErrno);
    for (const rnbd::WriteBack& one : session_.answers) {
      if (one.request != request) continue;
      EXPECT_LE(one.response.size(), data_len) << "the response fits the buffer";
    }
  }
  void expect_serves_and_ends() {
    send_sess_info();
    const auto opened = session_.open("honest");
    settle();
    ASSERT_EQ(session_.errno_of(opened), 0);
    session_.io(session_.response().device_id, Opcode::read, kSectors - 8);
    ASSERT_EQ(session_.storage.size(), 1U);
    expect_inside(session_.storage[0]);
    settle();
    session_.step(rnbd::SessionClosed{});
    settle();
    EXPECT_EQ(session_.drained, 1U);
    EXPECT_EQ(session_.devices.unanswered(), 0U);
    const std::set<std::uint64_t> closed(session_.closed.begin(), session_.closed.end());
    EXPECT_EQ(closed.size(), session_.closed.size()) << "an export is closed once";
    EXPECT_EQ(closed.size(), session_.next_handle - 100) << "every export that was opened is closed";
  }

 private:
  void send_sess_info() {
    session_.arrive(Direction::read, wire::rnbd::kSessInfoRspBytes, rnbd_message(wire::rnbd::SessInfo{2}));
  }
  void settle() {
    while (!session_.opens.empty() || !session_.storage.empty()) {
      if (!session_.opens.empty()) {
        session_.export_opened(0);
      } else {
        session_.storage_done(0);
      }
    }
  }
  void expect_inside(const rnbd::Storage& one) {
    EXPECT_TRUE(one.handle >= 100 && one.handle < session_.next_handle) << "an export of this session";
    EXPECT_EQ(std::count(session_.closed.begin(), session_.closed.end(), one.handle), 0);
    EXPECT_LE(one.sector, kSectors);
    EXPECT_LE(one.bytes, (kSectors - one.sector) * wire::rnbd::kSectorBytes);
  }

  rnbd::test::Session session_;
  std::uint32_t id_ = 0;
};

// `make` builds the valid message for a device id.
template <class Make>
void send_variants_to_server(const wire::rnbd::Framing& honest, std::initializer_list<Field> fields,
                             const Make& make) {
  for (const Stage stage : kEveryStage) {
    const Message message = make(Server(stage).id());
    std::vector<Lie> all = lies(message, fields);
    all.push_back({"the truth", message});
    for (const Lie& lie : all) {
      for (const auto direction : {Direction::read, Direction::write}) {
        for (const std::uint32_t data_len : {honest.data_len, 0U, 1U, 512U, 1U << 20}) {
          SCOPED_TRACE("stage " + std::to_string(static_cast<int>(stage)) + ", " + lie.name + ", data " +
                       std::to_string(data_len));
          Server server(stage);
          server.expect_answered(direction, data_len, lie.bytes);
          server.expect_serves_and_ends();
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(EveryInvalidRnbdMessage, InSessInfo) {
  send_variants_to_server(wire::rnbd::kSessInfoFraming,
                          {{"type", 0, 2}, {"padding", 2, 2}, {"version", 4, 1}, {"reserved", 5, 8}},
                          [](std::uint32_t) { return rnbd_message(wire::rnbd::SessInfo{2}); });
}

TEST(EveryInvalidRnbdMessage, InOpen) {
  for (const char* name : {"disk", "another"}) {
    send_variants_to_server(
        wire::rnbd::kOpenFraming,
        {{"type", 0, 2}, {"access_mode", 4, 1}, {"name", 6, 1}, {"name_end", 260, 1}, {"padding", 261, 2}},
        [name](std::uint32_t) {
          return rnbd_message(
              wire::rnbd::Open{wire::rnbd::AccessMode::read_write, wire::make_name(name).value});
        });
  }
}

TEST(EveryInvalidRnbdMessage, InClose) {
  send_variants_to_server(wire::rnbd::kCloseFraming, {{"type", 0, 2}, {"padding", 2, 2}, {"device_id", 4, 4}},
                          [](std::uint32_t id) { return rnbd_message(wire::rnbd::Close{id}); });
}

TEST(EveryInvalidRnbdMessage, InIo) {
  for (const Opcode opcode :
       {Opcode::read, Opcode::write, Opcode::flush, Opcode::discard, Opcode::write_zeroes}) {
    wire::rnbd::Io io;
    io.opcode = opcode;
    io.sector = opcode == Opcode::flush ? 0 : kSectors - 8;
    io.size = opcode == Opcode::flush ? 0 : 4096;
    send_variants_to_server(wire::rnbd::io_framing(io),
                            {{"type", 0, 2},
                             {"padding", 2, 2},
                             {"device_id", 4, 4},
                             {"sector", 8, 8},
                             {"rw", 16, 4},
                             {"size", 20, 4},
                             {"prio", 24, 2}},
                            [&io](std::uint32_t id) {
                              io.device_id = id;
                              return rnbd_message(io);
                            });
    if (testing::Test::HasFailure()) return;
  }
}

constexpr std::uint16_t kErrnos[] = {0, 2, 107, 511, 65535};

// Client end of a session with two devices.
class ClientUnderTest {
 public:
  explicit ClientUnderTest(bool after_outage) {
    client_.step(rnbd::LinkUp{});
    devices_ = {client_.map("other"), client_.map("disk")};
    if (!after_outage) return;
    heal();
    client_.step(rnbd::LinkDown{});
    client_.step(rnbd::LinkUp{});
  }
  // Answers requests correctly until one of this kind arrives; answers that request with `peer_errno` and
  // `response`.
  void lie(rnbd::MessageKind kind, std::uint16_t peer_errno, wire::Bytes response) {
    for (unsigned turn = 0; turn < 8 && !client_.answer(kind, peer_errno, response); ++turn) answer_one();
    expect_sound();
  }
  void answer_io_with(std::uint16_t peer_errno) {
    heal();
    ASSERT_EQ(client_.devices.gate(devices_[1]), rnbd::Gate::go);
    (void)client_.begin(devices_[1]);
    const rnbd::Disposition end = client_.io_done(devices_[1], peer_errno);
    EXPECT_EQ(end == rnbd::Disposition::ok, peer_errno == 0);
    expect_sound();
  }
  void answer_close_with(std::uint16_t peer_errno, wire::Bytes response) {
    heal();
    client_.step(rnbd::UnmapRequested{devices_[1]});
    EXPECT_TRUE(client_.answer(rnbd::MessageKind::close, peer_errno, response));
    EXPECT_EQ(client_.devices.state(devices_[1]), rnbd::DeviceState::unmapped) << "whatever the server says";
  }
  void expect_recovers_and_ends() {
    heal();
    expect_sound();
    for (const rnbd::DeviceHandle device : devices_) {
      const bool usable = client_.devices.state(device) == rnbd::DeviceState::open;
      // IO waits if the refusal may be temporary.
      const bool waits = !usable && rnbd::may_pass(client_.devices.last_refusal(device));
      EXPECT_EQ(client_.devices.gate(device), usable  ? rnbd::Gate::go
                                              : waits ? rnbd::Gate::hold
                                                      : rnbd::Gate::refuse);
      EXPECT_TRUE(usable || waits || client_.devices.refusal_errno(device) != 0) << "fails with an errno";
      client_.step(rnbd::UnmapRequested{device});
    }
    heal();
    EXPECT_EQ(client_.devices.mapped_count(), 0U);
    EXPECT_EQ(client_.devices.messages_in_flight(), 0U);
  }

 private:
  void answer_one() {
    if (client_.devices.retry_wanted()) return client_.step(rnbd::RetryDue{});
    (void)(client_.answer_info() || client_.answer_open(rnbd::test::disk(++last_id_)) ||
           client_.answer_close());
  }
  void heal() {
    for (unsigned turn = 0; turn < 100 && (!client_.messages.empty() || client_.devices.retry_wanted());
         ++turn)
      answer_one();
    EXPECT_TRUE(client_.messages.empty());
  }
  void expect_sound() {
    for (const rnbd::DeviceHandle device : devices_) {
      if (client_.devices.state(device) != rnbd::DeviceState::open) continue;
      EXPECT_TRUE(valid(*client_.devices.geometry(device))) << "a usable device has a usable geometry";
    }
  }

  rnbd::test::Client client_;
  std::array<rnbd::DeviceHandle, 2> devices_{};
  std::uint32_t last_id_ = 6;
};

void send_variants_to_client(rnbd::MessageKind kind, const Message& honest,
                             std::initializer_list<Field> fields) {
  std::vector<Lie> all = lies(honest, fields);
  all.push_back({"nothing", {}});
  for (const bool after_outage : {false, true}) {
    for (const Lie& lie : all) {
      for (const std::uint16_t peer_errno : kErrnos) {
        SCOPED_TRACE(lie.name + ", errno " + std::to_string(peer_errno) + (after_outage ? ", again" : ""));
        ClientUnderTest victim(after_outage);
        victim.lie(kind, peer_errno, lie.bytes);
        victim.expect_recovers_and_ends();
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(EveryInvalidRnbdMessage, InSessInfoRsp) {
  send_variants_to_client(rnbd::MessageKind::sess_info, rnbd_message(wire::rnbd::SessInfoRsp{2}),
                          {{"type", 0, 2}, {"version", 4, 1}, {"reserved", 5, 8}});
}

TEST(EveryInvalidRnbdMessage, InOpenRsp) {
  send_variants_to_client(rnbd::MessageKind::open, rnbd_message(rnbd::test::disk(8)),
                          {{"type", 0, 2},
                           {"device_id", 4, 4},
                           {"nsectors", 8, 8},
                           {"max_hw_sectors", 16, 4},
                           {"max_write_zeroes", 20, 4},
                           {"max_discard", 24, 4},
                           {"discard_granularity", 28, 4},
                           {"discard_alignment", 32, 4},
                           {"physical_block_size", 36, 2},
                           {"logical_block_size", 38, 2},
                           {"max_segments", 40, 2},
                           {"secure_discard", 42, 2},
                           {"cache_policy", 45, 1},
                           {"reserved", 46, 2},
                           {"instance", 48, 8}});
}

TEST(EveryInvalidRnbdMessage, InResponsesToCloseAndIo) {
  for (const std::uint16_t peer_errno : kErrnos) {
    for (const bool after_outage : {false, true}) {
      SCOPED_TRACE("errno " + std::to_string(peer_errno) + (after_outage ? ", again" : ""));
      ClientUnderTest closing(after_outage);
      closing.answer_close_with(peer_errno, Message(8, std::byte{0xff}));
      ClientUnderTest busy(after_outage);
      busy.answer_io_with(peer_errno);
      busy.expect_recovers_and_ends();
    }
  }
}

}  // namespace
}  // namespace rtrs::hostile::every_invalid_rnbd_message_test
