#include "tools/urtrs-mapd/keeper.hpp"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include "tools/lib/control/mapping/state_file.hpp"
#include "tools/lib/control/mapping/state_text.hpp"
#include "tools/urtrs-mapd/log.hpp"
#include "tools/urtrs-mapd/parameters.hpp"

namespace rtrs::mapd {

using namespace mapping;
using nlohmann::json;
using std::chrono::milliseconds;

namespace {

// Pause between two queries of the state of a process. kStarting: while the process starts. kBusy: while
// requests are pending. kCalm: otherwise.
constexpr milliseconds kStarting{50};
constexpr milliseconds kBusy{300};
constexpr milliseconds kCalm{2000};
constexpr milliseconds kLookPatience{5000};
// Must be longer than the time limits of nbdkit, which are connect_timeout and the wait for a used session
// name.
constexpr milliseconds kAskPatience{300'000};
constexpr milliseconds kEndPatience{60'000};

int error_of(const tl::expected<json, rpc::Error>& answer) {
  if (answer) return 0;
  return answer.error().error != 0 ? answer.error().error : EIO;
}

}  // namespace

Keeper::Keeper(boost::asio::io_context& context, const Options& options, const Wishes& wishes,
               Supervisor::Options how)
    : context_(context),
      options_(options),
      lost_(!how.ends_unwanted_processes),
      machine_(wishes, how),
      tick_(context) {}

Nanos Keeper::now() const {
  return static_cast<Nanos>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                std::chrono::steady_clock::now().time_since_epoch())
                                .count());
}

Keeper::Served& Keeper::served(const std::string& session) {
  return served_.try_emplace(session, context_).first->second;
}

void Keeper::begin() {
  std::vector<std::string> names = sessions_with_locks(options_.folder);
  std::vector<Found> found;
  for (const std::string& session : names) {
    if (check_session_name(session)) continue;  // the lock file does not belong to a session of urtrs-mapd
    auto process = Process::adopt(context_, files_of(session), gone(session));
    if (!process) {
      log(3, fmt::format("session {}: {}", session, process.error()));  // continues with the other sessions
      continue;
    }
    if (*process == nullptr) {
      if (!machine_.sessions().contains(session)) files_of(session).remove();
      continue;
    }
    auto wish = lost_ ? wish_in((*process)->command(), options_.parameters) : SessionWish();
    if (!wish) {
      log(3, fmt::format("session {}: process {} is not managed, because its command line does not show how "
                         "it was mapped; to map its devices again, stop it",
                         session, (*process)->pid()));
      continue;
    }
    if (wish->name == session) wish->name.clear();
    log(6, fmt::format("session {}: takes over process {}", session, (*process)->pid()));
    served(session).process = std::move(*process);
    found.push_back({session, std::move(*wish)});
  }
  // All running processes are reported first, so that none is started twice.
  for (const Found& one : found) {
    give(one);
    look_at(one.session);
  }
  give(Tick{});
}

void Keeper::end_all(std::function<void()> then) {
  ended_ = std::move(then);
  for (const auto& [session, one] : served_)
    if (one.process) one.process->signal(SIGTERM);
  tick_.expires_after(kEndPatience);
  tick_.async_wait([this](const boost::system::error_code& stopped) {
    if (stopped) return;
    for (const auto& [session, one] : served_)
      if (one.process) one.process->signal(SIGKILL);
  });
  forget_unused();
}

void Keeper::give(const Input& input) {
  if (ended_) return;
  std::optional<Input> next = input;
  while (next) {
    saved_.reset();
    for (const Action& action : machine_.on(*next, now()))
      std::visit([this](const auto& one) { carry_out(one); }, action);
    next = saved_ ? std::optional<Input>(*saved_) : std::nullopt;
  }
  forget_unused();
  arm();
}

void Keeper::arm() {
  const Nanos next = machine_.next_tick();
  tick_.cancel();
  if (next == kNever) return;
  const Nanos at = now();
  tick_.expires_after(std::chrono::nanoseconds(next > at ? next - at : 0));
  tick_.async_wait([this](const boost::system::error_code& stopped) {
    if (!stopped) give(Tick{});
  });
}

// Removes the files of sessions that have ended. If end_all() was called and no process is left, calls the
// callback of end_all().
void Keeper::forget_unused() {
  bool any = false;
  for (auto at = served_.begin(); at != served_.end();) {
    any = any || at->second.process != nullptr;
    if (at->second.process || (!ended_ && machine_.sessions().contains(at->first))) {
      ++at;
      continue;
    }
    files_of(at->first).remove();
    at = served_.erase(at);
  }
  if (ended_ && !any) ended_();
}

std::vector<std::string> Keeper::command_of(const std::string& session) const {
  const SessionWish& wish = machine_.sessions().at(session).wish;
  const SessionFiles files = files_of(session);
  // The NBD client of the kernel uses one connection, and nbdkit needs a thread for each parallel request of
  // a connection.
  std::vector<std::string> command{options_.nbdkit, "-f", "--threads=64", "-U", files.nbd};
  for (std::string& one : parameters_of(wish, options_.parameters)) command.push_back(std::move(one));
  command.push_back("session=" + (wish.name.empty() ? session : wish.name));
  command.push_back("exports=mapped");
  command.push_back("control=" + files.control);
  if (!options_.group.empty()) command.push_back("control_group=" + options_.group);
  return command;
}

Process::Gone Keeper::gone(const std::string& session) {
  return [this, session] {
    Served& one = served(session);
    // If the process never answered, uses the error that it printed. A process that answered has reported its
    // state.
    if (const auto found = machine_.sessions().find(session);
        one.process && found != machine_.sessions().end() &&
        found->second.state == Supervisor::State::starting)
      if (const std::string why = one.process->last_error(); !why.empty())
        one.trouble = {"its process did not start: " + told_of(found->second.wish, options_.parameters, why),
                       ""};
    one.process.reset();
    one.link.reset();
    one.look.cancel();
    one.looking = false;
    const auto found = machine_.sessions().find(session);
    const bool asked =
        ended_ || found == machine_.sessions().end() || found->second.state == Supervisor::State::ending;
    log(asked ? 6 : 4, fmt::format("session {}: its process has ended", session));
    if (ended_) return forget_unused();
    give(Ended{session});
    if (const auto left = machine_.sessions().find(session); !asked && left != machine_.sessions().end())
      log(6, fmt::format("session {}: restarting it in {:.1f} s", session,
                         static_cast<double>(left->second.pause) / 1e9));
  };
}

void Keeper::carry_out(const Start& start) {
  Served& one = served(start.session);
  auto process =
      Process::start(context_, files_of(start.session), command_of(start.session), gone(start.session));
  if (!process) {
    log(3, fmt::format("session {}: {}", start.session, process.error()));
    one.trouble = {"its process did not start: " + process.error(), ""};
    boost::asio::post(context_, [this, session = start.session] { give(Ended{session}); });
    return;
  }
  one.process = std::move(*process);
  one.seen.clear();
  log(6, fmt::format("session {}: process {} serves it at {}", start.session, one.process->pid(),
                     files_of(start.session).nbd));
  schedule_check(start.session);
}

void Keeper::carry_out(const End& end) {
  const Served& one = served(end.session);
  if (one.process) one.process->signal(end.kill ? SIGKILL : SIGTERM);
}

void Keeper::ask(const std::string& session, const char* method, const json& parameters, Answered then) {
  Served& one = served(session);
  if (!one.link || one.link->is_over()) {
    boost::asio::post(context_, [then = std::move(then)] {
      then(tl::unexpected(rpc::Error{rpc::Code::failed, std::strerror(ENOTCONN), "", ENOTCONN}));
    });
    return;
  }
  one.link->call(method, parameters, kAskPatience, std::move(then));
  schedule_check(session);
}

void Keeper::carry_out(const Map& map) {
  const json parameters{{"device", map.device}, {"access_mode", wire::rnbd::to_string(map.mode)}};
  ask(map.session, "device.map", parameters,
      [this, session = map.session, device = map.device](const auto& answer) {
        const int error = error_of(answer);
        const auto found = machine_.sessions().find(session);
        const int before = found != machine_.sessions().end() && found->second.devices.contains(device)
                               ? found->second.devices.at(device).error
                               : 0;
        served(session).refusal = answer ? "" : answer.error().message;
        // A repeated rejection is logged only once.
        if (error != 0 && error != before)
          log(4, fmt::format("session {}: {}", session, answer.error().message));
        if (error == 0) log(6, fmt::format("session {}: device {} is mapped", session, device));
        give(Mapped{session, device, error});
        if (const auto one = served_.find(session); one != served_.end()) one->second.refusal.clear();
        // Queries the state immediately, so that the size of the device is known.
        if (!served(session).looking) look_at(session);
      });
}

// Calls device.unmap, because that also cancels a pending device.map.
void Keeper::carry_out(const Cancel& cancel) {
  ask(cancel.session, "device.unmap", {{"device", cancel.device}}, [](const auto&) {});
}

void Keeper::carry_out(const Unmap& unmap) {
  json parameters{{"device", unmap.device}};
  if (unmap.force) parameters["force"] = "true";
  ask(unmap.session, "device.unmap", parameters,
      [this, session = unmap.session, device = unmap.device](const auto& answer) {
        if (answer)
          log(6, fmt::format("session {}: device {} is unmapped", session, device));
        else
          served(session).refusal = answer.error().message;
        give(Unmapped{session, device, error_of(answer)});
      });
}

void Keeper::carry_out(const ChangePath& change) {
  json parameters{{"path", change.path}};
  if (!change.add && change.force) parameters["force"] = "true";
  ask(change.session, change.add ? "path.add" : "path.remove", parameters,
      [this, session = change.session, path = change.path, add = change.add](const auto& answer) {
        PathChanged changed{session, "", error_of(answer)};
        served(session).path_refusal = answer ? rpc::Error{} : answer.error();
        if (answer) {
          log(6, fmt::format("session {}: path {} is {}", session, path, add ? "added" : "removed"));
          const json& named = answer->value(add ? "path" : "address", json());
          if (named.is_string()) changed.path = named;
          if (named.is_number_unsigned()) changed.path = std::to_string(named.get<std::uint64_t>());
        }
        give(changed);
      });
}

void Keeper::carry_out(const Save&) {
  const int before = std::exchange(save_error_, write_state(options_.state, state_text(machine_.wishes())));
  saved_ = Saved{save_error_};
  if (save_error_ == before) return;
  if (save_error_ == 0)
    log(6, fmt::format("\"{}\" can be written again", options_.state));
  else
    log(3, fmt::format("cannot write \"{}\": {} (errno {}); retrying", options_.state,
                       std::strerror(save_error_), save_error_));
}

void Keeper::schedule_check(const std::string& session) {
  Served& one = served(session);
  const auto found = machine_.sessions().find(session);
  if (found == machine_.sessions().end() || !one.process || one.looking) return;
  bool asks = false;
  for (const auto& device : found->second.devices) asks = asks || device.second.asked;
  const milliseconds pause = found->second.state == Supervisor::State::starting ? kStarting
                             : asks                                             ? kBusy
                                                                                : kCalm;
  one.look.expires_after(pause);
  one.look.async_wait([this, session](const boost::system::error_code& stopped) {
    if (!stopped) look_at(session);
  });
}

void Keeper::look_at(const std::string& session) {
  Served& one = served(session);
  if (!one.process) return;
  if (one.link && one.link->is_over()) one.link.reset();  // the pending calls of the link have already failed
  if (!one.link) {
    auto link = rpc::AsyncClient::connect(context_, files_of(session).control);
    if (!link) return schedule_check(session);
    one.link = std::move(*link);
  }
  one.looking = true;
  one.link->call("client.show", json::object(), kLookPatience,
                 [this, session](const tl::expected<json, rpc::Error>& answer) {
                   served(session).looking = false;
                   if (answer) on_shown(session, *answer);
                   schedule_check(session);
                 });
}

void Keeper::on_shown(const std::string& session, const json& shown) {
  Shown found;
  try {
    found = devices_in(shown);
    served(session).trouble = trouble_of(shown);
  } catch (const json::exception& wrong) {
    return log(4, fmt::format("session {}: invalid reply from its process: {}", session, wrong.what()));
  }
  served(session).seen = std::move(found.devices);
  if (const auto known = machine_.sessions().find(session);
      known != machine_.sessions().end() && known->second.stray && !found.kept.empty())
    log(6, fmt::format("session {}: keeping what process {} has mapped: {}", session, process_of(session),
                       fmt::join(found.kept, ", ")));
  give(Answers{session, std::move(found.kept), std::move(found.modes), std::move(found.paths)});
}

SeenDevice Keeper::seen(const std::string& session, const std::string& device) const {
  const auto found = served_.find(session);
  if (found == served_.end()) return {};
  const auto at = found->second.seen.find(device);
  return at == found->second.seen.end() ? SeenDevice{} : at->second;
}

pid_t Keeper::process_of(const std::string& session) const {
  const auto found = served_.find(session);
  return found == served_.end() || !found->second.process ? 0 : found->second.process->pid();
}

std::string Keeper::trouble(const std::string& session) const {
  const auto found = served_.find(session);
  return found == served_.end() ? std::string() : found->second.trouble.why;
}

}  // namespace rtrs::mapd
