#include "core/proto/server_registry.hpp"

#include <algorithm>

#include "core/base/assert.hpp"
#include "core/proto/fingerprint.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs {

ServerRegistry::ServerRegistry(const ServerConfig& config) noexcept
    : max_sessions_(static_cast<std::uint16_t>(std::min<unsigned>(config.max_sessions, kMaxSessions))) {}

void ServerRegistry::on(const SessionSought& in, ActionList& out) noexcept {
  std::size_t unused = entries_.size();
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (!entries_[i].live) {
      unused = std::min(unused, i);
    } else if (entries_[i].uuid == in.paths_uuid) {
      out.push(AdmitSession{in.request, static_cast<std::uint16_t>(i), false});
      return;
    }
  }
  if (!in.first_conn) {
    out.push(Reject{in.request, Reason::unknown_session, wire::linux_errno::kEnxio});
    return;
  }
  if (live_ >= max_sessions_) {
    out.push(Reject{in.request, Reason::too_many_sessions, wire::linux_errno::kEnomem});
    return;
  }
  Entry entry;
  entry.uuid = in.paths_uuid;
  entry.live = true;
  if (unused == entries_.size()) {
    entries_.push_back(entry);
  } else {
    entries_[unused] = entry;
  }
  ++live_;
  out.push(AdmitSession{in.request, static_cast<std::uint16_t>(unused), true});
}

void ServerRegistry::on(const NameClaimed& in, ActionList& out) noexcept {
  Entry& claimant = entries_[in.session];
  RTRS_ASSERT(claimant.live);
  const auto owns = [&in](const Entry& entry) {
    return entry.live && entry.named && entry.digest_low == in.digest_low &&
           entry.digest_high == in.digest_high;
  };
  const bool granted = claimant.named ? owns(claimant) : std::none_of(entries_.begin(), entries_.end(), owns);
  if (granted) {
    claimant.named = true;
    claimant.digest_low = in.digest_low;
    claimant.digest_high = in.digest_high;
  }
  out.push(AnswerName{in.session, static_cast<std::uint16_t>(granted ? 0 : wire::linux_errno::kEperm)});
}

void ServerRegistry::on(const SessionDropped& in, ActionList&) noexcept {
  RTRS_ASSERT(entries_[in.session].live);
  entries_[in.session] = Entry{};
  --live_;
  // Equal sets of sessions are equal values, whatever came before.
  std::size_t used = entries_.size();
  while (used > 0 && !entries_[used - 1].live) --used;
  entries_.resize(used);
}

std::uint64_t ServerRegistry::fingerprint() const noexcept {
  Fingerprint hash;
  hash.add(entries_);
  hash.add(live_);
  return hash.value();
}

}  // namespace rtrs
