// Checks the RNBD messages in the requests of a session. A session counts as RNBD if a SESS_INFO or OPEN was
// sent on its service connection; sessions of other RTRS users are not checked.
#include <algorithm>

#include "conformance/spec/bytes.hpp"
#include "conformance/spec/device_numbers.hpp"
#include "conformance/spec/wire.hpp"

namespace rtrs::spec {

namespace {

constexpr std::uint8_t kReadOp = 0, kWriteOp = 1, kFlushOp = 2, kDiscardOp = 3, kEraseOp = 4, kLastOp = 5,
                       kLastAccessMode = 2;

bool opens(std::string_view user) noexcept {
  return user.size() == kOpenBytes && u16_at(user, 0) == kOpen &&
         static_cast<std::uint8_t>(user[4]) <= kLastAccessMode && user[6] != '\0' &&
         user.substr(6, kNameField).find('\0') != std::string_view::npos;
}

bool introduces(std::string_view user) noexcept {
  return user.size() == kSessInfoBytes && u16_at(user, 0) == kSessInfo && user[4] != '\0';
}

bool within_device(std::string_view user) noexcept {
  const std::uint64_t sector = number_at(user, 8, 8);
  const std::uint64_t count = (std::uint64_t{u32_at(user, 20)} + kSectorBytes - 1) / kSectorBytes;
  return sector < kMostSectors && count <= kMostSectors - sector;
}

}  // namespace

// True if the user header is a well-formed RNBD message.
bool WireSpec::well_formed(const Request& request, std::string_view user, std::uint32_t data_len) const {
  const bool service = event_->key.con == 0;
  switch (u16_at(user, 0)) {
    case kSessInfo:
      return service && request.reads && introduces(user);
    case kOpen:
      return service && request.reads && opens(user);
    case kClose:
      return service && !request.reads && user.size() == kCloseBytes;
    case kIo: {
      if (service || user.size() < kIoMinBytes) return false;
      const auto op = static_cast<std::uint8_t>(user[16]);
      const bool moves = op == kReadOp || op == kWriteOp;
      const bool removes = op == kDiscardOp || op == kEraseOp;
      return op <= kLastOp && request.reads == (op == kReadOp || op == kFlushOp) && within_device(user) &&
             (moves     ? u32_at(user, 20) == data_len
              : removes ? data_len == 0 || u32_at(user, 20) == data_len
                        : data_len == 0);
    }
    default:
      return false;
  }
}

void WireSpec::rnbd_request(const Path& path, const Request& request, std::uint32_t off, Slot& slot) {
  const std::string_view head = event_->bytes;
  if (!of_->client || head.size() < request.usr_len + request.header) return;
  const std::string_view user = head.substr(head.size() - request.header - request.usr_len, request.usr_len);
  Rnbd& rnbd = session_of(path).rnbd;
  if (event_->key.con == 0 && request.reads && introduces(user)) rnbd.known = rnbd.introduced = true;
  if (event_->key.con == 0 && request.reads && opens(user)) rnbd.known = true;
  if (!rnbd.known) return;
  const bool fine = user.size() >= 4 && well_formed(request, user, off - request.usr_len);
  const RuleContext at = context();
  at.check(
      fine, Rule::rnbd_form,
      [&] {
        return "a " + std::string(request.reads ? "READ" : "WRITE") + " over cid " +
               std::to_string(event_->key.con) + " with a user header of " + std::to_string(user.size()) +
               " bytes" + (user.size() < 2 ? "" : ", type " + std::to_string(u16_at(user, 0)));
      },
      [] { return std::string("SESS_INFO, OPEN or CLOSE over cid 0, IO over the others"); });
  if (!fine) return;
  slot.rnbd = u16_at(user, 0);
  if (slot.rnbd == kIo || slot.rnbd == kClose) slot.device = u32_at(user, 4);
  rnbd_order(path, rnbd, slot);
}

// Not checked if the capture starts after SESS_INFO, because earlier OPENs are unknown.
void WireSpec::rnbd_order(const Path& path, Rnbd& rnbd, const Slot& slot) {
  if (path.open || session_of(path).open || !(of_->machine || rnbd.introduced)) return;
  const RuleContext at = context();
  if (slot.rnbd == kOpen)
    at.check(rnbd.agreed, Rule::rnbd_order, "OPEN before SESS_INFO was answered",
             "SESS_INFO, and its answer");
  if (slot.rnbd != kIo && slot.rnbd != kClose) return;
  const bool named = std::find(rnbd.devices.begin(), rnbd.devices.end(), slot.device) != rnbd.devices.end();
  if (!named) {
    rnbd.devices.push_back(slot.device);
    at.check(
        rnbd.devices.size() <= rnbd.opened, Rule::rnbd_order,
        [&] {
          return "device " + std::to_string(slot.device) +
                 "; devices named: " + std::to_string(rnbd.devices.size());
        },
        [&] { return "as many as OPENs were answered: " + std::to_string(rnbd.opened); });
  }
  const bool closed = std::find(rnbd.closed.begin(), rnbd.closed.end(), slot.device) != rnbd.closed.end();
  at.check(
      !closed || slot.rnbd == kClose, Rule::rnbd_order,
      [&] { return "IO on device " + std::to_string(slot.device) + ", which was closed"; },
      [] { return std::string("OPEN first"); });
}

void WireSpec::rnbd_response(const Path& path, const Slot& slot, std::uint16_t error) {
  Rnbd& rnbd = session_of(path).rnbd;
  if (error != 0) return;
  if (slot.rnbd == kSessInfo) rnbd.agreed = true;
  if (slot.rnbd == kClose) rnbd.closed.push_back(slot.device);
  if (slot.rnbd == kOpen) {
    ++rnbd.opened;
    // The new device may have got a reused id.
    rnbd.closed.clear();
  }
}

}  // namespace rtrs::spec
