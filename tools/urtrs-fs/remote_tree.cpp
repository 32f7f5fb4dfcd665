#include "tools/urtrs-fs/remote_tree.hpp"

#include <cerrno>

#include "tools/lib/rpc/socket_path.hpp"

namespace rtrs::admin {

using nlohmann::json;

namespace {

// Requests come one at a time, so a daemon that hangs holds up each that waits behind it.
constexpr std::chrono::seconds kPatience{5};

std::optional<Entry::Kind> kind_of(const json& word) {
  if (word == "folder") return Entry::Kind::folder;
  if (word == "file") return Entry::Kind::file;
  if (word == "link") return Entry::Kind::link;
  return std::nullopt;
}

// Of the connection, not of what was asked.
bool is_gone(const rpc::Error& error) {
  return error.error == EPIPE || error.error == ECONNRESET || error.error == ECONNREFUSED;
}

}  // namespace

tl::expected<void, rpc::Error> RemoteTree::connect() {
  if (client_) return {};
  auto socket = socket_.empty() ? rpc::only_socket("urtrsd") : tl::expected<std::string, rpc::Error>(socket_);
  if (!socket) return tl::unexpected(std::move(socket.error()));
  auto client = rpc::Client::connect(*socket);
  if (!client) return tl::unexpected(std::move(client.error()));
  client_.emplace(std::move(*client));
  return {};
}

std::string RemoteTree::check() {
  const std::lock_guard held(mutex_);
  const auto connected = connect();
  if (connected) return {};
  const rpc::Error& error = connected.error();
  return error.message + (error.hint.empty() ? "" : "; " + error.hint);
}

tl::expected<json, int> RemoteTree::call(const char* method, const json& parameters) {
  const std::lock_guard held(mutex_);
  // Once more over a new connection, when the one of before is that of a daemon that has ended.
  for (const bool again : {true, false}) {
    if (!connect()) return tl::unexpected(ENOTCONN);
    auto answer = client_->call(method, parameters, kPatience);
    if (answer) return answer.value();
    const rpc::Error& error = answer.error();
    if (error.code == rpc::Code::busy || error.error == ETIMEDOUT || is_gone(error)) client_.reset();
    if (again && is_gone(error)) continue;
    return tl::unexpected(error.error != 0 ? error.error : EIO);
  }
  return tl::unexpected(ENOTCONN);
}

tl::expected<Entry, int> RemoteTree::look(const std::string& path) {
  const auto answer = call("attribute.look", {{"path", path}});
  if (!answer) return tl::unexpected(answer.error());
  Entry entry;
  const auto kind = kind_of(answer->value("kind", json()));
  if (!kind) return tl::unexpected(EPROTO);
  entry.kind = *kind;
  entry.mode = answer->value("mode", 0U) & 0777U;
  entry.target = answer->value("target", "");
  const json names = answer->value("entries", json::object());
  for (const auto& [name, word] : names.items())
    if (const auto of = kind_of(word)) entry.names.emplace(name, *of);
  return entry;
}

tl::expected<std::string, int> RemoteTree::read(const std::string& path) {
  const auto answer = call("attribute.read", {{"path", path}});
  if (!answer) return tl::unexpected(answer.error());
  return answer->value("text", "");
}

int RemoteTree::write(const std::string& path, const std::string& text) {
  // Linux reads what is written up to the first zero byte.
  const std::string until_zero = text.substr(0, text.find('\0'));
  const auto answer = call("attribute.write", {{"path", path}, {"text", until_zero}});
  return answer ? 0 : answer.error();
}

}  // namespace rtrs::admin
