// The part of Keeper that handles requests and forms error texts.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/proto/limits.hpp"
#include "tools/urtrs-mapd/keeper.hpp"

namespace rtrs::mapd {

using namespace mapping;
using nlohmann::json;

namespace {

constexpr const char* kAddingPath = "adding the path";
constexpr const char* kRemovingPath = "removing the path";

bool is_of_path(std::string_view doing) {
  return doing == kAddingPath || doing == kRemovingPath;
}

}  // namespace

void Keeper::carry_out(const Done& done) {
  const auto found = waiters_.find(done.ticket);
  if (found == waiters_.end()) return;
  const Waiter waiter = std::move(found->second);
  waiters_.erase(found);
  if (done.unsaved) return waiter.then(save_error(done.error, waiter.device, waiter.doing));
  if (done.error == 0) return waiter.then(std::nullopt);
  if (is_of_path(waiter.doing))
    return waiter.then(explain_path(done.error, waiter.session, waiter.device, waiter.doing));
  waiter.then(explain(done.error, waiter.session, waiter.device, waiter.doing));
}

rpc::Error Keeper::save_error(int error, const std::string& device, const char* doing) const {
  return {rpc::Code::failed,
          fmt::format("{} \"{}\": nothing was changed, because \"{}\" cannot be written: {}", doing, device,
                      options_.state, std::strerror(error)),
          "make its file system writable or free space on it, then try again", error};
}

rpc::Error Keeper::explain_path(int error, const std::string& session, const std::string& path,
                                const char* doing) const {
  const auto code = error == ENOENT   ? rpc::Code::no_such_thing
                    : error == ENOSPC ? rpc::Code::busy
                                      : rpc::Code::failed;
  const std::string what = fmt::format("{} \"{}\" of session \"{}\": ", doing, path, session);
  // Prefers the error text that the process reported, if there is one.
  if (const auto found = served_.find(session);
      found != served_.end() && found->second.path_refusal.error == error) {
    const rpc::Error& said = found->second.path_refusal;
    return {code, what + said.message, said.hint, error};
  }
  const char* hint = "";
  if (error == ENOENT) hint = "\"urtrs client path list\" shows all";
  if (error == EEXIST) hint = "each path needs a different pair of addresses";
  if (error == EBUSY) hint = "a session needs a path: add another one first, or unmap its devices";
  if (error == EALREADY) hint = "another path of the session is being changed; try again";
  if (error == EAGAIN || error == ETIMEDOUT) hint = "its process does not answer; try again later";
  if (error == ENOTCONN) hint = "its process has ended; try again";
  return {code,
          what + (error == ENOSPC ? fmt::format("a session has at most {} paths", kMaxPaths)
                                  : std::strerror(error)),
          hint, error};
}

void Keeper::change_path(const PathChangeRequested& asked, Then then) {
  served(asked.session).path_refusal = {};
  PathChangeRequested one = asked;
  one.ticket = wait(std::move(then), asked.session, asked.path, asked.add ? kAddingPath : kRemovingPath);
  give(one);
}

rpc::Error Keeper::explain(int error, const std::string& session, const std::string& device,
                           const char* doing) const {
  const auto found = served_.find(session);
  const std::string what = fmt::format("{} \"{}\" of session \"{}\": ", doing, device, session);
  const bool link = error == ENOTCONN || error == ETIMEDOUT || error == EHOSTUNREACH;
  const std::string why = link ? trouble(session) : "";
  if (!why.empty()) return {rpc::Code::failed, what + why, found->second.trouble.hint, error};
  if (error == ENOENT && std::string_view(doing) != "mapping")
    return {rpc::Code::no_such_thing, what + "it is not mapped", "\"urtrs mapping list\" shows all", error};
  const bool maps = std::string_view(doing) == "mapping";
  const auto code = error == ENOENT   ? rpc::Code::no_such_thing
                    : error == ENOSPC ? rpc::Code::busy
                                      : rpc::Code::failed;
  // The error text that the process reported contains the reply of the server, and advice.
  const std::string said = found == served_.end() ? std::string() : found->second.refusal;
  if (maps && !link && !said.empty()) return {code, what + said, "", error};
  if (maps && error == ENOSPC) {
    const auto known = machine_.sessions().find(session);
    return known == machine_.sessions().end() || !known->second.in_use()
               ? rpc::Error{code, fmt::format("{}urtrs-mapd keeps at most {} sessions", what, kMostSessions),
                            "unmap the devices of one first, or name a session that is mapped", error}
               : rpc::Error{code, fmt::format("{}a session has at most {} devices", what, kMaxDevices),
                            "use another name for the server to create a separate session", error};
  }
  if (error == ETIMEDOUT && process_of(session) != 0)
    return {code, fmt::format("{}its process {} does not answer", what, process_of(session)),
            "find out why it hangs, or end it with \"kill -9\": urtrs-mapd then starts a new one", error};
  std::string hint = link ? (said.empty() ? "see the log of urtrs-mapd" : said) : hint_of(error, doing);
  return {code, what + std::strerror(error), std::move(hint), error};
}

Ticket Keeper::wait(Then then, const std::string& session, const std::string& device, const char* doing) {
  waiters_[++tickets_] = {std::move(then), session, device, doing};
  return tickets_;
}

void Keeper::map(const std::string& session, const SessionWish& wish, const std::string& device,
                 DeviceWish how, Then then) {
  // Clears errors of an earlier mapping that had the same name.
  if (const auto found = served_.find(session); found != served_.end())
    if (const auto known = machine_.sessions().find(session);
        known == machine_.sessions().end() || !known->second.in_use())
      found->second.trouble = {};
  give(DeviceMapRequested{session, wish, device, how, wait(std::move(then), session, device, "mapping")});
}

void Keeper::unmap(const std::string& session, const std::string& device, bool force, Then then) {
  give(DeviceUnmapRequested{session, device, force, wait(std::move(then), session, device, "unmapping")});
}

void Keeper::remap(const std::string& session, const std::string& device, Then then) {
  const auto found = machine_.sessions().find(session);
  const bool known = found != machine_.sessions().end() && found->second.devices.contains(device);
  if (!known) return then(explain(ENOENT, session, device, "opening again"));
  if (!found->second.devices.at(device).mapped) {
    give(RetryNow{session});
    return then(std::nullopt);
  }
  ask(session, "device.remap", {{"device", device}},
      [this, session, device, then = std::move(then)](const auto& answer) {
        if (answer) return then(std::nullopt);
        then(explain(answer.error().error, session, device, "opening again"));
      });
}

}  // namespace rtrs::mapd
