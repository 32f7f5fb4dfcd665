// Builds the responses of a control socket to attribute.look and attribute.read.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>

#include "tools/lib/control/attributes/node.hpp"
#include "tools/lib/control/rpc/message.hpp"

namespace rtrs::attributes {

// Returns the facts that a file system needs: kind and mode, entries of a folder, target of a link. Error:
// ENOENT if there is no such node.
tl::expected<nlohmann::json, rpc::Error> look(const Node& root, const std::string& path);
// Returns the contents of a file. Errors: ENOENT if there is no such node, EISDIR if the node is a folder or
// a link.
tl::expected<nlohmann::json, rpc::Error> read(const Node& root, const std::string& path);
// Returns the file that a client wants to write to. Errors as for read().
tl::expected<Node, rpc::Error> file_at(const Node& root, const std::string& path);

}  // namespace rtrs::attributes
