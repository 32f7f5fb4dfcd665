// Implements attribute.look, attribute.read and attribute.write of a client.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tools/lib/control/attributes/node_json.hpp"
#include "tools/lib/control/client/client_tree.hpp"

namespace rtrs::control {

using nlohmann::json;
using rpc::Code;

namespace {

// Calls `look(tree, path)`. `look` only reads the tree.
template <class Look>
tl::expected<json, rpc::Error> at_tree(ControlledClient& target, const std::string& path, Look look) {
  const auto model = std::make_shared<const ClientModel>(target.model());
  AttributeWrites writes(target, *model);
  return look(client_tree(model, writes), path);
}

rpc::Error written_error(int error) {
  return {Code::failed, fmt::format("writing: {}", std::strerror(error)), {}, error};
}

}  // namespace

tl::expected<json, rpc::Error> look_at_attribute(ControlledClient& target, const std::string& path) {
  return at_tree(target, path, attributes::look);
}

tl::expected<json, rpc::Error> read_attribute(ControlledClient& target, const std::string& path) {
  return at_tree(target, path, attributes::read);
}

struct ClientControl::Pending {
  StartedOperation begun;
  Nanos until = 0;
  Written tell;
};

ClientControl::ClientControl(ControlledClient& target, Log log) : target_(target), log_(std::move(log)) {}
ClientControl::~ClientControl() = default;

void ClientControl::write_attribute(const std::string& path, const std::string& text, Written tell) {
  const auto model = std::make_shared<const ClientModel>(target_.model());
  AttributeWrites writes(target_, *model);
  const auto file = attributes::file_at(client_tree(model, writes), path);
  if (!file) return tell(tl::unexpected(file.error()));
  const int error = file->write(text);
  if (error != 0) return tell(tl::unexpected(written_error(error)));
  if (!writes.begun()) return tell({});
  await(*writes.begun(), std::move(tell));
}

void ClientControl::await(const StartedOperation& begun, Written tell) {
  if (begun.what != StartedOperation::What::map_device) {
    pending_.push_back({begun, target_.now() + kWriteBound, std::move(tell)});
    return go_on();
  }
  target_.map_device(begun.device, begun.mode, [tell = std::move(tell)](int error, const std::string& why) {
    if (error == 0) return tell({});
    tell(tl::unexpected(rpc::Error{Code::failed, why, {}, error}));
  });
}

void ClientControl::go_on() {
  const ClientModel model = target_.model();
  report_failovers(model);
  end_writes(model);
}

void ClientControl::end_writes(const ClientModel& model) {
  const Nanos now = target_.now();
  std::vector<std::pair<Written, int>> over;
  std::erase_if(pending_, [&](Pending& one) {
    std::optional<int> outcome = outcome_of(one.begun, model);
    if (!outcome && now >= one.until) outcome = ETIMEDOUT;
    if (!outcome) return false;
    // As in Linux, a path whose first connection attempt fails is removed again.
    if (*outcome != 0 && one.begun.what == StartedOperation::What::add_path)
      target_.remove_path(one.begun.path);
    over.emplace_back(std::move(one.tell), *outcome);
    return true;
  });
  for (const auto& [tell, error] : over) {
    if (error == 0)
      tell({});
    else
      tell(tl::unexpected(written_error(error)));
  }
}

}  // namespace rtrs::control
