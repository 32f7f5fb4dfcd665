#include "tools/urtrs-fs/remote_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <thread>

#include "tools/lib/control/attributes/map_request.hpp"
#include "tools/lib/control/attributes/server_tree.hpp"
#include "tools/lib/control/rpc/socket_path.hpp"

namespace rtrs::fs_tool {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

namespace {

// Time limit of a write. Longer than one minute, because a client may take a minute to reply to a write.
constexpr std::chrono::seconds kWritePatience{65};
constexpr std::string_view kMapDevice = "rnbd-client/ctl/map_device";

std::optional<Entry::Kind> kind_of(const json& word) {
  if (word == "folder") return Entry::Kind::folder;
  if (word == "file") return Entry::Kind::file;
  if (word == "link") return Entry::Kind::link;
  return std::nullopt;
}

// True if the connection failed. False if the request failed.
bool is_connection_error(const rpc::Error& error) {
  return error.error == EPIPE || error.error == ECONNRESET || error.error == ECONNREFUSED;
}

// Removes the leading slash from a path that FUSE passed.
std::string relative(const std::string& path) {
  return path.substr(std::min(path.find_first_not_of('/'), path.size()));
}

bool is_map_device(const std::string& path) {
  const std::string_view text = path;
  return text.size() >= kMapDevice.size() && text.substr(text.size() - kMapDevice.size()) == kMapDevice;
}

bool has_block_devices(const std::string& path) {
  return path == "block" || path == "devices/virtual/block";
}

tl::expected<Entry, int> parse_entry(const json& answer) {
  Entry entry;
  const auto kind = kind_of(answer.value("kind", json()));
  if (!kind) return tl::unexpected(EPROTO);
  entry.kind = *kind;
  entry.mode = answer.value("mode", 0U) & 0777U;
  entry.target = answer.value("target", "");
  const json names = answer.value("entries", json::object());
  for (const auto& [name, word] : names.items())
    if (const auto of = kind_of(word)) entry.names.emplace(name, *of);
  return entry;
}

}  // namespace

RemoteTree::Role RemoteTree::role_of(const std::string& path) {
  const auto is_below = [&](std::string_view folder) {
    return std::string_view(path).substr(0, folder.size()) == folder &&
           (path.size() == folder.size() || path[folder.size()] == '/');
  };
  for (const std::string_view top : {"class/", "devices/virtual/"})
    for (const std::string_view module : {"rtrs", "rnbd"}) {
      if (is_below(fmt::format("{}{}-server", top, module))) return Role::server;
      if (is_below(fmt::format("{}{}-client", top, module))) return Role::client;
    }
  if (is_below("block") || is_below("devices/virtual/block")) return Role::client;
  return is_below("module") ? Role::server : Role::unknown;
}

int RemoteTree::nobody() const {
  const bool all_gone =
      std::all_of(sources_.begin(), sources_.end(), [](const Source& one) { return !one.client; });
  return all_gone ? ENOTCONN : ENOENT;
}

// Returns the processes that may have the path, in the order in which they are asked.
std::vector<RemoteTree::Place> RemoteTree::places_of(const std::string& path) {
  const Role role = role_of(path);
  std::vector<Place> places;
  for (Source& source : sources_)
    if (role == Role::unknown || source.role == Role::unknown || source.role == role)
      places.push_back({&source, path});
  return places;
}

void RemoteTree::refresh() {
  std::vector<Source> now;
  const auto add = [&](const std::string& socket, Role role) {
    const auto known = std::find_if(sources_.begin(), sources_.end(),
                                    [&](const Source& one) { return one.socket == socket; });
    if (known != sources_.end())
      now.push_back(std::move(*known));
    else
      now.push_back({socket, role});
  };
  if (!socket_.empty()) return sources_.empty() ? sources_.push_back({socket_, Role::unknown}) : void();
  for (const std::string& one : rpc::sockets("urtrsd")) add(one, Role::server);
  for (const std::string& one : rpc::sockets("client")) add(one, Role::client);
  sources_ = std::move(now);
}

tl::expected<void, rpc::Error> RemoteTree::connect(Source& source) {
  if (source.client) return {};
  auto client =
      rpc::Client::connect(source.socket, std::min(source.patience.time(false), rpc::Client::kPatience));
  if (!client) return tl::unexpected(std::move(client.error()));
  source.client.emplace(std::move(*client));
  return {};
}

std::string RemoteTree::check() {
  const std::lock_guard held(mutex_);
  refresh();
  rpc::Error why;
  for (Source& source : sources_) {
    const auto connected = connect(source);
    if (connected) return {};
    why = connected.error();
  }
  if (socket_.empty())
    return fmt::format(
        "no urtrsd or client has a control socket in {}; start one, or name its socket with --socket",
        rpc::runtime_folder());
  return why.message + (why.hint.empty() ? "" : "; " + why.hint);
}

RemoteTree::Answer RemoteTree::call(Source& source, const char* method, const std::string& path) {
  const auto silent = [&source] {
    source.patience.silent(Clock::now());
    return tl::unexpected(ETIMEDOUT);
  };
  if (!source.patience.asks(Clock::now())) return tl::unexpected(ETIMEDOUT);
  // If the connection has failed, retries once on a new connection, because the old one may belong to a
  // process that has ended.
  for (const bool again : {true, false}) {
    if (const auto connected = connect(source); !connected) {
      if (connected.error().error == ETIMEDOUT) return silent();
      return tl::unexpected(ENOTCONN);
    }
    auto answer = source.client->call(method, {{"path", path}}, source.patience.time(sources_.size() == 1));
    if (answer) {
      source.patience.answered();
      return answer.value();
    }
    const rpc::Error& error = answer.error();
    if (error.code == rpc::Code::busy || error.error == ETIMEDOUT || is_connection_error(error))
      source.client.reset();
    if (again && is_connection_error(error)) continue;
    if (error.error == ETIMEDOUT) return silent();
    return tl::unexpected(error.error != 0 ? error.error : EIO);
  }
  return tl::unexpected(ENOTCONN);
}

void RemoteTree::renumber() {
  std::set<BlockNumbers::Device> devices;
  for (Source& source : sources_) {
    if (source.role == Role::server) continue;
    const Answer answer = call(source, "attribute.look", "block");
    // The devices of a client that does not answer stay in the list, so that their numbers are not given to
    // devices of other clients.
    if (!answer && answer.error() == ETIMEDOUT) devices.merge(numbers_.devices_of(source.socket));
    if (!answer) continue;
    const auto entry = parse_entry(*answer);
    if (!entry) continue;
    for (const auto& [name, kind] : entry->names)
      if (const auto number = block_number(name)) devices.emplace(source.socket, *number);
  }
  numbers_.set(devices);
}

// Translates the path of a block device to the client that has it, with the number that this client uses.
tl::expected<RemoteTree::Place, int> RemoteTree::place_of(const std::string& path) {
  const auto block = block_path(path);
  renumber();
  const auto device = block ? numbers_.device_of(block->number) : std::nullopt;
  if (!device) return tl::unexpected(ENOENT);
  const auto source = std::find_if(sources_.begin(), sources_.end(),
                                   [&](const Source& one) { return one.socket == device->first; });
  if (source == sources_.end()) return tl::unexpected(ENOENT);
  return Place{&*source, block->before + block_name(device->second) + block->behind};
}

// Returns the entry that one process has at the path. Device numbers in the entry are translated to numbers
// of this tree.
tl::expected<Entry, int> RemoteTree::look_at(const Place& place) {
  const Answer answer = call(*place.source, "attribute.look", place.path);
  if (!answer) return tl::unexpected(answer.error());
  auto entry = parse_entry(*answer);
  if (!entry || place.source->role == Role::server) return entry;
  const std::size_t begin = entry->target.rfind('/') + 1;
  if (const auto own = block_number(std::string_view(entry->target).substr(begin))) {
    renumber();
    const auto number = numbers_.number_of({place.source->socket, *own});
    if (!number) return tl::unexpected(ENOENT);
    entry->target = entry->target.substr(0, begin) + block_name(*number);
  }
  if (!has_block_devices(place.path)) return entry;
  renumber();
  std::map<std::string, Entry::Kind> names;
  for (const auto& [name, kind] : entry->names) {
    const auto own = block_number(name);
    const auto number = own ? numbers_.number_of({place.source->socket, *own}) : std::nullopt;
    if (number) names.emplace(block_name(*number), kind);
  }
  entry->names = std::move(names);
  return entry;
}

// Merges the entries of all processes that have the path. Error ENOENT: no process has the path.
tl::expected<Entry, int> RemoteTree::join(const std::string& path) {
  std::optional<Entry> joined;
  int error = nobody();
  for (const Place& place : places_of(path)) {
    const auto entry = look_at(place);
    if (!entry) {
      // Any other error takes precedence over ENOENT, because a process that did not answer may have the
      // path.
      if (entry.error() != ENOTCONN && (error == ENOTCONN || error == ENOENT)) error = entry.error();
    } else if (!joined) {
      joined = *entry;
      if (joined->kind != Entry::Kind::folder) break;
    } else if (entry->kind == Entry::Kind::folder) {
      joined->names.insert(entry->names.begin(), entry->names.end());
    }
  }
  if (!joined) return tl::unexpected(error);
  return std::move(*joined);
}

tl::expected<Entry, int> RemoteTree::look(const std::string& path) {
  const std::lock_guard held(mutex_);
  refresh();
  const std::string there = relative(path);
  if (!block_path(there)) return join(there);
  const auto place = place_of(there);
  return place ? look_at(*place) : tl::unexpected(place.error());
}

tl::expected<std::string, int> RemoteTree::read(const std::string& path) {
  const std::lock_guard held(mutex_);
  refresh();
  const std::string there = relative(path);
  std::vector<Place> places;
  if (block_path(there)) {
    auto place = place_of(there);
    if (!place) return tl::unexpected(place.error());
    places.push_back(std::move(*place));
  } else {
    places = places_of(there);
  }
  int error = nobody();
  for (const Place& place : places) {
    const Answer answer = call(*place.source, "attribute.read", place.path);
    if (answer) return answer->value("text", "");
    if (answer.error() != ENOTCONN && (error == ENOTCONN || error == ENOENT)) error = answer.error();
  }
  return tl::unexpected(error);
}

// Returns the client of the session in which a device is to be mapped.
tl::expected<RemoteTree::Place, int> RemoteTree::client_for(const std::string& path,
                                                            const std::string& map_request) {
  const auto request =
      attributes::parse_map_request(map_request, std::max(std::thread::hardware_concurrency(), 1U));
  if (!request) return tl::unexpected(request.error());
  for (const Place& one : places_of("class/rtrs-client")) {
    const auto sessions = look_at(one);
    if (sessions && sessions->names.contains(attributes::entry_name(request->session)))
      return Place{one.source, path};
  }
  const int problem = attributes::new_session_problem(*request);
  // A write cannot open a new session, so an unknown session is an error.
  return tl::unexpected(problem != 0 ? problem : ENODEV);
}

// Returns the socket of the process that has the file. `there` becomes the path in the tree of that process.
tl::expected<std::string, int> RemoteTree::socket_for(const std::string& path, const std::string& text,
                                                      std::string& there) {
  refresh();
  tl::expected<Place, int> place = tl::unexpected(nobody());
  if (block_path(path)) {
    place = place_of(path);
  } else if (is_map_device(path)) {
    place = client_for(path, text);
  } else {
    for (Place& one : places_of(path)) {
      const auto entry = look_at(one);
      if (!entry) {
        // As in join(), a process that does not answer may have the file.
        const bool unknown = place.error() == ENOTCONN || place.error() == ENOENT;
        if (entry.error() != ENOTCONN && unknown) place = tl::unexpected(entry.error());
        continue;
      }
      place = std::move(one);
      break;
    }
  }
  if (!place) return tl::unexpected(place.error());
  there = place->path;
  return place->source->socket;
}

int RemoteTree::write(const std::string& path, const std::string& text) {
  // Linux ignores what follows the first zero byte.
  const std::string until_zero = text.substr(0, text.find('\0'));
  std::string there;
  tl::expected<std::string, int> socket;
  {
    const std::lock_guard held(mutex_);
    socket = socket_for(relative(path), until_zero, there);
  }
  if (!socket) return socket.error();
  // Uses a separate connection and does not hold the mutex, because a write may take long.
  auto client = rpc::Client::connect(*socket);
  if (!client) return client.error().error == ETIMEDOUT ? ETIMEDOUT : ENOTCONN;
  const auto answer =
      client->call("attribute.write", {{"path", there}, {"text", until_zero}}, kWritePatience);
  if (answer) return 0;
  return answer.error().error != 0 ? answer.error().error : EIO;
}

}  // namespace rtrs::fs_tool
