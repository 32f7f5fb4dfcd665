// The program urtrs-mapd keeps devices mapped. tools/lib/control/mapping decides what it does.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/signal_set.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "tools/lib/control/kernel_nbd/attachment.hpp"
#include "tools/lib/control/kernel_nbd/driver.hpp"
#include "tools/lib/control/mapping/state_file.hpp"
#include "tools/lib/control/mapping/state_text.hpp"
#include "tools/lib/control/plugin/settings.hpp"
#include "tools/lib/control/rpc/socket_path.hpp"
#include "tools/lib/files/find_program.hpp"
#include "tools/lib/text/help_text.hpp"
#include "tools/lib/text/printable.hpp"
#include "tools/lib/text/standard_output.hpp"
#include "tools/lib/text/usage/json_error.hpp"
#include "tools/lib/text/version/version.hpp"
#include "tools/urtrs-mapd/control.hpp"
#include "tools/urtrs-mapd/log.hpp"
#include "tools/urtrs-mapd/parameters.hpp"

namespace rtrs::mapd {

namespace {

enum ExitCode : int { done = 0, failed = 1, usage = 2, missing = 3 };

std::string errno_text(int error) {
  return fmt::format("{} (errno {})", std::strerror(error), error);
}

// Sends a line to the service manager, as in sd_notify(3). Does nothing if NOTIFY_SOCKET is not set.
void notify(const std::string& line) {
  const char* name = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  if (name == nullptr || *name == '\0' || std::strlen(name) >= sizeof(address.sun_path)) return;
  const int fd = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  address.sun_family = AF_UNIX;
  const std::size_t length = std::strlen(name);
  std::memcpy(address.sun_path, name, length);
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
  if (fd < 0 || ::sendto(fd, line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                         reinterpret_cast<const sockaddr*>(&address), size) < 0)
    log(4, fmt::format("cannot notify the service manager at NOTIFY_SOCKET={}: {}", name, errno_text(errno)));
  if (fd >= 0) ::close(fd);
}

struct Lock {
  const char* step = "";  // failed step: "open" or "lock"
  int error = 0;          // 0: this process holds the lock until it ends
};

Lock try_lock(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (fd < 0) return {"open", errno};
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return {};
  const int error = errno;
  ::close(fd);
  return {"lock", error};
}

// Takes the lock until the process ends. Returns "" or an error text.
std::string take_lock(const std::string& file) {
  const auto [step, error] = try_lock(file);
  if (error == 0) return {};
  if (error == EWOULDBLOCK)
    return fmt::format(
        "another urtrs-mapd uses \"{}\"; start this one with a different --state and URTRS_RUNTIME_DIR",
        file);
  return fmt::format("cannot {} \"{}\": {}; set another place with --state or URTRS_RUNTIME_DIR", step, file,
                     errno_text(error));
}

// Creates the directory of the state file. Locks the state file and the directory of the sockets, so that no
// other urtrs-mapd uses them.
std::string prepare(const Options& options) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(options.state).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return fmt::format("cannot create the folder \"{}\": {}", folder.string(), error.message());
  if (std::string why = take_lock(options.state + ".lock"); !why.empty()) return why;
  return take_lock(options.folder + "/urtrs-mapd.lock");
}

struct Loaded {
  mapping::Wishes wishes;
  bool lost = false;  // the state file was damaged, so `wishes` does not contain what was requested
};

// True if the file is not a state file, so it must not be renamed or overwritten.
bool is_foreign(const tl::expected<std::string, int>& text) {
  if (text) return !mapping::may_be_state(*text);
  const int error = text.error();
  return error == ELOOP || error == EISDIR || error == EINVAL || error == EFBIG;
}

tl::expected<Loaded, std::string> load(const std::string& file) {
  const auto text = mapping::read_state(file);
  if (!text && text.error() == ENOENT) return Loaded{};
  std::string why = text ? "" : errno_text(text.error());
  if (text) {
    auto wishes = mapping::parse_state(*text);
    if (wishes) return Loaded{std::move(*wishes), false};
    why = wishes.error().why;
    if (wishes.error().line != 0) why = fmt::format("line {}: {}", wishes.error().line, why);
    if (wishes.error().newer)
      return tl::unexpected(fmt::format(
          "\"{}\" was written by a later urtrs-mapd: {}; use that version, or another --state", file, why));
  } else if (text.error() == EACCES) {
    return tl::unexpected(fmt::format("cannot read \"{}\": {}", file, why));
  }
  if (is_foreign(text))
    return tl::unexpected(
        fmt::format("\"{}\" is not a state file of urtrs-mapd: {}; it was not changed: use another --state, "
                    "or move the file away",
                    file, why));
  const auto aside = mapping::set_aside(file);
  if (!aside)
    return tl::unexpected(
        fmt::format("\"{}\" is damaged: {}; it cannot be renamed: {}", file, why, errno_text(aside.error())));
  log(3, fmt::format(
             "\"{}\" is damaged: {}; it is \"{}\" now. Only running sessions stay mapped and are saved in a "
             "new file: map the other devices again, or stop urtrs-mapd, fix the file and rename it back",
             file, why, *aside));
  return Loaded{{}, true};
}

int serve(const Options& options, Loaded loaded) {
  boost::asio::io_context context(1);
  mapping::Supervisor::Options how;
  how.ends_unwanted_processes = !loaded.lost;
  Keeper keeper(context, options, loaded.wishes, how);
  auto control = open_control(context, options, keeper);
  if (!control) {
    log(3, control.error());
    return missing;
  }
  log_times();
  keeper.begin();  // after the socket is open, because a program that cannot listen must start no process
  boost::asio::signal_set signals(context, SIGTERM, SIGINT);
  signals.async_wait([&](const boost::system::error_code& error, int) {
    if (error) return;
    notify("STOPPING=1\n");
    control->reset();
    if (!options.end_devices) return context.stop();
    keeper.end_all([&context] { context.stop(); });
  });
  log(6, "ready");
  notify("READY=1\n");
  context.run();
  log(6, options.end_devices ? "stopped" : "stopped; devices stay available");
  return done;
}

// Keeps NBD devices of the kernel connected until a signal arrives. The devices stay after that: while a
// device has no connection, the kernel holds its IO.
int keep_kernel_devices() {
  if (!kernel_nbd::has_netlink()) {
    log(3,
        "--kernel-devices: this urtrs-mapd was built without libnl; install libnl-genl-3-dev and build it "
        "again");
    return missing;
  }
  const std::string file = kernel_nbd::keeper_lock_file();
  std::error_code ignored;  // if this fails, try_lock() reports the error
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), ignored);
  Lock lock = try_lock(file);
  // Retries, because "urtrs map" takes the lock for a moment to test it.
  for (int turn = 0; turn < 10 && lock.error == EWOULDBLOCK; ++turn) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    lock = try_lock(file);
  }
  if (lock.error != 0) {
    log(3,
        lock.error == EWOULDBLOCK
            ? fmt::format("another urtrs-mapd --kernel-devices uses \"{}\"; one is enough for all devices",
                          file)
            : fmt::format("cannot {} \"{}\": {}; run it as root, or set another place with URTRS_RUNTIME_DIR",
                          lock.step, file, errno_text(lock.error)));
    return missing;
  }
  log_times();
  boost::asio::io_context context(1);
  kernel_nbd::Driver devices(context, kernel_nbd::Places(), kernel_nbd::Keeper::Options(), log);
  devices.begin();
  boost::asio::signal_set signals(context, SIGTERM, SIGINT);
  signals.async_wait([&](const boost::system::error_code& error, int) {
    if (!error) context.stop();
  });
  log(6, "ready");
  notify("READY=1\n");
  context.run();
  notify("STOPPING=1\n");
  log(6, "stopped; devices stay available");
  return done;
}

// Sets `program` to the program of --nbdkit, or to nbdkit-urtrs. Returns an error text if it cannot be
// executed, otherwise "".
std::string find_nbdkit(std::string& program) {
  std::string found = program;
  if (program.empty() || program.find('/') == std::string::npos)
    found = tools::find_program(program.empty() ? "nbdkit-urtrs" : program);
  if (found.empty())
    return fmt::format(
        "{} not found beside this program or in PATH; apt-get install nbdkit-plugin-urtrs, or name it with "
        "--nbdkit",
        program.empty() ? "nbdkit-urtrs" : "\"" + program + "\"");
  struct stat about {};
  const bool runs = ::stat(found.c_str(), &about) == 0 && ::access(found.c_str(), X_OK) == 0;
  if (!runs || !S_ISREG(about.st_mode))
    return fmt::format(
        "--nbdkit: \"{}\" cannot be run: {}; use nbdkit-urtrs of the package nbdkit-plugin-urtrs, or a "
        "program with the same arguments",
        found, runs ? "it is not a file" : errno_text(errno));
  program = std::move(found);
  return {};
}

// A missing file only causes a warning, because it may appear before the first session needs it.
void warn_of_missing_files(const std::vector<std::string>& parameters) {
  for (const std::string& one : parameters) {
    const std::size_t equals = one.find('=');
    if (equals == std::string::npos || !mapping::is_credential_file(one.substr(0, equals))) continue;
    if (::access(one.c_str() + equals + 1, R_OK) != 0)
      log(4, fmt::format("{}: {}; no session that needs it can be mapped before it can be read", one,
                         std::strerror(errno)));
  }
}

int show_help(const std::string& topic) {
  const std::string whole = tools::wrapped(kHelp);
  const std::string found = topic.empty() ? whole
                                          : tools::help_entries_about(whole, topic) +
                                                tools::help_entries_about(plugin::settings_help(), topic);
  std::fputs(found.c_str(), stdout);
  if (!found.empty()) return done;
  std::fprintf(stderr, "urtrs-mapd: unknown option or parameter \"%s\"; see urtrs-mapd --help\n",
               tools::printable(topic).c_str());
  return usage;
}

int run(const std::vector<std::string>& words) {
  auto options = parse(words);
  if (!options) {
    const std::string why = tools::printable(options.error());
    std::fprintf(stderr, "urtrs-mapd: %s\n", why.c_str());
    if (std::find(words.begin(), words.end(), "--json") != words.end())
      std::fputs(tools::json_error(usage, why).c_str(), stdout);
    return usage;
  }
  if (options->help) return show_help(options->topic);
  if (options->version) {
    std::fputs(options->json ? tools::version_json("urtrs-mapd").c_str()
                             : (tools::version_text("urtrs-mapd") + "\n").c_str(),
               stdout);
    return done;
  }
  if (options->kernel_devices) return keep_kernel_devices();
  if (const std::string why = find_nbdkit(options->nbdkit); !why.empty()) {
    log(3, why);
    return missing;
  }
  if (auto path = rpc::make_socket_path("urtrs-mapd"); !path) {
    log(3, path.error());
    return missing;
  }
  if (const std::string why = prepare(*options); !why.empty()) {
    log(3, why);
    return missing;
  }
  auto loaded = load(options->state);
  if (!loaded) {
    log(3, loaded.error());
    return missing;
  }
  for (const auto& [session, wish] : loaded->wishes) {
    const std::string wrong = wrong_parameters(wish, options->parameters);
    if (wrong.empty()) continue;
    log(3,
        fmt::format("session {}, fabric {}: {}; change the parameters on the command line, or the session in "
                    "\"{}\"",
                    session, wish.fabric, wrong, options->state));
    return missing;
  }
  warn_of_missing_files(options->parameters);
  return serve(*options, std::move(*loaded));
}

}  // namespace

}  // namespace rtrs::mapd

int main(int argc, char** argv) {
  rtrs::tools::hold_standard_streams();
  std::signal(SIGPIPE, SIG_IGN);
  int code = 1;
  try {
    code = rtrs::mapd::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    rtrs::mapd::log(3, error.what());
  }
  return rtrs::tools::written("urtrs-mapd", code, 1);
}
