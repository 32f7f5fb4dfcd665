#include "tools/lib/trace/workload/compare.hpp"

#include <array>
#include <cstring>
#include <span>

#include "tools/lib/trace/reader/rnbd_words.hpp"

namespace rtrs::workload {

namespace {

using wire::rnbd::OpenRsp;

std::string errno_words(std::uint16_t error) {
  return error == 0 ? "0" : std::to_string(error) + " (" + std::strerror(error) + ")";
}

template <class Number>
void differ(std::vector<Difference>& all, const char* name, std::size_t offset, Number recorded,
            Number told) {
  if (recorded != told)
    all.push_back({name, offset, sizeof(Number), std::to_string(recorded), std::to_string(told)});
}

void compare(std::vector<Difference>& all, const OpenRsp& recorded, const OpenRsp& told) {
  namespace at = wire::rnbd::open_rsp_at;
  differ(all, "nsectors", at::kSectors, recorded.nsectors, told.nsectors);
  differ(all, "max_hw_sectors", at::kMaxHwSectors, recorded.max_hw_sectors, told.max_hw_sectors);
  differ(all, "max_write_zeroes_sectors", at::kMaxWriteZeroes, recorded.max_write_zeroes_sectors,
         told.max_write_zeroes_sectors);
  differ(all, "max_discard_sectors", at::kMaxDiscard, recorded.max_discard_sectors, told.max_discard_sectors);
  differ(all, "discard_granularity", at::kDiscardGranularity, recorded.discard_granularity,
         told.discard_granularity);
  differ(all, "discard_alignment", at::kDiscardAlignment, recorded.discard_alignment, told.discard_alignment);
  differ(all, "physical_block_size", at::kPhysicalBlock, recorded.physical_block_size,
         told.physical_block_size);
  differ(all, "logical_block_size", at::kLogicalBlock, recorded.logical_block_size, told.logical_block_size);
  differ(all, "max_segments", at::kMaxSegments, recorded.max_segments, told.max_segments);
  differ(all, "secure_discard", at::kSecureDiscard, recorded.secure_discard, told.secure_discard);
  differ(all, "cache_policy", at::kCachePolicy, recorded.cache_policy, told.cache_policy);
}

}  // namespace

std::vector<Difference> compare(const Asked& asked, const Told& told) {
  std::vector<Difference> all;
  if (!asked.answered) return all;
  if (!told.answered) {
    all.push_back({"answer", 0, 0, errno_words(asked.peer_errno), told.failure});
  } else if (asked.peer_errno != told.peer_errno) {
    all.push_back({"errno", 0, 0, errno_words(asked.peer_errno), errno_words(told.peer_errno)});
  } else if (asked.opened && told.opened) {
    compare(all, *asked.opened, *told.opened);
  }
  return all;
}

std::string words_of(const Workload& work, const Asked& asked) {
  const std::string device = "\"" + work.devices[asked.device] + "\"";
  if (asked.kind == Asked::Kind::open) return "OPEN " + device + " " + wire::rnbd::to_string(asked.mode);
  if (asked.kind == Asked::Kind::close) return "CLOSE " + device;
  std::array<std::byte, wire::rnbd::kIoBytes> header{};
  const std::size_t length = wire::rnbd::encode(asked.io, header);
  trace::RnbdNames names;
  names.device = [&device](std::uint32_t) { return device; };
  return trace::rnbd_request_words(std::span(header).first(length), names);
}

}  // namespace rtrs::workload
