#include "conformance/cases/rnbd_talk.hpp"

#include "conformance/cases/verdict.hpp"

namespace rtrs::conformance {

using namespace wire::rnbd;

namespace {
template <class T>
Message bytes_of(const T& message, std::size_t size) {
  Message bytes(size);
  if (encode(message, bytes) == 0) fail("the tester cannot encode this RNBD message");
  return bytes;
}
}  // namespace

Ask sess_info_ask(std::uint8_t version) {
  Ask ask;
  ask.user = bytes_of(SessInfo{version}, kSessInfoBytes);
  ask.room = kSessInfoRspBytes;
  return ask;
}

Ask open_ask(const std::string& name, AccessMode mode) {
  Ask ask;
  ask.user = bytes_of(Open{mode, wire::make_name(name).value}, kOpenBytes);
  ask.room = kOpenRspBytes;
  return ask;
}

Ask close_ask(std::uint32_t device) {
  Ask ask;
  ask.direction = Direction::write;
  ask.user = bytes_of(Close{device}, kCloseBytes);
  return ask;
}

Ask io_ask(const Io& io, Message data) {
  const Framing framing = io_framing(io);
  Ask ask;
  ask.direction = framing.direction;
  ask.cid = 1;
  ask.user = bytes_of(io, kIoBytes);
  if (framing.direction == Direction::read) ask.room = framing.data_len;
  ask.data = std::move(data);
  return ask;
}

std::uint8_t exchange_versions(Path& path, std::uint8_t version) {
  const Answer answer = path.ask(sess_info_ask(version));
  require(answer.error == 0, "SESS_INFO was answered with errno {}", answer.error);
  // A separate case checks the type of this response.
  return wire::load_u8(answer.data, 4);
}

Io Device::io(Opcode opcode, std::uint32_t bytes) const {
  Io made;
  made.device_id = about.device_id;
  made.opcode = opcode;
  made.size = bytes;
  return with_kernel_flags(made);
}

OpenRsp parse_opened(const Answer& answer) {
  require(answer.error == 0, "OPEN was answered with errno {}", answer.error);
  const auto parsed = parse_open_rsp(answer.data);
  require(static_cast<bool>(parsed), "OPEN_RSP is malformed: {}", to_string(parsed.why));
  return parsed.value;
}

Device open_on(Path& path, const std::string& name, AccessMode mode) {
  return Device{&path, parse_opened(path.ask(open_ask(name, mode)))};
}

Device open_when_free(ServerTester& tester, Path& path, AccessMode mode) {
  constexpr int kEperm = 1;
  const Ask ask = open_ask(tester.setup().device, mode);
  const Nanos until = tester.now() + tester.deadlines().retire;
  Answer answer = path.ask(ask);
  while (answer.error == kEperm) {
    require(tester.now() < until, "the device is still taken after {} s: errno {}",
            tester.deadlines().retire / seconds(1), answer.error);
    tester.endpoint().wait([] { return false; }, tester.deadlines().retire / 50);
    answer = path.ask(ask);
  }
  return Device{&path, parse_opened(answer)};
}

Device open_device(ServerTester& tester, AccessMode mode) {
  const std::string& name = tester.setup().device;
  if (name.empty()) not_run("it needs a device of the server: --device NAME");
  Path& path = tester.opened();
  exchange_versions(path);
  if (mode == AccessMode::read_only) return open_on(path, name, mode);
  return open_when_free(tester, path, mode);  // the server may still be closing the previous case's session
}

Device open_scratch_device(ServerTester& tester) {
  if (!tester.setup().scratch) not_run("it writes to the device: --scratch allows that");
  return open_device(tester, AccessMode::read_write);
}

void expect_refused(Path& path, const Ask& ask, const char* what) {
  path.send(ask);
  Answer answer;
  switch (path.fate(ask.chunk, &answer)) {
    case Path::Fate::answered:
      require(answer.error != 0, "{} was carried out", what);
      return;
    case Path::Fate::cut_off:
      return path.expect_cut_off("a path is closed as a whole");
    case Path::Fate::neither:
      fail("{} was neither answered nor was the path closed within {} s: a client would hang", what,
           path.deadlines().refusal / seconds(1));
  }
}

void expect_errno(Path& path, const Ask& ask, int error, const char* what) {
  const Answer answer = path.ask(ask);
  require(answer.error == error, "{} was answered with errno {} instead of {}", what, answer.error, error);
}

}  // namespace rtrs::conformance
