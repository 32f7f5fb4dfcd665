// Tests which writes the keys of memory windows allow.
#include <fmt/format.h>

#include <cerrno>

#include "tools/lib/control/rdma_probe/probe_error.hpp"
#include "tools/lib/control/rdma_probe/self_test.hpp"

namespace rtrs::probe {
namespace {

constexpr int kBindable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
// Soft-RoCE returns the flag value of its kernel driver instead of IBV_WC_WITH_INV.
constexpr unsigned kSoftRoceWithInvalidate = 1U << 2U;

constexpr const char* kType1 = "window of type 1";
constexpr const char* kType2 = "window of type 2";
constexpr const char* kInvalidate = "message with invalidation";

// Members are ordered so that the window is destroyed before the queue pair that it is bound to.
struct WindowRig {
  WindowRig(const Device& device, const Pace& pace)
      : loop(make_loop(device, pace)),
        other(make_loop(device, pace)),
        from(make_buffer(device, kTestBytes, 0)),
        into(make_buffer(device, kTestBytes, kBindable)) {
    from.fill(kData);
    into.fill(kBefore);
  }
  Loop loop, other;
  Buffer from, into;
  verbs::WindowHandle window{};

  void allocate(const Device& device, ibv_mw_type type, unsigned flag) {
    constexpr const char* kWithout = "nothing to do: docs/hardware.md says what works without them";
    if ((device.attributes.device_cap_flags & flag) == 0)
      throw Trouble{"the driver has none", kWithout, Line::Grade::absent};
    errno = 0;
    window.reset(ibv_alloc_mw(device.domain.get(), type));
    if (window == nullptr)
      throw Trouble{fmt::format("the driver says that it has them, and gives none: {}", errno_text(errno)),
                    kWithout, Line::Grade::absent};
  }
  void bind(bool open) {
    succeed(loop.bind(window.get(), into, open), open ? "posting a binding" : "posting the end of a binding");
    good(loop.wait_far(), open ? "the binding" : "the end of the binding");
  }
  void written(Loop& over) {
    succeed(over.write(from, kTestBytes, into.address(), window->rkey), "posting a write");
    good(over.wait_near(), "the write under the key of the window");
    demand(into.holds(kData), "the write under the key of the window completed, but its data did not arrive");
    into.fill(kBefore);
  }
  // Checks that a write under `key` fails. The failure also breaks the connection. Returns the status of the
  // completion.
  std::string refused(Loop& over, std::uint32_t key, const char* whose) {
    succeed(over.write(from, kTestBytes, into.address(), key), "posting a write");
    const Waited answer = over.wait_near();
    demand(answer.has_value(), fmt::format("a write under {} is not answered: {}", whose,
                                           answer ? std::string() : answer.error()));
    demand(answer->status != IBV_WC_SUCCESS, fmt::format("a write under {} is taken", whose));
    demand(into.holds(kBefore), fmt::format("a write under {} fails, and changes memory", whose));
    return ibv_wc_status_str(answer->status);
  }
};

std::string type_1(const Device& device, const Pace& pace) {
  WindowRig rig(device, pace);
  rig.allocate(device, IBV_MW_TYPE_1, IBV_DEVICE_MEM_WINDOW);
  rig.bind(true);
  rig.written(rig.loop);
  rig.written(rig.other);
  const std::uint32_t stale = rig.window->rkey;
  rig.bind(false);
  const std::string how = rig.refused(rig.other, stale, "the key of an unbound window");
  // The refused request has not broken the queue pair that bound the window.
  rig.bind(true);
  rig.written(rig.loop);
  return fmt::format("good on two queue pairs, its stale key refused on the second ({})", how);
}

std::string type_2(const Device& device, const Pace& pace) {
  WindowRig rig(device, pace);
  rig.allocate(device, IBV_MW_TYPE_2, IBV_DEVICE_MEM_WINDOW_TYPE_2B);
  rig.bind(true);
  rig.written(rig.loop);
  const std::string how = rig.refused(rig.other, rig.window->rkey, "a key of another queue pair");
  rig.written(rig.loop);
  return fmt::format("good on its queue pair, refused on a second ({})", how);
}

std::string invalidation(const Device& device, const Pace& pace) {
  WindowRig rig(device, pace);
  rig.allocate(device, IBV_MW_TYPE_2, IBV_DEVICE_MEM_WINDOW_TYPE_2B);
  rig.bind(true);
  rig.written(rig.loop);
  const std::uint32_t key = rig.window->rkey;
  succeed(rig.loop.receive(nullptr, 0), "posting a receive without memory");
  succeed(rig.loop.send_with_invalidate(key), "posting the message");
  const ibv_wc completion = good(rig.loop.wait_far(), "the receive");
  const unsigned flags = IBV_WC_WITH_INV | (device.soft_roce() ? kSoftRoceWithInvalidate : 0U);
  demand((completion.wc_flags & flags) != 0, "the receiver is not told of an invalidation");
  demand(
      completion.invalidated_rkey == key,
      fmt::format("the receiver is told of the key {:#x}, not of {:#x}", completion.invalidated_rkey, key));
  good(rig.loop.wait_near(), "the message");
  const std::string how = rig.refused(rig.loop, key, "an invalidated key");
  return fmt::format("the receiver is told of the key, which is refused then ({})", how);
}

}  // namespace

Lines test_windows(const Device& device, const Pace& pace) {
  const auto line = [&](const char* check, auto test) {
    return judged(Line::Part::test, device.name, check, [&] { return test(device, pace); });
  };
  return {line(kType1, type_1), line(kType2, type_2), line(kInvalidate, invalidation)};
}

bool windows_work(const Lines& lines) {
  for (const Line& line : lines)
    if (line.check == kType1) return line.grade == Line::Grade::ok;
  return false;
}

}  // namespace rtrs::probe
