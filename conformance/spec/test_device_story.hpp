// Handwritten correct sequences of events of block devices (stories), and changes that break a rule.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "conformance/spec/checker.hpp"
#include "conformance/spec/device_numbers.hpp"

namespace rtrs::spec {

inline constexpr std::uint32_t kId = 0x700, kSecondId = 0x800, kLaterId = 0x701;
inline constexpr std::uint64_t kHandle = 11, kSecondHandle = 12;

inline std::string little_endian(std::uint64_t value, unsigned width) {
  std::string out;
  for (unsigned i = 0; i < width; ++i) out += static_cast<char>(value >> 8 * i & 0xff);
  return out;
}

inline std::string sess_info(std::uint16_t type = kSessInfo) {
  std::string out = little_endian(type, 4) + '\x02';
  out.resize(kSessInfoBytes);
  return out;
}
inline std::string open_message(const std::string& name, AccessMode mode = AccessMode::read_write) {
  std::string out = little_endian(kOpen, 4) + static_cast<char>(mode) + '\0' + name;
  out.resize(kOpenBytes);
  return out;
}
inline std::string close_message(std::uint32_t id) {
  return little_endian(kClose, 4) + little_endian(id, 4);
}
struct Parts {
  Opcode opcode = Opcode::read;
  std::uint64_t sector = 8;
  std::uint32_t size = 512;
  std::uint32_t flags = 0;
  std::uint32_t id = kId;
};
inline std::string io_message(const Parts& io) {
  std::string out = little_endian(kIo, 4) + little_endian(io.id, 4) + little_endian(io.sector, 8) +
                    little_endian(static_cast<std::uint32_t>(io.opcode) | io.flags, 4) +
                    little_endian(io.size, 4) + little_endian(3, 2);
  out.resize(kIoBytes);
  return out;
}

inline Geometry geometry(std::uint64_t sectors = 100) {
  Geometry out;
  out.nsectors = sectors;
  out.logical_block_size = out.physical_block_size = 512;
  out.max_hw_sectors = 256;
  out.max_segments = 128;
  out.max_write_zeroes_sectors = 64;
  out.write_cache = out.fua = true;
  return out;
}
inline std::string open_rsp(std::uint32_t id, std::uint64_t instance = 5, const Geometry& of = geometry()) {
  return little_endian(kOpenRsp, 4) + little_endian(id, 4) + little_endian(of.nsectors, 8) +
         little_endian(of.max_hw_sectors, 4) + little_endian(of.max_write_zeroes_sectors, 4) +
         little_endian(of.max_discard_sectors, 4) + little_endian(of.discard_granularity, 4) +
         little_endian(of.discard_alignment, 4) + little_endian(of.physical_block_size, 2) +
         little_endian(of.logical_block_size, 2) + little_endian(of.max_segments, 2) + little_endian(0, 3) +
         static_cast<char>((of.fua ? 1 : 0) | (of.write_cache ? 2 : 0)) + static_cast<char>(of.features) +
         '\0' + little_endian(instance, 8);
}

class DeviceStory {
 public:
  using Change = std::function<void(DeviceEvent&)>;

  DeviceEvent& add(DeviceKind kind, const Change& change = {}) {
    DeviceEvent event;
    event.kind = kind;
    event.now = events_.size() * 1000;
    if (change) change(event);
    events_.push_back(event);
    return events_.back();
  }
  // Returns a view that lives as long as all copies of the story.
  std::string_view keep(std::string text) {
    static std::list<std::string> kept;
    return kept.emplace_back(std::move(text));
  }
  std::size_t where(DeviceKind kind, int nth = 0) const {
    for (std::size_t at = 0; at < events_.size(); ++at)
      if (events_[at].kind == kind && nth-- == 0) return at;
    throw std::out_of_range("no such event in the story");
  }
  DeviceEvent& at(DeviceKind kind, int nth = 0) { return events_[where(kind, nth)]; }
  void drop(DeviceKind kind, int nth = 0) {
    events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(where(kind, nth)));
  }
  void repeat(DeviceKind kind, int nth = 0) {
    const std::size_t at = where(kind, nth);
    events_.insert(events_.begin() + static_cast<std::ptrdiff_t>(at) + 1, DeviceEvent(events_[at]));
  }
  void insert_before(DeviceKind kind, int nth, DeviceKind what, const Change& change) {
    DeviceEvent event;
    event.kind = what;
    change(event);
    events_.insert(events_.begin() + static_cast<std::ptrdiff_t>(where(kind, nth)), event);
  }
  std::vector<DeviceEvent>& events() { return events_; }

  Findings check() const {
    Checker checker(true);
    for (std::size_t at = 0; at < events_.size(); ++at) {
      DeviceEvent event = events_[at];
      event.seq = at;
      checker.on(7, event);
    }
    checker.finish();
    return checker.findings();
  }

 private:
  std::vector<DeviceEvent> events_;
};

struct DeviceSpoiled {
  Rule rule;
  const char* how;
  std::function<void(DeviceStory&)> spoil;
};

// Changes the nth event of a kind.
inline std::function<void(DeviceStory&)> edit(DeviceKind kind, int nth, const DeviceStory::Change& change) {
  return [=](DeviceStory& story) { change(story.at(kind, nth)); };
}
inline DeviceStory::Change result(std::uint16_t error) {
  return [=](DeviceEvent& e) { e.peer_errno = error; };
}

// A device of a server is opened, used and closed; a sync fails; it is opened again, and the session ends.
DeviceStory server_device_story();
const std::vector<DeviceSpoiled>& server_request_cases();
const std::vector<DeviceSpoiled>& server_device_cases();
// Two devices of a server at the limits of what is legal.
DeviceStory server_edges_story();
const std::vector<DeviceSpoiled>& server_edges_cases();
// A device is mapped and written; its server restarts and loses its cache; the device reports the loss and is
// unmapped.
DeviceStory client_device_story();
const std::vector<DeviceSpoiled>& client_message_cases();
const std::vector<DeviceSpoiled>& client_device_cases();
// Two devices of a client at the limits of what is legal.
DeviceStory client_edges_story();
const std::vector<DeviceSpoiled>& client_edges_cases();

}  // namespace rtrs::spec
