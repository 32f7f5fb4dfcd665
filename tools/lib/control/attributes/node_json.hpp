// A tree of attributes as a control socket answers for it: attribute.look and attribute.read.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <tl/expected.hpp>

#include "tools/lib/control/attributes/node.hpp"
#include "tools/lib/control/rpc/message.hpp"

namespace rtrs::attributes {

// What a file system asks: kind and mode, entries of a folder, target of a link. ENOENT: there is none.
tl::expected<nlohmann::json, rpc::Error> look(const Node& root, const std::string& path);
// The contents of a file. ENOENT, EISDIR: a folder or a link.
tl::expected<nlohmann::json, rpc::Error> read(const Node& root, const std::string& path);
// The file to write to. The same errors.
tl::expected<Node, rpc::Error> file_at(const Node& root, const std::string& path);

}  // namespace rtrs::attributes
