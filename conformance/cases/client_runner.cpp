#include "conformance/cases/client_runner.hpp"

#include "conformance/cases/verdict.hpp"

namespace rtrs::conformance {

ClientRunner::ClientRunner(Endpoint& endpoint, const ClientSetup& setup, MakeRecorder make_recorder)
    : endpoint_(endpoint),
      setup_(setup),
      tester_(endpoint, setup),
      make_recorder_(std::move(make_recorder)) {}

std::string ClientRunner::start() {
  if (!tester_.usable()) return "cannot register memory for the chunks; see ulimit -l";
  try {
    tester_.healthy_within(setup_.first_wait);
    return {};
  } catch (const Failed& failed) {
    return failed.what();
  }
}

Result ClientRunner::run(const Case& one) {
  Result result;
  result.about = &one;
  const std::shared_ptr<Recorder> recorder = make_recorder_ ? make_recorder_(one) : nullptr;
  endpoint_.record(recorder.get());
  const Nanos since = endpoint_.now();
  try {
    one.against_client(tester_);
  } catch (const Failed& failed) {
    result.outcome = Outcome::failed;
    result.detail = failed.what();
  } catch (const NotRun& reason) {
    result.outcome = Outcome::not_run;
    result.detail = reason.what();
  }
  result.took = endpoint_.now() - since;
  endpoint_.record(nullptr);
  tester_.stop_misbehaving();
  try {
    tester_.healthy();
  } catch (const Failed& failed) {
    result.detail += (result.detail.empty() ? "" : "; ") + std::string("afterwards: ") + failed.what();
    result.outcome = Outcome::failed;
  }
  return result;
}

}  // namespace rtrs::conformance
