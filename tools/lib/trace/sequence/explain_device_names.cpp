// Finds the names of block devices: an OPEN message has the name, its answer the id that IO messages have.
#include <algorithm>

#include "core/record/device_name.hpp"
#include "core/wire/rnbd_messages.hpp"
#include "tools/lib/trace/reader/rnbd_words.hpp"
#include "tools/lib/trace/sequence/explain.hpp"

namespace rtrs::tools::sequence {

namespace {

wire::Bytes bytes_in(const Fields& record, std::string_view field) {
  return std::as_bytes(std::span(record.bytes(field)));
}

}  // namespace

void Explainer::note_device_names(const Fields& record) {
  const std::uint64_t number = record.number(record.has("token") ? "token" : "request");
  if (record.has("response")) {
    const auto name = now_->opening.find(number);
    const auto id = trace::rnbd_device_of(bytes_in(record, "response"));
    if (name == now_->opening.end()) return;
    if (id) now_->devices[*id] = name->second;
    now_->opening.erase(name);
    return;
  }
  const wire::Bytes header = bytes_in(record, "header");
  const auto type = wire::rnbd::message_type(header);
  if (!type || type.value != wire::rnbd::MsgType::open) return;
  if (const auto open = wire::rnbd::parse_open(header))
    now_->opening[number] = trace::name_text(open.value.device_name.view()).view();
}

Index Explainer::device_of(wire::Bytes message) {
  const auto id = trace::rnbd_device_of(message);
  if (!id) return kNone;
  const auto known = now_->devices.find(*id);
  const std::string name = known == now_->devices.end() ? "device " + std::to_string(*id) : known->second;
  auto& all = story_.devices;
  const auto found = std::find(all.begin(), all.end(), name);
  // A hostile trace may name any number of devices.
  constexpr std::size_t kMost = 256;
  if (found == all.end() && all.size() == kMost) return kNone;
  const auto at = static_cast<Index>(found - all.begin());
  if (found == all.end()) all.push_back(name);
  return at;
}

}  // namespace rtrs::tools::sequence
