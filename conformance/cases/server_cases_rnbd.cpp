// RNBD messages other than IO (protocol.md sections 2.9, 9.3 and 9.4).
#include <algorithm>

#include "conformance/cases/case.hpp"
#include "conformance/cases/rnbd_talk.hpp"
#include "conformance/cases/server_tester.hpp"
#include "conformance/cases/verdict.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::conformance {
namespace rnbd_message_checks {
namespace {

using namespace wire::rnbd;
using namespace wire::linux_errno;

const std::string& device_name(ServerTester& tester) {
  if (tester.setup().device.empty()) not_run("it needs a device of the server: --device NAME");
  return tester.setup().device;
}

void version_2(ServerTester& tester) {
  const unsigned version = exchange_versions(tester.opened());
  require(version == 2, "the server speaks version {}", version);
}
void version_1(ServerTester& tester) {
  const unsigned version = exchange_versions(tester.opened(), 1);
  require(version == 1, "asked for version 1, answered {}", version);
}
void version_255(ServerTester& tester) {
  const unsigned version = exchange_versions(tester.opened(), 255);
  require(version == 2, "asked for version 255, answered {}", version);
}
void info_twice(ServerTester& tester) {
  Path& path = tester.opened();
  exchange_versions(path);
  exchange_versions(path);
}
void info_type(ServerTester& tester) {
  Path& path = tester.opened();
  const Answer answer = path.ask(sess_info_ask());
  const unsigned type = wire::load_le16(answer.data, 0);
  require(type == 1, "the answer to SESS_INFO has type {}", type);
}
void info_garbage(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  std::fill(ask.user.begin() + 5, ask.user.end(), std::byte{0xff});
  wire::store_le16(ask.user, 2, 0xffff);
  expect_errno(path, ask, 0, "SESS_INFO with garbage in its padding");
}
void info_short(ServerTester& tester) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  ask.user.resize(4);
  expect_refused(path, ask, "SESS_INFO of four bytes");
}

void message_typed(ServerTester& tester, std::uint16_t type) {
  Path& path = tester.opened();
  Ask ask = sess_info_ask();
  wire::store_le16(ask.user, 0, type);
  const Answer answer = path.ask(ask);
  require(answer.error != 0, "a message of type {} was carried out", type);
  exchange_versions(path);
  require(path.surplus_answers() == 0, "it was answered twice");
}
void unknown_type(ServerTester& tester) {
  message_typed(tester, 99);
}
void response_type(ServerTester& tester) {
  message_typed(tester, 1);
}

void open_first(ServerTester& tester) {
  const std::string& name = device_name(tester);
  open_on(tester.opened(), name, AccessMode::read_only);
}

void open_fields(ServerTester& tester) {
  const Device device = open_device(tester);
  const OpenRsp& about = device.about;
  const std::uint32_t block = about.logical_block_size;
  require(block >= 512 && block <= 4096 && (block & (block - 1)) == 0,
          "a logical block of {} bytes: kernel clients refuse it", block);
  require(about.nsectors > 0, "the device has no sectors");
}

void open_type(ServerTester& tester) {
  const std::string& name = device_name(tester);
  Path& path = tester.opened();
  const Answer answer = path.ask(open_ask(name));
  parse_opened(answer);
  require(wire::load_le16(answer.data, 0) == 3, "the type of OPEN_RSP is {}",
          wire::load_le16(answer.data, 0));
}

void open_twice(ServerTester& tester) {
  const Device device = open_device(tester);
  const Device again = open_on(*device.path, tester.setup().device, AccessMode::read_only);
  require(device.about.device_id == again.about.device_id, "one device, two ids: {} and {}",
          device.about.device_id, again.about.device_id);
}

void open_unknown(ServerTester& tester) {
  Path& path = tester.opened();
  expect_errno(path, open_ask("conform-there-is-no-such-device"), kEnoent,
               "OPEN of a device that does not exist");
  exchange_versions(path);
  require(path.surplus_answers() == 0, "it was answered twice");
}
void open_parent(ServerTester& tester) {
  expect_refused(tester.opened(), open_ask("../../etc/passwd"), "OPEN of a name with ..");
}
void open_no_name(ServerTester& tester) {
  Ask ask = open_ask("x");
  ask.user[6] = std::byte{0};
  expect_refused(tester.opened(), ask, "OPEN without a name");
}
void open_unterminated(ServerTester& tester) {
  Ask ask = open_ask("x");
  std::fill(ask.user.begin() + 6, ask.user.begin() + 261, std::byte{'x'});
  expect_refused(tester.opened(), ask, "OPEN of a name without NUL");
}
void open_mode(ServerTester& tester) {
  Ask ask = open_ask(device_name(tester));
  ask.user[4] = std::byte{3};
  expect_errno(tester.opened(), ask, kEinval, "OPEN with access mode 3");
}
void open_short(ServerTester& tester) {
  Ask ask = open_ask("x");
  ask.user.resize(10);
  expect_refused(tester.opened(), ask, "OPEN of ten bytes");
}
void open_no_room(ServerTester& tester) {
  Ask ask = open_ask(device_name(tester));
  ask.room = 8;
  expect_refused(tester.opened(), ask, "OPEN with room for eight bytes of its answer");
}
void open_garbage(ServerTester& tester) {
  Ask ask = open_ask(device_name(tester));
  // A kernel client leaves arbitrary bytes in the padding and behind the name.
  wire::store_le16(ask.user, 2, 0xabcd);
  ask.user[5] = std::byte{0xff};
  std::fill(ask.user.begin() + 6 + static_cast<int>(tester.setup().device.size()) + 1, ask.user.end(),
            std::byte{0xee});
  parse_opened(tester.opened().ask(ask));
}

void second_writer(ServerTester& tester) {
  open_scratch_device(tester);
  Path& other = tester.opened();
  expect_errno(other, open_ask(tester.setup().device, AccessMode::read_write), kEperm, "a second writer");
  parse_opened(other.ask(open_ask(tester.setup().device, AccessMode::read_only)));
}

void writer_leaves(ServerTester& tester) {
  const Device device = open_scratch_device(tester);
  device.path->disconnect();
  open_when_free(tester, tester.opened(), AccessMode::read_write);
}

void close_unknown(ServerTester& tester) {
  expect_errno(tester.opened(), close_ask(0x7fffffffU), 0, "CLOSE of a device that is not open");
}
void close_twice(ServerTester& tester) {
  const Device device = open_device(tester);
  expect_errno(*device.path, close_ask(device.about.device_id), 0, "CLOSE");
  expect_errno(*device.path, close_ask(device.about.device_id), 0, "a second CLOSE");
}
void close_and_open(ServerTester& tester) {
  const Device device = open_device(tester);
  for (unsigned round = 0; round < 4; ++round) {
    const Device again = open_on(*device.path, tester.setup().device, AccessMode::read_only);
    expect_errno(*device.path, close_ask(again.about.device_id), 0, "CLOSE");
  }
}
void close_short(ServerTester& tester) {
  Ask ask = close_ask(0);
  ask.user.resize(4);
  Path& path = tester.opened();
  path.send(ask);
  require(path.fate(0) != Path::Fate::neither, "CLOSE of four bytes was not answered");
}

constexpr const char* kMessages = "protocol.md section 2.9";
constexpr const char* kDevices = "protocol.md section 9.4";
constexpr const char* kChecks = "protocol.md section 9.3";

constexpr Case kCases[] = {
    {"C401-rnbd-version-2", "rnbd: version 2 is answered with 2", kMessages, Level::must, false, version_2},
    {"C402-rnbd-version-1", "rnbd: the lower version counts", kMessages, Level::must, false, version_1},
    {"C403-rnbd-version-255", "rnbd: a newer client gets version 2", kMessages, Level::must, false,
     version_255},
    {"C404-rnbd-info-twice", "rnbd: SESS_INFO may come again", "protocol.md section 9.5", Level::must, false,
     info_twice},
    {"C405-rnbd-info-type", "rnbd: the type of SESS_INFO_RSP is 1", kMessages, Level::should, false,
     info_type},
    {"C406-rnbd-info-garbage", "rnbd: padding is ignored", kMessages, Level::must, false, info_garbage},
    {"C407-rnbd-info-short", "rnbd: SESS_INFO that is too short is refused", kChecks, Level::should, false,
     info_short},
    {"C408-rnbd-unknown-type", "rnbd: an unknown message is refused, once", kMessages, Level::must, false,
     unknown_type},
    {"C409-rnbd-response-type", "rnbd: a response from a client is refused, once", kMessages, Level::must,
     false, response_type},
    {"C410-open-first", "open: it may come before SESS_INFO", "protocol.md section 9.5", Level::must, false,
     open_first},
    {"C411-open-fields", "open: the answer describes a usable device", kMessages, Level::must, false,
     open_fields},
    {"C412-open-type", "open: the type of OPEN_RSP is 3", kMessages, Level::should, false, open_type},
    {"C413-open-twice", "open: one device has one id", kDevices, Level::must, false, open_twice},
    {"C414-open-unknown", "open: a missing device is answered with ENOENT, once", kDevices, Level::must,
     false, open_unknown},
    {"C415-open-parent", "open: .. in a name is refused", "protocol.md section 8.6", Level::must, false,
     open_parent},
    {"C416-open-no-name", "open: an empty name is refused", kDevices, Level::must, false, open_no_name},
    {"C417-open-unterminated", "open: a name without NUL is refused", kMessages, Level::must, false,
     open_unterminated},
    {"C418-open-mode", "open: an unknown access mode is answered with EINVAL", kDevices, Level::must, false,
     open_mode},
    {"C419-open-short", "open: a message that is too short is refused", kChecks, Level::must, false,
     open_short},
    {"C420-open-no-room", "open: too little room for the answer is refused", kChecks, Level::should, false,
     open_no_room},
    {"C421-open-garbage", "open: padding and what follows the name are ignored", kMessages, Level::must,
     false, open_garbage},
    {"C422-open-second-writer", "open: a second writer is answered with EPERM, a reader let in", kDevices,
     Level::must, false, second_writer},
    {"C423-open-writer-leaves", "open: a writer is released when its session ends", kDevices, Level::must,
     false, writer_leaves},
    {"C430-close-unknown", "close: a device that is not open is closed with success", kDevices, Level::quirk,
     false, close_unknown},
    {"C431-close-twice", "close: a second CLOSE succeeds", kDevices, Level::must, false, close_twice},
    {"C432-close-and-open", "close: the device can be opened again", kDevices, Level::must, false,
     close_and_open},
    {"C433-close-short", "close: a message that is too short is answered", kChecks, Level::should, false,
     close_short},
};

}  // namespace
}  // namespace rnbd_message_checks

std::span<const Case> rnbd_message_cases() {
  return rnbd_message_checks::kCases;
}

}  // namespace rtrs::conformance
