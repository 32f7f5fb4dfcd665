#include "tools/lib/control/rdma_probe/probe_error.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <utility>

namespace rtrs::probe {
namespace {

constexpr const char* kReport =
    "see the log of the kernel (dmesg), then report it with this output: docs/hardware.md";
constexpr const char* kMemory = "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit";

template <class Value>
Value value_of(tl::expected<Value, std::string> made) {
  const bool memory = !made && made.error().find(errno_text(ENOMEM)) != std::string::npos;
  if (!made) throw Trouble{made.error(), memory ? kMemory : ""};
  return std::move(*made);
}

}  // namespace

Line judged(Line::Part part, const std::string& device, const std::string& check,
            const std::function<std::string()>& test) {
  Line line{.part = part, .device = device, .check = check};
  try {
    line.what = test();
  } catch (const Trouble& trouble) {
    line.grade = trouble.grade;
    line.what = trouble.what;
    line.remedy = trouble.remedy.empty() ? kReport : trouble.remedy;
  }
  return line;
}

void succeed(int error, const char* what) {
  if (error != 0) throw Trouble{fmt::format("{}: {}", what, errno_text(error))};
}
void demand(bool holds, const std::string& otherwise) {
  if (!holds) throw Trouble{otherwise};
}

ibv_wc good(const Waited& completion, const char* of) {
  if (!completion) throw Trouble{fmt::format("{}: {}", of, completion.error())};
  if (completion->status != IBV_WC_SUCCESS)
    throw Trouble{fmt::format("{}: {} (vendor error {})", of, ibv_wc_status_str(completion->status),
                              completion->vendor_err)};
  return *completion;
}

Loop make_loop(const Device& device, const Pace& pace, const Shape& shape) {
  return value_of(Loop::make(device, pace, shape));
}
Buffer make_buffer(const Device& device, std::size_t bytes, int access) {
  return value_of(Buffer::make(device.domain.get(), bytes, access));
}

}  // namespace rtrs::probe
