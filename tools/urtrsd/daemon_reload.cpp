// Applies a changed configuration while urtrsd runs: exports, log level, access rules, keys and certificates.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>

#include "tools/urtrsd/config/config_text.hpp"
#include "tools/urtrsd/daemon.hpp"

namespace rtrs::daemon {

namespace {
// Lane in BlockingJobs for adding exports. The lane of a session is its serial, which starts at 1.
constexpr BlockingJobs::Lane kAdministration = 0;
// Separate lane for reading the configuration, so that exports on hanging disks do not delay a reload.
constexpr BlockingJobs::Lane kConfiguration = ~BlockingJobs::Lane{0};
}  // namespace

struct Daemon::Reread {
  CommandLine line;
  tl::expected<tools::OpenedTls, std::string> tls;
  tl::expected<tools::OpenedAuth, std::string> auth;
};

// Logs the export and warnings about it. Returns the warnings.
std::vector<std::string> Daemon::log_export(const ExportSpec& spec) {
  spdlog::info("exporting {} from {}{}", in_quotes(spec.name),
               spec.path.empty() ? "memory" : in_quotes(spec.path), spec.read_only ? ", read-only" : "");
  // Warns here only about memory exports. The size of a file may change, so the warning about a file is
  // logged when the file is checked and when it is opened.
  const std::uint64_t excess = spec.is_memory() ? spec.memory_bytes % wire::rnbd::kSectorBytes : 0;
  if (excess == 0) return {};
  std::string warning =
      fmt::format("{} has {} bytes, not a multiple of {}: the last {} bytes are not exported", describe(spec),
                  spec.memory_bytes, wire::rnbd::kSectorBytes, excess);
  spdlog::warn("{}", warning);
  return {std::move(warning)};
}

// Examines the file of the export in a thread, because the disk may hang.
void Daemon::add_export(const ExportSpec& spec, std::function<void(const Added&)> tell) {
  jobs_.run(kAdministration, [this, spec, tell = std::move(tell)] {
    auto prepared = std::make_shared<tl::expected<Catalog::Prepared, OpenError>>(catalog_->prepare(spec));
    return [this, spec, tell, prepared] {
      tl::expected<void, OpenError> added;
      if (*prepared)
        added = catalog_->add(spec, &**prepared);
      else
        added = tl::unexpected(prepared->error());
      if (!added) {
        tell({added.error().sentence, {}});
      } else {
        Added done{{}, log_export(spec)};
        for (const std::string& warning : (*prepared)->warnings) {
          spdlog::warn("{}", warning);
          done.warnings.push_back(warning);
        }
        tell(done);
      }
      pump_.step_soon();
    };
  });
}

std::vector<std::uint64_t> Daemon::handles_of(const std::string& export_name) const {
  std::vector<std::uint64_t> handles;
  for (const auto& [handle, device] : devices_)
    if (same_export(device.opened.name, export_name)) handles.push_back(handle);
  return handles;
}

std::string Daemon::users_of(const std::string& export_name) const {
  std::string names;
  const std::vector<std::uint64_t> handles = handles_of(export_name);
  for (const ServerSessionStatus& session : server_.transport().sessions()) {
    const rnbd::ServerDevices* devices = server_.devices(session.session);
    if (devices == nullptr) continue;
    const bool uses = std::any_of(devices->begin(), devices->end(), [&](const auto& device) {
      return device.state == rnbd::ServerDevices::DeviceState::open &&
             std::find(handles.begin(), handles.end(), device.handle) != handles.end();
    });
    if (uses) names += (names.empty() ? "" : ", ") + in_quotes(session.name);
  }
  return names;
}

std::string Daemon::remove_export(const std::string& name, bool force) {
  const std::string users = users_of(name);
  if (!users.empty() && !force)
    return "export " + in_quotes(name) + " is open in session " + users +
           "; unmap it there first, or use \"force\"";
  if (!catalog_->remove(name))
    return "no export named " + in_quotes(name) + "; \"urtrs export list\" shows all";
  forget_export(name);
  for (const std::uint64_t handle : handles_of(name)) force_close(handle);
  spdlog::info("export {} is removed{}", in_quotes(name),
               users.empty() ? "" : ", taken from session " + users);
  return {};
}

// Reads the configuration in a thread, because the disk may hang. Calls that arrive while a reading is in
// progress share one further reading, which starts when the first has ended.
void Daemon::reload(std::function<void(const Reloaded&)> tell) {
  reloads_.push_back(std::move(tell));
  if (!rereading_) reread();
}

void Daemon::reread() {
  rereading_ = true;
  const auto tells =
      std::make_shared<std::vector<std::function<void(const Reloaded&)>>>(std::exchange(reloads_, {}));
  jobs_.run(kConfiguration, [this, tells] {
    const auto read = std::make_shared<Reread>();
    if (reread_) read->line = reread_();
    if (read->line.run && read->line.run->fabric == "tcp")
      read->tls = tools::open_tls(read->line.run->tls, false);
    if (read->line.run && read->line.run->fabric != "tcp")
      read->auth = tools::open_auth(read->line.run->auth, false);
    return [this, tells, read] {
      rereading_ = false;
      if (stopping_) {
        read->line.run.reset();
        read->line.errors = "urtrsd is shutting down\n";
      }
      change_settings(*read, [tells](const Reloaded& done) {
        for (const auto& tell : *tells) tell(done);
      });
      if (!reloads_.empty()) reread();
    };
  });
}

namespace {

void report_mistakes(const Controlled::Reloaded& done,
                     const std::function<void(const Controlled::Reloaded&)>& tell) {
  for (const std::string& one : done.problems) spdlog::error("reload: {}", one);
  spdlog::error("reload: nothing was changed");
  tell(done);
}

}  // namespace

// True if a reload replaces the TLS credentials. If the fabric changes, the reload keeps them, because the
// new fabric takes effect only after a restart.
bool Daemon::uses_tls_of(const DaemonConfig& wanted) const {
  return config_.fabric == "tcp" && wanted.fabric == "tcp" &&
         !(wanted.tls == tools::TlsChoice{} && config_.tls == wanted.tls);
}

// Like uses_tls_of(), but for shared keys.
bool Daemon::uses_auth_of(const DaemonConfig& wanted) const {
  return config_.fabric != "tcp" && wanted.fabric != "tcp" &&
         !(wanted.auth == tools::AuthChoice{} && config_.auth == wanted.auth);
}

void Daemon::change_settings(Reread& read, std::function<void(const Reloaded&)> tell) {
  const CommandLine& line = read.line;
  auto done = std::make_shared<Reloaded>();
  if (!line.run) {
    std::string problem;
    for (const char c : line.errors) {
      if (c != '\n') {
        problem += c;
      } else if (!problem.empty()) {
        constexpr std::string_view kProgram = "urtrsd: ";
        if (problem.rfind(kProgram, 0) == 0) problem.erase(0, kProgram.size());
        done->problems.push_back(std::exchange(problem, {}));
      }
    }
    if (done->problems.empty()) done->problems.emplace_back("the configuration cannot be read again");
    return report_mistakes(*done, tell);
  }
  if (uses_tls_of(*line.run) && !read.tls) {
    done->problems.push_back("TLS is unchanged: " + read.tls.error());
    return report_mistakes(*done, tell);
  }
  if (uses_auth_of(*line.run) && !read.auth) {
    done->problems.push_back("shared keys are unchanged: " + read.auth.error());
    return report_mistakes(*done, tell);
  }
  for (const std::string& key : different_settings(config_, *line.run)) {
    if (key == "log_level" && set_log_level(line.run->log_level)) {
      config_.log_level = line.run->log_level;
      done->changed.push_back("log_level is " + config_.log_level);
    } else if (key.rfind("tls", 0) == 0 || key.rfind("auth", 0) == 0) {
      continue;
    } else if (key.rfind("allow_", 0) == 0) {
      done->changed.push_back(key + " has changed, for new clients");
    } else {
      done->kept.push_back(key + " is read at the start only; restart urtrsd to change it");
    }
  }
  config_.allow_addresses = line.run->allow_addresses;
  config_.allow_identities = line.run->allow_identities;
  config_.allow_sessions = line.run->allow_sessions;
  server_.set_access(access_of(config_));
  reload_tls(read, *done);
  reload_auth(read, *done);
  change_exports(line.run->exports, done, std::move(tell));
}

// Replaces the TLS credentials even if no setting changed, because the files may have new contents.
void Daemon::reload_tls(const Reread& read, Reloaded& done) {
  const DaemonConfig& wanted = *read.line.run;
  if (!uses_tls_of(wanted)) return;
  tools::replace_tls(*fabric_, *read.tls);
  config_.tls = wanted.tls;
  if (read.tls->context == nullptr) {
    done.changed.emplace_back("TLS is off: new clients connect without TLS and without authentication");
  } else {
    done.changed.emplace_back("keys and certificates were reloaded; they apply to new connections");
    const std::string warning = tls::warning(*read.tls->context);
    if (!warning.empty()) done.kept.push_back(warning);
  }
  warn_of_plain_listeners();
}

// Like reload_tls(), but for shared keys.
void Daemon::reload_auth(Reread& read, Reloaded& done) {
  const DaemonConfig& wanted = *read.line.run;
  if (!uses_auth_of(wanted)) return;
  if (!tools::replace_auth(*fabric_, *read.auth)) {
    done.kept.emplace_back("shared keys take effect only after a restart of urtrsd");
    return;
  }
  // Frees the former key table in a thread, because that takes milliseconds for 10,000 keys.
  const auto former = std::make_shared<std::shared_ptr<const keyed::KeyTable>>(std::move(read.auth->keys));
  jobs_.run(kConfiguration, [former] {
    former->reset();
    return [] {};
  });
  config_.auth = wanted.auth;
  done.changed.emplace_back(read.auth->mode == keyed::Mode::off
                                ? "shared keys are off: new clients connect without authentication"
                                : "shared keys were reloaded; they apply to new connections");
}

// Adds the export even if its file is missing, as at the start. The export is served when the file appears.
void Daemon::add_new_export(const ExportSpec& spec, std::shared_ptr<Reloaded> done,
                            std::shared_ptr<void> until_done) {
  if (const auto added = catalog_->add(spec, nullptr); !added) {
    done->kept.push_back(added.error().sentence);
    return;
  }
  done->changed.push_back("export " + in_quotes(spec.name) + " is added");
  jobs_.run(kAdministration, [this, spec, done, until_done = std::move(until_done)]() mutable {
    auto checked = std::make_shared<Catalog::Checked>(catalog_->check_again(spec.name));
    return [this, spec, done, until_done = std::move(until_done), checked] {
      if (checked->problem) {
        miss({MissingKind::exported, spec.name}, checked->problem->why);
      } else {
        const std::vector<std::string> warnings = log_export(spec);
        done->kept.insert(done->kept.end(), warnings.begin(), warnings.end());
      }
      for (const std::string& warning : checked->warnings) {
        spdlog::warn("{}", warning);
        done->kept.push_back(warning);
      }
      pump_.step_soon();
    };
  });
}

// Removes exports that are no longer configured, then adds new exports. A changed export is removed and added
// again. Calls `tell` when all added exports have been examined.
void Daemon::change_exports(const std::vector<ExportSpec>& wanted, std::shared_ptr<Reloaded> done,
                            std::function<void(const Reloaded&)> tell) {
  for (const ExportSpec& old : catalog_->specs())
    for (const ExportSpec& one : wanted) {
      ExportSpec as_wanted = old;
      as_wanted.allow = one.allow;
      if (as_wanted == one && !(old == one)) {
        catalog_->allow(one.name, one.allow);
        done->changed.push_back("the access rules of export " + in_quotes(one.name) + " changed");
      }
    }
  const std::vector<ExportSpec> there = catalog_->specs();
  const auto has = [](const std::vector<ExportSpec>& all, const ExportSpec& one) {
    return std::find(all.begin(), all.end(), one) != all.end();
  };
  std::vector<std::string> staying;  // exports that cannot be removed because they are in use
  for (const ExportSpec& old : there) {
    if (has(wanted, old)) continue;
    const std::string refused = remove_export(old.name, false);
    if (refused.empty()) {
      done->changed.push_back("export " + in_quotes(old.name) + " is removed");
    } else {
      done->kept.push_back(refused);
      staying.push_back(old.name);
    }
  }
  const auto stays = [&staying](const std::string& name) {
    return std::any_of(staying.begin(), staying.end(),
                       [&name](const std::string& one) { return same_export(one, name); });
  };
  const auto later = std::make_shared<Reloaded>();  // results of added exports; `kept` is logged already
  const auto finished = [this, done, later, tell = std::move(tell)] {
    done->changed.insert(done->changed.end(), later->changed.begin(), later->changed.end());
    for (const std::string& one : done->changed) spdlog::info("reload: {}", one);
    for (const std::string& one : done->kept) spdlog::warn("reload: {}", one);
    if (done->changed.empty() && done->kept.empty()) spdlog::info("reload: nothing has changed");
    done->kept.insert(done->kept.end(), later->kept.begin(), later->kept.end());
    for (const auto& [key, item] : missing_.items()) done->kept.push_back(item.why.sentence);
    tell(*done);
  };
  // Each pending check holds a copy of this pointer. When the last copy is destroyed, finished() is called.
  const std::shared_ptr<void> last(nullptr, [finished](void*) { finished(); });
  missing_.hurry_all(asio::steady_now());
  for (const MissingList::Key& key : missing_.take_due(asio::steady_now())) try_again(key, last);
  for (const ExportSpec& one : wanted) {
    if (has(there, one) || stays(one.name)) continue;
    if (!config_.strict) {
      add_new_export(one, later, last);
      continue;
    }
    add_export(one, [done, later, last, name = one.name](const Added& added) {
      if (added.refused.empty())
        done->changed.push_back("export " + in_quotes(name) + " is added");
      else
        done->kept.push_back(added.refused);
      later->kept.insert(later->kept.end(), added.warnings.begin(), added.warnings.end());
    });
  }
}

}  // namespace rtrs::daemon
