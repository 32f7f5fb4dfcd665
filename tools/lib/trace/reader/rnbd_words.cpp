#include "tools/lib/trace/reader/rnbd_words.hpp"

#include <array>

#include "core/record/device_name.hpp"
#include "core/wire/messages.hpp"
#include "core/wire/rnbd_messages.hpp"
#include "tools/lib/trace/reader/text.hpp"

namespace rtrs::trace {

namespace {

namespace rnbd = wire::rnbd;

std::string raw_text(const char* what, wire::Refusal why, wire::Bytes bytes) {
  return std::string(what) + " (" + to_string(why) + ") " +
         hex_text({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string device_words(std::uint32_t id, const RnbdNames& names) {
  return "device " + (names.device ? names.device(id) : std::to_string(id));
}

std::string words(const rnbd::Open& open) {
  return "OPEN \"" + std::string(name_text(open.device_name.view()).view()) + "\" " +
         to_string(open.access_mode);
}

std::string words(const rnbd::Io& io, const RnbdNames& names) {
  const bool flush = io.opcode == rnbd::Opcode::flush;
  std::string text = to_string(io.opcode);
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  if (!flush || io.size != 0) text += ' ' + std::to_string(io.size) + " B";
  if (!flush || io.sector != 0) text += " at sector " + std::to_string(io.sector);
  text += " of " + device_words(io.device_id, names);
  const auto add = [&text](bool set, const char* flag) { text += set ? std::string(", ") + flag : ""; };
  add(io.sync, "sync");
  add(io.fua, "FUA");
  add(io.preflush, "preflush");
  add(io.nounmap, "nounmap");
  if (io.unknown_flags != 0) text += ", unknown flags " + std::to_string(io.unknown_flags);
  if (io.prio != 0) text += ", priority " + std::to_string(io.prio);
  return text;
}

std::string words(const rnbd::OpenRsp& open, const RnbdNames& names) {
  std::string text = "OPEN_RSP " + device_words(open.device_id, names);
  const auto add = [&text](std::uint64_t value, const char* what) {
    text += ", " + std::to_string(value) + ' ' + what;
  };
  add(open.nsectors, "sectors");
  add(open.logical_block_size, "B a block");
  add(open.physical_block_size, "B a physical block");
  add(open.max_hw_sectors, "sectors at most");
  add(open.max_segments, "segments");
  if (open.max_discard_sectors != 0) {
    add(open.max_discard_sectors, "sectors a discard");
    text += " of " + std::to_string(open.discard_granularity) + " B from " +
            std::to_string(open.discard_alignment);
  }
  if (open.max_write_zeroes_sectors != 0) add(open.max_write_zeroes_sectors, "sectors of zeroes");
  if (open.secure_discard != 0) text += ", secure erase";
  if ((open.cache_policy & rnbd::kCacheWriteback) != 0) text += ", write-back cache";
  if ((open.cache_policy & rnbd::kCacheFua) != 0) text += ", FUA";
  if (open.features != 0) text += ", features " + std::to_string(open.features);
  if (open.instance != 0)
    text += ", cache " + (names.instance ? names.instance(open.instance) : std::to_string(open.instance));
  return text;
}

}  // namespace

bool is_rnbd_request(wire::Bytes header) {
  const auto type = rnbd::message_type(header);
  if (!type) return false;
  switch (type.value) {
    case rnbd::MsgType::sess_info:
      return static_cast<bool>(rnbd::parse_sess_info(header));
    case rnbd::MsgType::open:
      return static_cast<bool>(rnbd::parse_open(header));
    case rnbd::MsgType::close:
      return static_cast<bool>(rnbd::parse_close(header));
    case rnbd::MsgType::io:
      return static_cast<bool>(rnbd::parse_io(header));
    case rnbd::MsgType::sess_info_rsp:
    case rnbd::MsgType::open_rsp:
      break;
  }
  return false;
}

std::string rnbd_request_words(wire::Bytes header, const RnbdNames& names) {
  const auto refused = [header](wire::Refusal why) { return raw_text("no message of RNBD", why, header); };
  const auto type = rnbd::message_type(header);
  if (!type) return refused(type.why);
  switch (type.value) {
    case rnbd::MsgType::sess_info: {
      const auto info = rnbd::parse_sess_info(header);
      return info ? "SESS_INFO version " + std::to_string(info.value.version) : refused(info.why);
    }
    case rnbd::MsgType::open: {
      const auto open = rnbd::parse_open(header);
      return open ? words(open.value) : refused(open.why);
    }
    case rnbd::MsgType::close: {
      const auto close = rnbd::parse_close(header);
      return close ? "CLOSE " + device_words(close.value.device_id, names) : refused(close.why);
    }
    case rnbd::MsgType::io: {
      const auto io = rnbd::parse_io(header);
      return io ? words(io.value, names) : refused(io.why);
    }
    case rnbd::MsgType::sess_info_rsp:
    case rnbd::MsgType::open_rsp:
      break;
  }
  return refused(wire::Refusal::bad_type);
}

std::string rnbd_response_words(wire::Bytes response, const RnbdNames& names) {
  if (response.empty()) return {};
  const auto refused = [response](wire::Refusal why) { return raw_text("no answer of RNBD", why, response); };
  const auto type = rnbd::message_type(response);
  if (!type) return refused(type.why);
  if (type.value == rnbd::MsgType::sess_info_rsp) {
    const auto info = rnbd::parse_sess_info_rsp(response);
    return info ? "SESS_INFO_RSP version " + std::to_string(info.value.version) : refused(info.why);
  }
  if (type.value != rnbd::MsgType::open_rsp) return refused(wire::Refusal::bad_type);
  const auto open = rnbd::parse_open_rsp(response);
  return open ? words(open.value, names) : refused(open.why);
}

std::optional<std::uint32_t> rnbd_device_of(wire::Bytes message) noexcept {
  const auto id_of = [](const auto& parsed) {
    return parsed ? std::optional<std::uint32_t>(parsed.value.device_id) : std::nullopt;
  };
  const auto type = rnbd::message_type(message);
  if (!type) return std::nullopt;
  if (type.value == rnbd::MsgType::close) return id_of(rnbd::parse_close(message));
  if (type.value == rnbd::MsgType::io) return id_of(rnbd::parse_io(message));
  if (type.value == rnbd::MsgType::open_rsp) return id_of(rnbd::parse_open_rsp(message));
  return std::nullopt;
}

// The note may begin with a part of the data in the chunk, before the user header.
wire::Bytes user_header_of(wire::Bytes head) noexcept {
  constexpr std::size_t kReadParts = 2;  // number of forms of a READ header: without and with a descriptor
  constexpr std::array<std::size_t, kReadParts + 1> kLengths = {
      wire::kWriteHeaderBytes, wire::kReadHeaderBytes, wire::kMaxIoHeaderBytes};
  for (std::size_t form = 0; form < kLengths.size(); ++form) {
    if (head.size() < kLengths[form]) continue;
    const wire::Bytes header = head.last(kLengths[form]);
    const auto wanted = static_cast<unsigned>(form == 0 ? wire::MsgType::write : wire::MsgType::read);
    if ((wire::load_le16(header, 0) & 0xffU) != wanted) continue;
    if (form != 0 && wire::load_le16(header, 6) != form - 1) continue;
    const std::size_t length = wire::load_le16(header, 2);
    const wire::Bytes before = head.first(head.size() - kLengths[form]);
    if (length != 0 && length <= before.size() && rnbd::message_type(before.last(length)))
      return before.last(length);
  }
  return {};
}

}  // namespace rtrs::trace
