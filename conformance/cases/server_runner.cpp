#include "conformance/cases/server_runner.hpp"

#include <fmt/format.h>

#include <cstring>

#include "conformance/cases/rnbd_talk.hpp"
#include "conformance/cases/verdict.hpp"

namespace rtrs::conformance {

ServerRunner::ServerRunner(Endpoint& endpoint, const ServerSetup& setup, MakeRecorder make_recorder)
    : endpoint_(endpoint), tester_(endpoint, setup), make_recorder_(std::move(make_recorder)) {}

void ServerRunner::open_bystander() {
  const ServerSetup& setup = tester_.setup();
  bystander_ = std::make_unique<Path>(endpoint_, setup.deadlines, setup.targets.at(0),
                                      tester_.fresh_identity(), std::uint16_t{2}, std::uint16_t{0});
  bystander_->open();
  exchange_versions(*bystander_);
}

std::string ServerRunner::start() {
  try {
    open_bystander();
    return {};
  } catch (const Failed& failed) {
    return failed.what();
  }
}

std::string ServerRunner::try_device() {
  const std::string& name = tester_.setup().device;
  if (name.empty()) return {};
  try {
    using wire::rnbd::AccessMode;
    const AccessMode mode = tester_.setup().scratch ? AccessMode::read_write : AccessMode::read_only;
    const Answer answer = bystander_->ask(open_ask(name, mode));
    if (answer.error != 0)
      return fmt::format("the server does not open the device '{}'{}: {} (errno {})", name,
                         tester_.setup().scratch ? " for writing" : "", std::strerror(answer.error),
                         answer.error);
    bystander_->ask(close_ask(parse_opened(answer).device_id));
    return {};
  } catch (const Failed&) {
    return {};  // the RNBD cases report malformed responses
  }
}

std::string ServerRunner::check_other_clients(bool& gone) {
  try {
    if (!bystander_->whole()) fail("it was cut off");
    exchange_versions(*bystander_);
  } catch (const Failed& failed) {
    const std::string why = std::string("another session was disturbed: ") + failed.what();
    bystander_->disconnect();
    try {
      open_bystander();
    } catch (const Failed& again) {
      gone = true;
      return why + "; and the server does not accept a new one: " + again.what();
    }
    return why;
  }
  const std::uint32_t mark = endpoint_.mark();
  std::string why;
  try {
    exchange_versions(tester_.opened());
  } catch (const Failed& failed) {
    gone = true;
    why = std::string("a new session is not served any more: ") + failed.what();
  }
  tester_.clean_up(mark);
  return why;
}

Result ServerRunner::run(const Case& one) {
  Result result;
  result.about = &one;
  const std::shared_ptr<Recorder> recorder = make_recorder_ ? make_recorder_(one) : nullptr;
  endpoint_.record(recorder.get());
  const std::uint32_t mark = endpoint_.mark();
  const Nanos since = endpoint_.now();
  try {
    one.against_server(tester_);
  } catch (const Failed& failed) {
    result.outcome = Outcome::failed;
    result.detail = failed.what();
  } catch (const NotRun& reason) {
    result.outcome = Outcome::not_run;
    result.detail = reason.what();
  }
  result.took = endpoint_.now() - since;
  endpoint_.record(nullptr);
  if (endpoint_.mark() == mark) return result;
  const bool clean = tester_.clean_up(mark);
  std::string around = check_other_clients(result.gone);
  if (!clean && around.empty()) around = "a connection did not end";
  if (!around.empty()) {
    result.detail = result.outcome == Outcome::failed ? result.detail + "; " + around : around;
    result.outcome = Outcome::failed;
  }
  return result;
}

}  // namespace rtrs::conformance
