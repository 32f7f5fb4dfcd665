// ServerRegistry together with a simple reference model of existing sessions and owners of names.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "core/proto/server_registry.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs {

class CheckedRegistry {
 public:
  explicit CheckedRegistry(std::uint16_t max_sessions)
      : max_sessions_(max_sessions),
        registry_([&] {
          ServerConfig config;
          config.max_sessions = max_sessions;
          config.max_half_open = kIdentities;
          return config;
        }()),
        empty_(registry_) {}

  // Executes one command. `what` selects the kind, `who` the identity, `name` the name; all values are valid.
  // Returns null, or the rule that the registry broke.
  const char* execute_command(unsigned what, unsigned who, unsigned name) {
    const ServerRegistry before = registry_;
    const char* broken = what % 4 < 2    ? seek(who % kIdentities, what % 4 == 0)
                         : what % 4 == 2 ? claim(who, name % kNames)
                                         : drop(who);
    if (broken != nullptr) return broken;
    if (registry_.session_count() != sessions_.size()) return "it counts its sessions";
    if ((before == registry_) != (before.fingerprint() == registry_.fingerprint()))
      return "equal registries have equal fingerprints, others have others";
    return sessions_.empty() && !(registry_ == empty_) ? "of dropped sessions nothing is left" : nullptr;
  }
  std::size_t sessions() const noexcept { return sessions_.size(); }
  std::size_t names() const noexcept { return owners_.size(); }

 private:
  static constexpr unsigned kIdentities = 12, kNames = 5, kHosts = 3;
  struct Session {
    unsigned who = 0;
    std::optional<unsigned> name;
    bool leaving = false;  // the session was evicted by CrowdOut
  };

  template <class Input>
  std::optional<RegistryAction> ask(const Input& input) {
    RegistryActions out;
    registry_.on(input, out);
    evicted_.clear();
    for (const RegistryAction& action : out) {
      const auto* crowded = std::get_if<CrowdOut>(&action);
      if (crowded != nullptr) evicted_.push_back(crowded->session);
    }
    if (out.size() != evicted_.size() + 1) return {};
    return *(out.end() - 1);
  }
  template <class Answer>
  static const Answer* as_answer(const std::optional<RegistryAction>& action) {
    return action ? std::get_if<Answer>(&*action) : nullptr;
  }

  const char* seek(unsigned who, bool first) {
    wire::Uuid uuid;
    uuid.bytes.fill(static_cast<std::uint8_t>(who));
    const auto answer = ask(SessionSought{0, ++request_, uuid, first, who % kHosts});
    const auto* admit = as_answer<AdmitSession>(answer);
    const auto* reject = as_answer<Reject>(answer);
    if (admit == nullptr && reject == nullptr) return "a request is admitted or rejected, once";
    if ((admit != nullptr ? admit->request : reject->request) != request_) return "it answers what was asked";
    const std::size_t given_way = evicted_.size();
    for (const auto& [index, session] : sessions_) {
      if (session.who != who) continue;
      if (given_way != 0) return "only new sessions make others give way";
      if (!first && !session.name) {
        const bool refused = reject != nullptr && reject->peer_errno == wire::linux_errno::kEnxio;
        return refused ? nullptr : "an additional path of a session that was never opened is refused";
      }
      const bool joined = admit != nullptr && !admit->create && admit->session == index;
      return joined ? nullptr : "a known identity joins its session";
    }
    if (!first) {
      const bool refused = reject != nullptr && reject->peer_errno == wire::linux_errno::kEnxio;
      return refused ? nullptr : "an additional path of an unknown session is refused";
    }
    if (const char* broken = give_way()) return broken;
    if (sessions_.size() >= max_sessions_) {
      const int expected = given_way == 0 ? wire::linux_errno::kEnomem : wire::linux_errno::kEbusy;
      const bool refused = reject != nullptr && reject->peer_errno == expected;
      return refused ? nullptr : "no more sessions than there may be";
    }
    if (given_way != 0) return "nobody gives way while there is room";
    if (admit == nullptr || !admit->create) return "a new identity makes a session";
    return sessions_.emplace(admit->session, Session{who, {}}).second ? nullptr : "an index has one session";
  }
  // Marks the sessions that the last actions evicted (CrowdOut): an evicted session must exist, must have no
  // name and must not be evicted twice.
  const char* give_way() {
    if (evicted_.size() > 1) return "one gives way for one";
    for (const std::uint16_t index : evicted_) {
      const auto found = sessions_.find(index);
      if (found == sessions_.end()) return "who gives way is there";
      if (found->second.name) return "a session with a name does not give way";
      if (std::exchange(found->second.leaving, true)) return "a session gives way once";
    }
    const bool may = std::any_of(sessions_.begin(), sessions_.end(),
                                 [](const auto& one) { return !one.second.name && !one.second.leaving; });
    const bool must = sessions_.size() >= max_sessions_ && may;
    return must && evicted_.empty() ? "a session without a name gives way when there is no room" : nullptr;
  }
  const char* claim(unsigned which, unsigned name) {
    if (sessions_.empty()) return nullptr;
    auto& [index, session] = *std::next(sessions_.begin(), which % sessions_.size());
    const auto answer = ask(NameClaimed{0, index, name, ~std::uint64_t{name}});
    const auto* named = as_answer<AnswerName>(answer);
    if (named == nullptr || named->session != index) return "a claim is answered to the claimant";
    const bool free = session.name ? *session.name == name : owners_.count(name) == 0;
    if (free != (named->refusal_errno == 0)) return "a name has one owner, a session one name";
    if (!free) return nullptr;
    session.name = name;
    owners_.insert(name);
    return nullptr;
  }
  const char* drop(unsigned which) {
    if (sessions_.empty()) return nullptr;
    const auto at = std::next(sessions_.begin(), which % sessions_.size());
    RegistryActions out;
    registry_.on(SessionDropped{0, at->first}, out);
    if (at->second.name) owners_.erase(*at->second.name);
    sessions_.erase(at);
    return out.empty() ? nullptr : "a drop wants nothing";
  }

  std::uint16_t max_sessions_;
  std::vector<std::uint16_t> evicted_;  // evicted by the last input
  ServerRegistry registry_;
  ServerRegistry empty_;
  std::map<std::uint16_t, Session> sessions_;  // keyed by session index
  std::set<unsigned> owners_;                  // names in use
  std::uint32_t request_ = 0;
};

}  // namespace rtrs
