#include <algorithm>

#include "conformance/spec/server.hpp"

namespace rtrs::spec {

bool RegistrySpec::is_of(const Session& session, const Event& sought) {
  return session.identity[0] == sought.identity[0] && session.identity[1] == sought.identity[1];
}

RegistrySpec::Session& RegistrySpec::session_at(std::uint16_t index) {
  if (sessions_.size() <= index) sessions_.resize(std::size_t{index} + 1);
  return sessions_[index];
}

void RegistrySpec::finish() {
  if (sought_)
    context().check(false, Rule::session_admission, "a connect request was not assigned",
                    "AdmitSession or Reject");
  if (claim_) context().check(false, Rule::name_owner, "a claim of a name was not answered", "AnswerName");
  sought_.reset();
  claim_.reset();
}

void RegistrySpec::on(const Event& event) {
  if (class_of(event.kind) == EventClass::input) finish();
  event_ = event;
  switch (event.kind) {
    case Kind::SessionSought:
      sought_ = event;
      return;
    case Kind::NameClaimed:
      claim_ = event;
      return;
    case Kind::SessionDropped:
      session_at(event.session) = Session{};
      return;
    case Kind::AdmitSession:
      return admit();
    case Kind::AnswerName:
      return answer_name();
    case Kind::CrowdOut: {
      const Session& session = session_at(event.session);
      context().check(sought_ && (session.live ? !session.named : !whole_), Rule::session_admission,
                      "a session is closed to make room", "only one that never had a name");
      return;
    }
    case Kind::Reject: {
      if (!sought_) return;
      const bool known = std::any_of(sessions_.begin(), sessions_.end(), [&](const Session& session) {
        return session.live && session.uuid == sought_->uuid && (sought_->first_conn || session.named) &&
               is_of(session, *sought_);
      });
      context().check(!known && event.error != 0, Rule::session_admission,
                      "a connect request of a living session is refused", "AdmitSession of that session");
      sought_.reset();
      return;
    }
    default:
      return;
  }
}

void RegistrySpec::admit() {
  if (!sought_) {
    context().check(!whole_, Rule::session_admission, "a session is admitted that nobody asked for",
                    "AdmitSession after SessionSought");
    return;
  }
  const Event sought = *sought_;
  sought_.reset();
  Session& session = session_at(event_.session);
  if (event_.create) {
    const bool known = std::any_of(sessions_.begin(), sessions_.end(), [&](const Session& other) {
      return other.live && other.uuid == sought.uuid;
    });
    context().check(sought.first_conn && !session.live && !known, Rule::session_admission,
                    "a session is created",
                    sought.first_conn ? "the session that there is" : "Reject with ENXIO");
    session = Session{};
    session.live = true;
    session.uuid = sought.uuid;
    session.identity[0] = sought.identity[0];
    session.identity[1] = sought.identity[1];
    return;
  }
  const bool its = session.live ? session.uuid == sought.uuid : !whole_;
  context().check(its, Rule::session_admission, "a connect request is given to another session",
                  "the session of its paths_uuid");
  context().check(!session.live || is_of(session, sought), Rule::session_identity,
                  "a client of another identity is let into a session", "Reject with EPERM");
  context().check(sought.first_conn || session.named || !session.live, Rule::session_admission,
                  "a further path joins a session that was never opened", "Reject with ENXIO");
}

bool RegistrySpec::owned_by_other(const Event& claim) const {
  for (std::size_t at = 0; at < sessions_.size(); ++at) {
    const Session& other = sessions_[at];
    if (at != claim.session && other.live && other.named && other.name[0] == claim.digest_low &&
        other.name[1] == claim.digest_high)
      return true;
  }
  return false;
}

void RegistrySpec::answer_name() {
  if (!claim_) return;
  const Event claim = *claim_;
  claim_.reset();
  if (event_.error != 0) return;
  Session& session = session_at(claim.session);
  const bool renamed =
      session.named && (session.name[0] != claim.digest_low || session.name[1] != claim.digest_high);
  context().check(!owned_by_other(claim) && !renamed, Rule::name_owner,
                  renamed ? "a session takes a second name" : "a name is given to a second session",
                  "AnswerName with EPERM");
  session.named = true;
  session.name[0] = claim.digest_low;
  session.name[1] = claim.digest_high;
}

}  // namespace rtrs::spec
