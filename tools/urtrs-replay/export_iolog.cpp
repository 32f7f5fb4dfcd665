#include <algorithm>
#include <limits>
#include <utility>

#include "tools/lib/trace/reader/rnbd_words.hpp"
#include "tools/lib/trace/sequence/fields.hpp"
#include "tools/urtrs-replay/export.hpp"

namespace rtrs::replay_tool {

using tools::sequence::Fields;
using wire::rnbd::Opcode;

namespace {

wire::Bytes bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// Returns the name of a device as the name of a file, because fio splits lines at blanks and names at colons.
std::string file_name(const std::string& device) {
  // fio reads at most 256 bytes of a name.
  std::string name = device.substr(0, 200);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (!plain) c = '_';
  }
  return "urtrs-" + name;
}

const char* action_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::read:
      return "read";
    case Opcode::write:
      return "write";
    case Opcode::flush:
      return "sync";
    case Opcode::discard:
    case Opcode::secure_erase:
    case Opcode::write_zeroes:
      return "trim";
  }
  return nullptr;
}

// Maximum number of requests and devices that are remembered, because a trace is not trusted.
constexpr std::size_t kMostKnown = 65536;

}  // namespace

IologExporter::IologExporter(std::FILE* out, std::string device) : Exporter(out), device_(std::move(device)) {
  put("fio version 3 iolog\n");
}

void IologExporter::begin_trace(const std::string&, const trace::Header& header, const trace::TimeBase&) {
  header_ = &header;
}

void IologExporter::line(Nanos at, const std::string& file, const std::string& rest) {
  // A time before that of an earlier line would be invalid; it can only come from a damaged clock.
  latest_ = std::max(latest_, at);
  if (!zero_) zero_ = latest_;
  put(std::to_string((latest_ - *zero_) / 1000) + ' ' + file + ' ' + rest + '\n');
}

void IologExporter::io(Nanos at, const std::string& device, const wire::rnbd::Io& io) {
  const char* const action = action_of(io.opcode);
  if (action == nullptr || (!device_.empty() && device != device_)) return;
  if (io.sector > (std::uint64_t{std::numeric_limits<std::int64_t>::max()} - io.size) / 512)
    return count("skipped");
  if (files_.size() >= kMostKnown && !files_.contains(device)) return count("skipped");
  const auto [file, added] = files_.try_emplace(device, file_name(device));
  if (added) {
    const auto same = std::count_if(files_.begin(), files_.end(),
                                    [&name = file->second](const auto& one) { return one.second == name; });
    if (same > 1) file->second += '.' + std::to_string(files_.size());
    line(at, file->second, "add");
    line(at, file->second, "open");
  }
  const std::string place = ' ' + std::to_string(io.sector * 512) + ' ' + std::to_string(io.size);
  const bool flush = io.opcode == Opcode::flush;
  if (io.preflush && !flush) line(at, file->second, "datasync 0 0");
  line(at, file->second, flush ? "sync 0 0" : action + place);
  if (io.fua && !flush && io.opcode != Opcode::read) line(at, file->second, "datasync 0 0");
  count(action);
}

void IologExporter::server(const trace::Record& record) {
  const Fields fields(record, header_->schema);
  const std::string_view event = fields.event();
  const std::pair operation(record.instance, fields.number("operation"));
  if (open_.size() >= kMostKnown || opening_.size() >= kMostKnown) return;
  if (event == "OpenExport") opening_[operation] = fields.bytes("name");
  if (event == "ExportOpened" && fields.number("error") == 0) {
    open_[{record.instance, fields.number("handle")}] = opening_[operation];
    opening_.erase(operation);
  }
  if (event == "CloseExport") open_.erase({record.instance, fields.number("handle")});
  if (event != "Storage") return;
  const std::uint64_t handle = fields.number("handle");
  const auto at = open_.find({record.instance, handle});
  wire::rnbd::Io one;
  one.sector = fields.number("sector");
  one.size = static_cast<std::uint32_t>(fields.number("bytes"));
  one.opcode = static_cast<Opcode>(fields.number("opcode"));
  one.fua = fields.flag("fua");
  one.preflush = fields.flag("preflush");
  io(record.time, at == open_.end() ? "handle-" + std::to_string(handle) : at->second, one);
}

void IologExporter::client(const trace::Record& record) {
  const Fields fields(record, header_->schema);
  const std::string_view event = fields.event();
  if (posts_.size() >= kMostKnown || unsent_.size() >= kMostKnown || open_.size() >= kMostKnown) return;
  const std::tuple post(record.instance, fields.number("key.path"), fields.number("key.con"),
                        fields.number("imm"));
  if (event == "SendMessage") {
    if (const auto open = wire::rnbd::parse_open(bytes_of(fields.bytes("header"))))
      opening_[{record.instance, fields.number("token")}] = open.value.device_name.view();
  } else if (event == "MessageDone") {
    const auto at = opening_.find({record.instance, fields.number("token")});
    const auto answer = wire::rnbd::parse_open_rsp(bytes_of(fields.bytes("response")));
    // The session of a device machine is the instance before it.
    if (at != opening_.end() && answer)
      open_[{static_cast<InstanceId>(record.instance - 1), answer.value.device_id}] = at->second;
    if (at != opening_.end()) opening_.erase(at);
  } else if (event == "Submitted") {
    unsent_[{record.instance, fields.number("permit")}] = true;
  } else if (event == "PostRequest") {
    posts_[post] = fields.number("permit");
  } else if (event == "WireSent" && posts_.contains(post)) {
    bool& unsent = unsent_[{record.instance, posts_[post]}];
    posts_.erase(post);
    const auto one = wire::rnbd::parse_io(trace::user_header_of(bytes_of(fields.bytes("head"))));
    if (!one || !std::exchange(unsent, false)) return;
    const auto device = open_.find({record.instance, one.value.device_id});
    io(record.time, device == open_.end() ? "device-" + std::to_string(one.value.device_id) : device->second,
       one.value);
  }
}

void IologExporter::add(const trace::Record& record) {
  if (header_->origin.role == "client")
    client(record);
  else
    server(record);
}

}  // namespace rtrs::replay_tool
