#include "core/rnbd/device_reasons.hpp"

#include <array>

#include "core/wire/linux_errno.hpp"

namespace rtrs::rnbd {

namespace {

using namespace wire::linux_errno;

struct Row {
  DeviceReason reason;
  DeviceReasonText text;
};

constexpr std::array<Row, kDeviceReasonCount> kTable{{
    {DeviceReason::none, {"none", "no reason", "", 0, false}},
    {DeviceReason::absent,
     {"device_absent", "the server has no device with this name",
      "wait if the server is still mounting the device's file system; otherwise check the exports and "
      "dev_search_path of the server",
      kEnoent, true}},
    {DeviceReason::gone,
     {"device_gone", "the device's hardware is missing",
      "check the server's kernel log; the disk may have been removed", kEnodev, true}},
    {DeviceReason::forbidden,
     {"device_forbidden", "the server has no permission to open the device in this mode",
      "check permissions and write protection of the file or disk, and the allow lists of the export; see "
      "the server's log",
      kEacces, true}},
    {DeviceReason::busy,
     {"device_busy", "the device is in use at the server",
      "stop the program or unmount the file system that uses the device; the server's log names it", kEbusy,
      true}},
    {DeviceReason::failed,
     {"device_failed", "the server cannot open the device now",
      "check the server's log: its storage failed, or it is out of memory", kEio, true}},
    {DeviceReason::read_only,
     {"device_read_only", "the server exports the device read-only",
      "export the device for writing again, or map it read-only", kErofs, false}},
    {DeviceReason::not_allowed,
     {"device_not_allowed", "the server does not allow this client to open the device",
      "end the client that writes to the device, or map the device read-only; the server's log names the "
      "session of that client",
      kEperm, false}},
    {DeviceReason::closed_by_operator,
     {"device_closed", "the server repeatedly closes the device after it opens",
      "ask the server's operator; the client retries within 15 s", kEnotconn, false}},
    {DeviceReason::refused,
     {"device_refused", "the server refuses to open the device", "see the server's log for the reason",
      kEinval, false}},
    {DeviceReason::block_size_changed,
     {"device_block_size", "the logical block size changed",
      "requests that are not whole blocks fail with EINVAL: remap the device, or export the previous device "
      "again",
      kEinval, false}},
    {DeviceReason::shrunk,
     {"device_shrunk", "the device is smaller than before",
      "requests beyond the end fail with EIO: enlarge the device at the server, or check that it is the "
      "right one",
      kEio, false}},
    {DeviceReason::grown,
     {"device_grown", "the device is larger than before", "enlarge the file system or partition to use it", 0,
      false}},
}};

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i)
    if (static_cast<std::size_t>(kTable[i].reason) != i) return false;
  return true;
}
static_assert(is_in_order(), "a row for each reason, in the order of the enumeration");

}  // namespace

const DeviceReasonText& text_of(DeviceReason reason) noexcept {
  const auto index = static_cast<std::size_t>(reason);
  return kTable[index < kTable.size() ? index : static_cast<std::size_t>(DeviceReason::refused)].text;
}

DeviceReason reason_of_refusal(std::uint16_t peer_errno) noexcept {
  switch (peer_errno) {
    case 0:
      return DeviceReason::none;
    case kEnoent:
      return DeviceReason::absent;
    case kEnodev:
    case kEnxio:
      return DeviceReason::gone;
    case kEacces:
      return DeviceReason::forbidden;
    case kEbusy:
    case kEagain:
      return DeviceReason::busy;
    case kEio:
    case kEnomem:
    case kEtimedout:
      return DeviceReason::failed;
    case kErofs:
      return DeviceReason::read_only;
    case kEperm:
      return DeviceReason::not_allowed;
    case kEnotconn:
      return DeviceReason::closed_by_operator;
    default:
      return DeviceReason::refused;
  }
}

DeviceReason reason_of_change(const Geometry& before, const Geometry& now) noexcept {
  if (before.nsectors == 0) return DeviceReason::none;
  if (before.logical_block_size != now.logical_block_size) return DeviceReason::block_size_changed;
  if (now.nsectors < before.nsectors) return DeviceReason::shrunk;
  return now.nsectors > before.nsectors ? DeviceReason::grown : DeviceReason::none;
}

}  // namespace rtrs::rnbd
