// nbdkit-urtrs-plugin.so serves remote devices to NBD clients. It connects the callbacks of nbdkit, which
// many threads call in parallel, with one Remote that all connections share.
#define NBDKIT_API_VERSION 2
#include <nbdkit-plugin.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>

#include "core/record/format.hpp"
#include "tools/lib/control/fabric/own_identity.hpp"
#include "tools/lib/text/log_stamp.hpp"
#include "tools/lib/text/printable.hpp"
#include "tools/lib/text/session_name.hpp"
#include "tools/nbdkit/explain.hpp"
#include "tools/nbdkit/line_queue.hpp"
#include "tools/nbdkit/own_command_line.hpp"
#include "tools/nbdkit/own_log.hpp"
#include "tools/nbdkit/own_signals.hpp"
#include "tools/nbdkit/own_socket.hpp"
#include "tools/nbdkit/remote.hpp"
#include "tools/nbdkit/start_report.hpp"
#include "tools/nbdkit/status_file.hpp"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

namespace {

using namespace rtrs;
using wire::rnbd::Opcode;

plugin::Settings settings;
// Created in after_fork. Declared before `remote`, so that it is destroyed later: `remote` logs until it is
// destroyed.
std::unique_ptr<nbdkit::LineQueue> lines;
std::atomic<bool> with_times{false};
std::unique_ptr<nbdkit::Remote> remote;

int fail(const std::string& why) {
  if (lines)
    lines->push(true, why);
  else
    nbdkit_error("%s", why.c_str());
  return -1;
}

// Runs on the thread of a LineQueue, which is not a thread of nbdkit.
void print(bool important, const std::string& text) {
  // NBD clients and servers choose names in the text, so it is escaped.
  const std::string line = tools::printable(text);
  // Uses nbdkit_error(), because nbdkit in the background has no standard error and writes to syslog.
  if (important) {
    nbdkit_error("%s", line.c_str());
  } else {
    nbdkit_debug("%s", line.c_str());
  }
}

void show(bool important, const std::string& line) {
  lines->push(important, line);
}

void unload() {
  remote.reset();
  lines.reset();
  nbdkit::leave_end_signals();
}

int config(const char* key, const char* value) {
  const auto done = settings.set(key, value);
  return done ? 0 : fail(done.error());
}

int config_complete() {
  std::array<char, 4096> directory{};
  if (::getcwd(directory.data(), directory.size()) == nullptr) directory[0] = '\0';
  if (nbdkit::asks_for_read_only(nbdkit::own_command_line())) settings.read_only_asked = true;
  std::string who = tools::own_identity(settings.fabric.fabric, settings.fabric.tls, settings.fabric.auth);
  if (who.empty()) who = tools::short_host_name();
  const auto done = settings.complete(who, tools::random_part(), directory.data());
  if (!done) return fail(done.error());
  const std::string why = settings.status.empty() ? "" : nbdkit::check_status_file(settings.status);
  return why.empty() ? 0 : fail(why);
}

// Opens no device: the device is opened once, in after_fork. If it were opened and closed here to try it,
// another client could take the write access before after_fork.
int get_ready() {
  // Opening takes at most name_in_use_timeout(). If it fails, closing takes at most close_timeout.
  const Nanos bound = settings.name_in_use_timeout() + settings.protocol.close_timeout + seconds(30);
  const int error = nbdkit::await_start_in_fork(
      bound, [](const char* why) { nbdkit_error("%s", why); }, nbdkit::end_signalled);
  return error == 0 ? 0 : fail(std::string("cannot prepare for the fork: ") + std::strerror(error));
}

int after_fork() {
  nbdkit::watch_end_signals();
  with_times = nbdkit::log_needs_times();
  lines = std::make_unique<nbdkit::LineQueue>(print, std::chrono::seconds(1), [] {
    return with_times ? tools::log_stamp(std::chrono::system_clock::now()) : std::string();
  });
  auto opened = nbdkit::Remote::open(settings, show, [](bool at_start) {
    return nbdkit::end_signalled() || (at_start && nbdkit::starter_ends());
  });
  const bool printed = nbdkit::report_start(opened ? std::string() : opened.error());
  if (!opened) {
    // If after_fork fails, nbdkit does not remove its socket, whose file would prevent the next start.
    nbdkit::remove_own_socket(nbdkit::unix_socket_of(nbdkit::own_command_line(), settings.directory));
    lines.reset();
    if (!printed)
      // No time stamp, because the user who started nbdkit sees the message immediately.
      fail(opened.error());
    return -1;
  }
  remote = std::move(*opened);
  nbdkit::take_own_log();
  with_times = nbdkit::log_needs_times();
  return 0;
}

void cleanup() {
  remote.reset();
}

struct Connection {
  nbdkit::Remote::Use use;
  std::string description;
};

nbdkit::Remote::Use& use_of(void* handle) {
  return static_cast<Connection*>(handle)->use;
}

std::string description_of(const std::string& device) {
  return "device " + device + " over RTRS from " + settings.paths.front() + ", session " + settings.session;
}

// Export names of NBD must be UTF-8; nbdkit rejects other names.
bool has_default() {
  return settings.one_device() && trace::is_utf8(settings.devices.front());
}

// Returns the export for clients that name none. If several devices are served, there is no default, and
// open_connection() returns an error.
const char* default_export(int, int) {
  return has_default() ? settings.devices.front().c_str() : "";
}

int list_exports(int, int, nbdkit_exports* exports) {
  if (settings.one_device() && !has_default()) return nbdkit_use_default_export(exports);
  for (const std::string& name : remote->names()) {
    if (trace::is_utf8(name) && nbdkit_add_export(exports, name.c_str(), description_of(name).c_str()) != 0)
      return -1;
  }
  return 0;
}

void* open_connection(int readonly) {
  const char* const asked = nbdkit_export_name();
  const auto use = remote->attach(asked != nullptr ? asked : "", readonly != 0);
  if (!use) {
    lines->push(nbdkit::LineQueue::Flood::refused_export, use.error());
    return nullptr;
  }
  return new Connection{*use, description_of(use->device->name)};
}

void close_connection(void* handle) {
  remote->detach(use_of(handle));
  delete static_cast<Connection*>(handle);
}

const char* export_description(void* handle) {
  return static_cast<Connection*>(handle)->description.c_str();
}

rnbd::Geometry geometry(void* handle) {
  return remote->shape(use_of(handle)).geometry;
}

int64_t get_size(void* handle) {
  return static_cast<int64_t>(geometry(handle).nsectors * wire::rnbd::kSectorBytes);
}

int can_write(void* handle) {
  return remote->shape(use_of(handle)).writable ? 1 : 0;
}
int can_flush(void*) {
  return 1;
}
int can_fua(void*) {
  return NBDKIT_FUA_NATIVE;
}
int can_trim(void* handle) {
  return geometry(handle).max_discard_sectors != 0 ? 1 : 0;
}
int can_zero(void* handle) {
  return geometry(handle).max_write_zeroes_sectors != 0 ? 1 : 0;
}
// A fast-zero request must fail if it would be slower than a plain write of zeroes. How fast the server
// zeroes is unknown, so zero() rejects such requests at once, which the NBD protocol allows.
int can_fast_zero(void*) {
  return 1;
}
int is_rotational(void*) {
  return 0;
}
int can_multi_conn(void*) {
  return 1;
}

int block_size(void* handle, uint32_t* minimum, uint32_t* preferred, uint32_t* maximum) {
  constexpr uint32_t kLargest = 32U << 20;
  const rnbd::Geometry shape = geometry(handle);
  *minimum = shape.logical_block_size;
  // The server may report any size, but NBD and nbdkit only accept powers of two.
  const uint32_t physical = std::bit_floor(uint32_t{shape.physical_block_size});
  const uint32_t good = std::max({physical, *minimum, uint32_t{4096}});
  *preferred = std::min(good, kLargest);
  *maximum = kLargest;
  return 0;
}

int perform(void* handle, Opcode opcode, uint64_t offset, uint64_t length, std::byte* data, uint32_t flags) {
  BlockRequest io;
  io.opcode = opcode;
  io.offset = offset;
  io.length = length;
  io.data = data;
  io.fua = (flags & NBDKIT_FLAG_FUA) != 0;
  // nbdkit expresses NBD_CMD_FLAG_NO_HOLE by not setting MAY_TRIM.
  io.nounmap = opcode == Opcode::write_zeroes && (flags & NBDKIT_FLAG_MAY_TRIM) == 0;
  const int error = remote->io(use_of(handle), io);
  if (error == 0) return 0;
  const bool can_be_unsupported = opcode == Opcode::discard || opcode == Opcode::write_zeroes;
  nbdkit_set_error(nbdkit::nbd_errno(error, can_be_unsupported));
  lines->push(nbdkit::LineQueue::Flood::failed_request, remote->failure_text(use_of(handle), io, error));
  return -1;
}

int pread(void* handle, void* buffer, uint32_t count, uint64_t offset, uint32_t flags) {
  return perform(handle, Opcode::read, offset, count, static_cast<std::byte*>(buffer), flags);
}
int pwrite(void* handle, const void* buffer, uint32_t count, uint64_t offset, uint32_t flags) {
  // The cast is safe, because a write does not modify its data.
  auto* data = const_cast<std::byte*>(static_cast<const std::byte*>(buffer));
  return perform(handle, Opcode::write, offset, count, data, flags);
}
int flush(void* handle, uint32_t flags) {
  return perform(handle, Opcode::flush, 0, 0, nullptr, flags);
}
int trim(void* handle, uint32_t count, uint64_t offset, uint32_t flags) {
  return perform(handle, Opcode::discard, offset, count, nullptr, flags);
}
int zero(void* handle, uint32_t count, uint64_t offset, uint32_t flags) {
  if ((flags & NBDKIT_FLAG_FAST_ZERO) != 0) {
    nbdkit_set_error(EOPNOTSUPP);
    return -1;
  }
  return perform(handle, Opcode::write_zeroes, offset, count, nullptr, flags);
}

void dump_plugin() {
  std::printf("urtrs_protocol=2.0\nurtrs_default_port=%u\nurtrs_default_provider=%s\n", settings.port,
              settings.fabric.provider.c_str());
}

// `extents` and `cache` stay unset, because RNBD has no requests for the allocation status and for
// prefetching.
nbdkit_plugin make_plugin() {
  nbdkit_plugin made{};
  made.name = "urtrs";
  made.longname = "urtrs: remote block devices over RTRS and RNBD";
  made.version = URTRS_VERSION;
  made.description = "Makes devices that an RNBD server exports available to NBD clients.";
  made.unload = unload;
  made.config = config;
  made.config_complete = config_complete;
  made.config_help = plugin::settings_help();
  made.magic_config_key = "device";
  made.get_ready = get_ready;
  made.after_fork = after_fork;
  made.cleanup = cleanup;
  made.dump_plugin = dump_plugin;
  made.list_exports = list_exports;
  made.default_export = default_export;
  made.open = open_connection;
  made.close = close_connection;
  made.export_description = export_description;
  made.get_size = get_size;
  made.can_write = can_write;
  made.can_flush = can_flush;
  made.can_fua = can_fua;
  made.can_trim = can_trim;
  made.can_zero = can_zero;
  made.can_fast_zero = can_fast_zero;
  made.is_rotational = is_rotational;
  made.can_multi_conn = can_multi_conn;
  made.block_size = block_size;
  made.pread = pread;
  made.pwrite = pwrite;
  made.flush = flush;
  made.trim = trim;
  made.zero = zero;
  return made;
}

nbdkit_plugin urtrs_plugin = make_plugin();

}  // namespace

NBDKIT_REGISTER_PLUGIN(urtrs_plugin)
