#include "tools/urtrs-mapd/parameters.hpp"

#include <algorithm>
#include <charconv>

#include "tools/lib/control/fabric/own_identity.hpp"
#include "tools/lib/control/plugin/settings.hpp"
#include "tools/lib/text/session_name.hpp"

namespace rtrs::mapd {

using mapping::SessionWish;

namespace {

std::string key_of(const std::string& parameter) {
  return parameter.substr(0, parameter.find('='));
}

bool is_of_auth(const std::string& key) {
  return key.starts_with("auth");
}

mapping::Credentials credentials_in(const std::vector<std::string>& words) {
  mapping::Credentials credentials;
  for (const std::string& word : words)
    if (const std::string key = key_of(word); mapping::is_credential(key) && key.size() < word.size())
      credentials.emplace(key, word.substr(key.size() + 1));
  return credentials;
}

}  // namespace

std::vector<std::string> parameters_of(const SessionWish& wish, const std::vector<std::string>& given) {
  std::vector<std::string> all;
  for (const std::string& path : wish.paths) all.push_back("path=" + path);
  all.push_back("port=" + std::to_string(wish.port));
  all.push_back("fabric=" + wish.fabric);
  for (const auto& [key, value] : wish.credentials) all.push_back(key + "=" + value);
  const auto has = [&given](bool of_auth) {
    return std::any_of(given.begin(), given.end(), [of_auth](const std::string& one) {
      return mapping::is_credential(key_of(one)) && is_of_auth(one) == of_auth;
    });
  };
  const bool both = has(true) && has(false);
  for (const std::string& one : given) {
    const std::string key = key_of(one);
    const bool foreign_option_error = both && is_of_auth(key) == (wish.fabric == "tcp");
    if (mapping::is_credential(key) && (!wish.credentials.empty() || foreign_option_error)) continue;
    all.push_back(one);
  }
  return all;
}

std::optional<SessionWish> wish_in(const std::vector<std::string>& command,
                                   const std::vector<std::string>& given) {
  SessionWish wish;
  for (const std::string& word : command) {
    const std::string key = key_of(word);
    if (key.size() == word.size()) continue;
    const std::string value = word.substr(key.size() + 1);
    if (key == "path") wish.paths.push_back(value);
    if (key == "fabric") wish.fabric = value;
    if (key == "session") wish.name = value;
    if (key != "port") continue;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), wish.port);
    if (error != std::errc() || end != value.data() + value.size()) return std::nullopt;
  }
  // Credentials equal to those in `given` are not the session's own.
  if (mapping::Credentials found = credentials_in(command);
      found != credentials_in(parameters_of(wish, given)))
    wish.credentials = std::move(found);
  if (mapping::check_session(wish) || !wrong_parameters(wish, given).empty()) return std::nullopt;
  return wish;
}

std::string identity_at_server(const SessionWish& wish, const std::vector<std::string>& given) {
  plugin::Settings settings;
  for (const std::string& one : parameters_of(wish, given)) {
    const std::string key = key_of(one);
    // Ignores errors, because wrong_parameters() reports them.
    if (key.size() < one.size()) (void)settings.set(key, std::string_view(one).substr(key.size() + 1));
  }
  std::string who = tools::own_identity(settings.fabric.fabric, settings.fabric.tls, settings.fabric.auth);
  return who.empty() ? tools::short_host_name() : who;
}

std::string wrong_parameters(const SessionWish& wish, const std::vector<std::string>& given) {
  plugin::Settings settings;
  for (const std::string& one : parameters_of(wish, given)) {
    const std::string key = key_of(one);
    if (const auto taken = settings.set(key, std::string_view(one).substr(key.size() + 1)); !taken)
      return taken.error();
  }
  const auto whole = settings.complete("host", 1, "/");
  return whole ? "" : whole.error();
}

std::string told_of(const SessionWish& wish, const std::vector<std::string>& given, std::string why) {
  const std::vector<std::string> all = parameters_of(wish, given);
  const std::string wrong = wrong_parameters(wish, given);
  const bool own = wrong_parameters(wish, {}) == wrong;
  // True if this parameter causes the error: the error disappears without it, or the parameter alone causes
  // the same error.
  const auto is_why = [&](const std::string& one, const std::vector<std::string>& without) {
    return wrong_parameters(wish, without).empty() || (!own && wrong_parameters(wish, {one}) == wrong);
  };
  std::string blamed;
  for (const std::string& one : given) {
    if (std::find(all.begin(), all.end(), one) == all.end()) continue;
    const std::string key = key_of(one);
    std::vector<std::string> without = given;
    std::erase(without, one);
    const std::string value = key.size() < one.size() ? one.substr(key.size() + 1) : "";
    const bool name = mapping::is_credential(key) || key == "provider" || key == "rdma_device";
    const bool in_words = name && value.size() > 2 && why.find(value) != std::string::npos;
    if (wrong.empty() ? !in_words : !is_why(one, without)) continue;
    blamed += (blamed.empty() ? "\"" : " \"") + one + "\"";
  }
  if (!blamed.empty()) why += "; urtrs-mapd was started with " + blamed + ", for every session";
  return why;
}

std::string wrong_parameters(const std::vector<std::string>& given) {
  std::string first;
  for (const std::string& fabric : choices(options::find(options::connection_options(), "fabric")->rule)) {
    SessionWish wish;
    wish.paths = {"127.0.0.1"};
    wish.fabric = fabric;
    const std::string why = wrong_parameters(wish, given);
    if (why.empty()) return {};
    if (first.empty()) first = why;
  }
  return first;
}

}  // namespace rtrs::mapd
