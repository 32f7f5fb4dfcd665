#include "sim/oracles/crowd_watch.hpp"

#include <algorithm>

#include "core/proto/limits.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs::sim {

CrowdWatch::CrowdWatch(Judge& judge, const ServerConfig& config)
    : judge_(judge),
      max_sessions_(config.max_sessions),
      max_host_sessions_(config.max_host_sessions == 0 ? config.max_sessions : config.max_host_sessions),
      max_half_open_(config.max_half_open == 0 ? (config.max_sessions + 1U) / 2 : config.max_half_open) {}

void CrowdWatch::asked(std::uint32_t request, std::uint32_t host, wire::Bytes data) {
  const auto parsed = wire::parse_conn_req(data);
  if (parsed) asked_.push_back({request, host, parsed.value.paths_uuid});
}

CrowdWatch::Asked CrowdWatch::take(std::uint32_t request) {
  const auto at =
      std::find_if(asked_.begin(), asked_.end(), [&](const Asked& one) { return one.request == request; });
  if (at == asked_.end()) return {};
  const Asked found = *at;
  asked_.erase(at);
  return found;
}

CrowdWatch::Session* CrowdWatch::find(ConKey key) noexcept {
  const auto at = std::find_if(sessions_.begin(), sessions_.end(),
                               [&](const Session& one) { return one.index == key.session; });
  return at == sessions_.end() ? nullptr : &*at;
}

CrowdWatch::Session* CrowdWatch::find(const wire::Uuid& uuid) noexcept {
  const auto at =
      std::find_if(sessions_.begin(), sessions_.end(), [&](const Session& one) { return one.uuid == uuid; });
  return at == sessions_.end() ? nullptr : &*at;
}

unsigned CrowdWatch::half_open_of(std::uint32_t host) const noexcept {
  return static_cast<unsigned>(std::count_if(sessions_.begin(), sessions_.end(), [&](const Session& one) {
    return one.host == host && one.half_open;
  }));
}

void CrowdWatch::check_evicted_session(Nanos now) {
  if (evicted_session_ == kNobody) return;
  for (const Session& one : sessions_)
    if (one.half_open && one.host == evicted_host_ && one.number < evicted_session_)
      judge_.fail(Oracle::crowds, now,
                  "half-open session " + std::to_string(evicted_session_) + " of address " +
                      std::to_string(one.host) + " was evicted before the older " +
                      std::to_string(one.number));
  evicted_session_ = kNobody;
}

void CrowdWatch::accepted(std::uint32_t request, ConKey key, Nanos now) {
  const Asked asked = take(request);
  answered_ = kNobody;
  if (asked.host == 0) return;
  if (Session* known = find(key)) {
    ++known->connections;
    return;
  }
  check_evicted_session(now);
  // A session may outlive its last connection while storage executes its requests. A path that joins such a
  // session does not create a half-open session.
  const bool is_new = std::find(former_.begin(), former_.end(), asked.uuid) == former_.end();
  sessions_.push_back({opened_++, key.session, asked.host, asked.uuid, 1, is_new});
  const auto of_host = static_cast<unsigned>(std::count_if(
      sessions_.begin(), sessions_.end(), [&](const Session& one) { return one.host == asked.host; }));
  const auto refuse = [&](unsigned count, const char* what, unsigned limit) {
    judge_.fail(Oracle::crowds, now,
                std::to_string(count) + what + "of address " + std::to_string(asked.host) +
                    ", and the limit is " + std::to_string(limit));
  };
  if (of_host > max_host_sessions_) refuse(of_host, " sessions ", max_host_sessions_);
  if (half_open_of(asked.host) > max_half_open_)
    refuse(half_open_of(asked.host), " half-open sessions ", max_half_open_);
}

void CrowdWatch::rejected(std::uint32_t request, wire::Bytes data, Nanos now) {
  const Asked asked = take(request);
  answered_ = kNobody;
  if (asked.host == 0) return;
  if (const Session* known = find(asked.uuid)) {
    answered_ = known->number;
    return;
  }
  check_evicted_session(now);
  const auto answer = wire::parse_conn_rsp(data);
  const bool no_room = answer && answer.value.error == -wire::linux_errno::kEnomem;
  const bool may_give_way =
      std::any_of(sessions_.begin(), sessions_.end(), [](const Session& one) { return one.half_open; });
  if (no_room && may_give_way && sessions_.size() >= max_sessions_)
    judge_.fail(Oracle::crowds, now,
                "address " + std::to_string(asked.host) +
                    " is refused for lack of sessions although a half-open one could be evicted");
}

void CrowdWatch::named(ConKey key) {
  if (Session* session = find(key)) session->half_open = false;
}

void CrowdWatch::lost(ConKey key) {
  named(key);
}

void CrowdWatch::ended(ConKey key) {
  Session* session = find(key);
  if (session == nullptr || !session->half_open) return;
  session->half_open = false;
  // A newer attempt of the same path replaced the older one; this is no eviction.
  if (session->number == answered_) return;
  evicted_session_ = session->number;
  evicted_host_ = session->host;
}

void CrowdWatch::closed(ConKey key) {
  Session* session = find(key);
  if (session == nullptr || --session->connections != 0) return;
  if (!session->half_open) former_.push_back(session->uuid);
  sessions_.erase(sessions_.begin() + (session - sessions_.data()));
}

}  // namespace rtrs::sim
