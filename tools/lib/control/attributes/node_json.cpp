#include "tools/lib/control/attributes/node_json.hpp"

#include <cerrno>
#include <utility>

namespace rtrs::attributes {

using nlohmann::json;
using rpc::Code;
using rpc::Error;

namespace {

const char* kind_of(const Node& node) {
  return node.kind() == Node::Kind::folder ? "folder" : node.kind() == Node::Kind::link ? "link" : "file";
}

tl::expected<Node, Error> node_at(const Node& root, const std::string& path) {
  auto node = root.find(path);
  if (!node) return tl::unexpected(Error{Code::no_such_thing, "no such attribute", {}, ENOENT});
  return std::move(*node);
}

}  // namespace

tl::expected<json, Error> look(const Node& root, const std::string& path) {
  const auto node = node_at(root, path);
  if (!node) return tl::unexpected(node.error());
  json answer{{"kind", kind_of(*node)}, {"mode", node->mode()}};
  if (node->kind() == Node::Kind::link) answer["target"] = node->target();
  if (node->kind() != Node::Kind::folder) return answer;
  json entries = json::object();
  for (const auto& [name, make] : node->entries()) entries[name] = kind_of(make());
  answer["entries"] = std::move(entries);
  return answer;
}

tl::expected<Node, Error> file_at(const Node& root, const std::string& path) {
  auto node = node_at(root, path);
  if (node && node->kind() != Node::Kind::file)
    return tl::unexpected(Error{Code::failed, "not a file", {}, EISDIR});
  return node;
}

tl::expected<json, Error> read(const Node& root, const std::string& path) {
  const auto node = file_at(root, path);
  if (!node) return tl::unexpected(node.error());
  return json{{"text", node->read()}};
}

}  // namespace rtrs::attributes
