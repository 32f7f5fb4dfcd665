// O20 for a client: it resends a fence over the same connection only after fence_timeout, so that it does not
// flood a server that refuses the fence. All times are those of the node clock, which may run fast or slow.
#pragma once
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/fabric/work.hpp"
#include "core/proto/limits.hpp"
#include "core/wire/messages.hpp"
#include "sim/oracles/judge.hpp"

namespace rtrs::sim {

class FenceWatch {
 public:
  FenceWatch(Judge& judge, std::string who, Nanos timeout)
      : judge_(judge), who_(std::move(who)), timeout_(std::max(timeout, kMinFenceTimeout)) {}

  // `now`: time of the last poll. Two messages within the timeout are allowed, because the fabric may accept
  // the first one late.
  void posted(const WorkRequest& work, Nanos now) {
    if (work.op != WorkRequest::Op::send) return;
    const auto parsed = wire::parse_fence_req(work.inline_bytes);
    if (!parsed) return;
    const auto same = std::find_if(asked_.begin(), asked_.end(), [&](const Asked& one) {
      return one.over == work.key && one.path == parsed.value.path && one.recon_cnt == parsed.value.recon_cnt;
    });
    if (same == asked_.end() || now - same->since >= timeout_) {
      if (same != asked_.end()) asked_.erase(same);
      asked_.push_back({work.key, parsed.value.path, parsed.value.recon_cnt, now, 1});
    } else if (++same->times > kMost) {
      judge_.fail(Oracle::promises, now,
                  who_ + ": a fence was asked " + std::to_string(same->times) + " times over path " +
                      std::to_string(work.key.place()) + " within " + std::to_string(now - same->since) +
                      " ns, which is less than fence_timeout");
    }
  }
  void ended(ConKey key) {
    std::erase_if(asked_, [key](const Asked& one) { return one.over == key; });
  }

 private:
  static constexpr unsigned kMost = 2;
  struct Asked {
    ConKey over{};
    wire::Uuid path{};
    std::uint16_t recon_cnt = 0;
    Nanos since = 0;
    unsigned times = 0;
  };
  Judge& judge_;
  std::string who_;
  Nanos timeout_;
  std::vector<Asked> asked_;
};

}  // namespace rtrs::sim
