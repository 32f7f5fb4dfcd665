#include "tools/urtrs/live_names.hpp"

#include <algorithm>
#include <chrono>

#include "tools/lib/control/rpc/client.hpp"
#include "tools/lib/control/rpc/socket_path.hpp"
#include "tools/urtrs/doctor/doctor_host.hpp"
#include "tools/urtrs/views/client_views.hpp"
#include "tools/urtrs/views/mappings.hpp"
#include "tools/urtrs/views/views.hpp"

namespace rtrs::admin {

using nlohmann::json;

namespace {

constexpr std::chrono::milliseconds kPatience{1000};

// Returns the values in a column, except those with spaces or control characters: a peer can choose any name.
std::vector<std::string> column(const Table& table, const char* field) {
  std::vector<std::string> names;
  for (const Row& row : table.rows) {
    const auto found = row.values.find(field);
    if (found == row.values.end() || !found->is_string()) continue;
    const std::string name = found->get<std::string>();
    const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
      return static_cast<unsigned char>(c) > 0x20 && c != 0x7f;
    });
    if (plain && printable(name) == name && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  return names;
}

}  // namespace

LiveNames::LiveNames(const std::vector<std::string>& words) {
  constexpr std::string_view kOption = "--socket";
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i == 0 && words[i] == "client") client_ = true;
    if (words[i] == kOption && i + 1 < words.size()) socket_ = words[i + 1];
    if (words[i].rfind(std::string(kOption) + "=", 0) == 0) socket_ = words[i].substr(kOption.size() + 1);
  }
}

const json& LiveNames::shown() {
  if (shown_) return *shown_;
  if (client_) return shown_.emplace(of_clients());
  shown_ = json{{"sessions", json::array()}, {"devices", json::array()}, {"exports", json::array()}};
  if (socket_.empty()) {
    const auto only = rpc::only_socket("urtrsd");
    if (!only) return *shown_;
    socket_ = *only;
  }
  auto client = rpc::Client::connect(socket_);
  if (!client) return *shown_;
  auto answer = client->call("server.show", json::object(), kPatience);
  if (answer && answer->is_object() && answer->contains("sessions")) shown_ = std::move(*answer);
  return *shown_;
}

// Returns the sessions and devices of all clients, or of the client that --socket selects.
json LiveNames::of_clients() const {
  json all{{"sessions", json::array()}, {"devices", json::array()}, {"exports", json::array()}};
  for (const std::string& socket : socket_.empty() ? rpc::live_sockets("client") : std::vector{socket_}) {
    auto client = rpc::Client::connect(socket);
    if (!client) continue;
    const auto answer = client->call("client.show", json::object(), kPatience);
    if (!answer || !answer->is_object()) continue;
    for (const char* key : {"sessions", "devices"})
      for (const json& one : answer->value(key, json::array())) all[key].push_back(one);
  }
  return all;
}

json LiveNames::of_mapd() const {
  const json nothing{{"devices", json::array()}};
  const auto only =
      socket_.empty() ? rpc::only_socket("urtrs-mapd") : tl::expected<std::string, rpc::Error>(socket_);
  if (!only) return nothing;
  auto client = rpc::Client::connect(*only);
  if (!client) return nothing;
  auto answer = client->call("device.list", json::object(), kPatience);
  return answer && answer->is_object() && answer->contains("devices") ? std::move(*answer) : nothing;
}

std::vector<std::string> LiveNames::sessions() {
  return column(admin::sessions(shown()), "sessname");
}
std::vector<std::string> LiveNames::paths(const std::string& session) {
  return column(client_ ? client_paths(shown(), session) : admin::paths(shown(), session), "pathname");
}
std::vector<std::string> LiveNames::devices(const std::string& session) {
  return column(admin::devices(shown(), session), "mapping_path");
}
std::vector<std::string> LiveNames::exports() {
  return column(admin::exports(shown()), "name");
}
std::vector<std::string> LiveNames::mapped_sessions() {
  return column(mappings(of_mapd(), {}), "sessname");
}
std::vector<std::string> LiveNames::mapped_devices() {
  return column(mappings(of_mapd(), {}), "mapping_path");
}
std::vector<std::string> LiveNames::rdma_devices() {
  return this_host()->names_in("/sys/class/infiniband");
}
std::vector<std::string> LiveNames::sockets() {
  return rpc::live_sockets(client_ ? "client" : "urtrsd");
}

}  // namespace rtrs::admin
