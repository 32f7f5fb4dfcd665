// Finds out by trial what a device grants.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "backends/verbs/verbs.hpp"
#include "backends/verbs/verbs_device.hpp"
#include "tools/lib/control/rdma_probe/report.hpp"

namespace rtrs::probe {
namespace {

using Grade = Line::Grade;

// The queue pairs of the verbs backend use the same values.
constexpr std::uint32_t kInline = 96, kSendParts = 2;
// The backend uses at most kMost work requests, and refuses a device that allows fewer than kLeast.
constexpr std::uint32_t kMost = 65535, kLeast = 64;

// Creates a queue pair with `depth` work requests. Returns the granted inline size; nullopt if the creation
// fails.
std::optional<std::uint32_t> granted(const Device& device, ibv_cq* queue, std::uint32_t depth,
                                     std::uint32_t inline_bytes) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = queue;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = depth;
  wanted.cap.max_recv_wr = 1;
  wanted.cap.max_send_sge = kSendParts;
  wanted.cap.max_recv_sge = 1;
  wanted.cap.max_inline_data = inline_bytes;
  const verbs::QpHandle pair(ibv_create_qp(device.domain.get(), &wanted));
  if (pair == nullptr) return std::nullopt;
  return wanted.cap.max_inline_data;
}

std::uint32_t greatest(const Device& device, ibv_cq* queue, std::uint32_t inline_bytes, const Pace& pace) {
  std::uint32_t good = 0;
  std::uint32_t bad = std::clamp<std::uint32_t>(
                          static_cast<std::uint32_t>(std::max(device.attributes.max_qp_wr, 0)), 1, kMost) +
                      1;
  // Binary search. Tries the reported limit first, because most devices allow it.
  for (std::uint32_t next = bad - 1; bad - good > 1 && !pace.stop(); next = good + (bad - good) / 2) {
    pace.progress(fmt::format("{}: a queue pair of {} work requests", device.name, next));
    (granted(device, queue, next, inline_bytes) ? good : bad) = next;
  }
  return good;
}

Line refused(const Device& device, const char* check, int error) {
  return {.device = device.name,
          .check = check,
          .grade = Grade::failed,
          .what = "cannot create a queue pair: " + errno_text(error),
          .remedy = error == ENOMEM ? "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit"
                                    : "see the log of the kernel: dmesg"};
}

}  // namespace

Lines try_depth(const Device& device, const Pace& pace) {
  Lines lines;
  const verbs::QueueHandle queue(ibv_create_cq(device.context.get(), 1, nullptr, nullptr, 0));
  if (queue == nullptr) return {refused(device, "depth", errno)};
  errno = 0;
  const std::uint32_t plain = greatest(device, queue.get(), 0, pace);
  if (plain == 0) return {refused(device, "depth", errno)};
  const std::uint32_t with = greatest(device, queue.get(), kInline, pace);
  Line depth{.device = device.name,
             .check = "depth",
             .what = fmt::format("{} work requests", plain),
             .number = plain,
             .unit = "work requests"};
  if (with != plain && with != 0) depth.what += fmt::format(", {} with {} bytes inline", with, kInline);
  if (plain < kLeast) {
    depth.grade = Grade::failed;
    depth.what += fmt::format("; urtrs needs {}", kLeast);
    depth.remedy = "use another device, or the fabric tcp";
  }
  lines.push_back(std::move(depth));
  const std::uint32_t bytes = with == 0 ? 0 : granted(device, queue.get(), kLeast, kInline).value_or(0);
  Line inlined{.device = device.name,
               .check = "inline data",
               .what = fmt::format("{} bytes requested, {} granted", kInline, bytes),
               .number = bytes,
               .unit = "bytes"};
  if (bytes < kInline) {
    inlined.grade = Grade::absent;
    inlined.remedy = "nothing to do: urtrs sends short messages from registered memory then";
  }
  lines.push_back(std::move(inlined));
  return lines;
}

Lines report_posting(const Device& device) {
  verbs::VerbsOptions options;
  options.posting = verbs::Posting::calls;
  const auto opened = verbs::Device::open(options, device.name);
  if (opened == nullptr) return {};  // the result of report_invalidation() has the reason
  Line line{.device = device.name, .check = "ibv_wr_*()"};
  if (opened->limits.send_ops != 0) {
    line.what = "its library supports it for all that is posted; --rdma-post=wr uses it";
  } else {
    line.grade = Grade::absent;
    line.what = "its library supports it only for part of what is posted";
    line.remedy = "nothing to do: work requests go by ibv_post_send()";
  }
  return {line};
}

Lines report_invalidation(const Device& device, bool windows) {
  verbs::VerbsOptions options;
  options.device = device.name;
  std::string said;
  options.log = [&said](verbs::LogLevel level, const std::string& text) {
    if (level >= verbs::LogLevel::warning) said += (said.empty() ? "" : "; ") + text;
  };
  const auto fabric = verbs::open_verbs_fabric(options);
  Line line{.device = device.name, .check = "invalidation"};
  if (!fabric) {
    line.grade = Grade::failed;
    line.what = said.empty() ? "urtrs cannot use this device" : said;
    line.remedy = "use another device, or the fabric tcp";
    return {line};
  }
  const Capabilities& can = (*fabric)->capabilities();
  const bool on = fresh_keys_protect(can);
  const char* const how = windows ? "windows of type 1" : "registrations";
  const char* const asked = "always_invalidate enables it";
  if (on)
    line.what = fmt::format("on, by {}", how);
  else if (!can.invalidation)
    line.what = "off: no memory windows work";
  else if (can.invalidation_breaks_on_packet_loss)
    line.what =
        fmt::format("off: a lost packet would end connections that bind windows; {}, then by {}", asked, how);
  else
    line.what = fmt::format("off: a write in flight can land after its key is invalidated; {}, then by {}",
                            asked, how);
  if (!said.empty()) line.what += " (" + said + ")";
  return {line};
}

}  // namespace rtrs::probe
