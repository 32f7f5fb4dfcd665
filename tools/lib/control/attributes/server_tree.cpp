#include "tools/lib/control/attributes/server_tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

namespace rtrs::attributes {

namespace {

using Model = std::shared_ptr<const ServerModel>;

std::string without_port(std::string_view end) {
  const std::size_t colon = end.rfind(':');
  if (colon != std::string_view::npos) end = end.substr(0, colon);
  if (end.size() >= 2 && end.front() == '[' && end.back() == ']') end = end.substr(1, end.size() - 2);
  return "ip:" + std::string(end);
}

// Writing 1 resets the statistics, as in the code of Linux; the documentation of Linux says 0.
Node path_statistics(const ServerPathStatus& path, std::uint16_t session, ServerOperations& operations) {
  Node stats = Node::folder();
  const Traffic& traffic = path.traffic;
  std::string text = fmt::format("{} {} {} {}\n", traffic.reads(), traffic.read_bytes(), traffic.writes(),
                                 traffic.write_bytes());
  const unsigned index = path.path;
  stats.add("rdma", Node::file([text = std::move(text)] { return text; },
                               [session, index, &operations](std::string_view written) {
                                 return is_written(written, "1") ? operations.reset_traffic(session, index)
                                                                 : EINVAL;
                               }));
  return stats;
}

Node path_folder(const ServerPathStatus& path, std::uint16_t session, ServerOperations& operations) {
  Node folder = Node::folder();
  const PathEnds ends = path_ends(path.peer);
  folder.add("src_addr", Node::file(ends.source + "\n"));
  folder.add("dst_addr", Node::file(ends.destination + "\n"));
  folder.add("hca_name", Node::file(path.device.name + "\n"));
  folder.add("hca_port", Node::file(std::to_string(path.device.port) + "\n"));
  folder.add("disconnect", Node::action("disconnect", [session, index = path.path, &operations] {
               return operations.disconnect_path(session, index);
             }));
  folder.add("stats", path_statistics(path, session, operations));
  return folder;
}

// Like Linux, shows a path from the time when it is connected until it closes.
bool is_shown(const ServerPathStatus& path) {
  return path.state == PathState::connected;
}
bool is_shown(const ServerSessionStatus& session) {
  return !session.name.empty() && std::any_of(session.paths.begin(), session.paths.end(),
                                              [](const auto& path) { return is_shown(path); });
}

Node session_folder(const Model& model, std::size_t at, ServerOperations& operations) {
  Node folder = Node::folder();
  folder.add("paths", [model, at, &operations] {
    Node paths = Node::folder();
    const ServerSessionStatus& session = model->sessions[at];
    for (std::size_t i = 0; i < session.paths.size(); ++i) {
      if (!is_shown(session.paths[i])) continue;
      const PathEnds ends = path_ends(session.paths[i].peer);
      paths.add(ends.source + "@" + ends.destination, [model, at, i, &operations] {
        const ServerSessionStatus& of = model->sessions[at];
        return path_folder(of.paths[i], of.session, operations);
      });
    }
    return paths;
  });
  return folder;
}

Node sessions_folder(const Model& model, ServerOperations& operations) {
  Node folder = Node::folder();
  for (std::size_t at = 0; at < model->sessions.size(); ++at) {
    if (is_shown(model->sessions[at]))
      folder.add(entry_name(model->sessions[at].name),
                 [model, at, &operations] { return session_folder(model, at, operations); });
  }
  return folder;
}

Node use_folder(const OpenDevice::Use& use, ServerOperations& operations) {
  Node folder = Node::folder();
  folder.add("access_mode", Node::file(std::string(to_string(use.mode)) + "\n"));
  folder.add("read_only", Node::file(use.mode == wire::rnbd::AccessMode::read_only ? "1\n" : "0\n"));
  folder.add("mapping_path", Node::file(use.mapping_path + "\n"));
  folder.add("force_close", Node::action("force_close", [handle = use.handle, &operations] {
               return operations.force_close(handle);
             }));
  return folder;
}

Node device_folder(const OpenDevice& device, ServerOperations& operations) {
  Node folder = Node::folder();
  folder.add("block_dev", Node::link(device.backing));
  Node sessions = Node::folder();
  for (const OpenDevice::Use& use : device.uses)
    sessions.add(entry_name(use.session), use_folder(use, operations));
  folder.add("sessions", std::move(sessions));
  return folder;
}

std::string_view last_part(std::string_view backing) {
  return backing.substr(backing.rfind('/') + 1);
}

// Returns the name of the block device without its folder, as in Linux, because the rnbd command-line tool
// derives the name from block_dev. If two devices have the same name, returns the whole path.
std::string device_name(const ServerModel& model, std::string_view backing) {
  const std::string_view name = last_part(backing);
  const auto same = std::count_if(model.devices.begin(), model.devices.end(),
                                  [&](const OpenDevice& one) { return last_part(one.backing) == name; });
  return entry_name(same == 1 ? name : backing);
}

Node devices_folder(const Model& model, ServerOperations& operations) {
  Node folder = Node::folder();
  for (std::size_t at = 0; at < model->devices.size(); ++at)
    folder.add(device_name(*model, model->devices[at].backing),
               [model, at, &operations] { return device_folder(model->devices[at], operations); });
  return folder;
}

Node virtual_devices(const Model& model, ServerOperations& operations) {
  Node folder = Node::folder();
  folder.add("rtrs-server", [model, &operations] { return sessions_folder(model, operations); });
  folder.add("rnbd-server", [model, &operations] {
    Node ctl = Node::folder();
    ctl.add("devices", [model, &operations] { return devices_folder(model, operations); });
    Node rnbd = Node::folder();
    rnbd.add("ctl", std::move(ctl));
    return rnbd;
  });
  return folder;
}

Node classes(const Model& model) {
  Node sessions = Node::folder();
  for (const ServerSessionStatus& session : model->sessions) {
    if (is_shown(session))
      sessions.add(entry_name(session.name),
                   Node::link("../../devices/virtual/rtrs-server/" + entry_name(session.name)));
  }
  Node rnbd = Node::folder();
  rnbd.add("ctl", Node::link("../../devices/virtual/rnbd-server/ctl"));
  Node folder = Node::folder();
  folder.add("rtrs-server", std::move(sessions));
  folder.add("rnbd-server", std::move(rnbd));
  return folder;
}

Node modules(const ServerParameters& parameters) {
  const auto module = [](std::vector<std::pair<std::string, std::string>> values) {
    Node files = Node::folder();
    for (auto& [name, value] : values) files.add(name, Node::file(value + "\n"));
    Node folder = Node::folder();
    folder.add("parameters", std::move(files));
    return folder;
  };
  Node folder = Node::folder();
  folder.add("rtrs_server", module({{"always_invalidate", parameters.always_invalidate ? "Y" : "N"},
                                    {"max_chunk_size", std::to_string(parameters.max_chunk_size)},
                                    {"sess_queue_depth", std::to_string(parameters.sess_queue_depth)}}));
  folder.add("rnbd_server", module({{"port_nr", std::to_string(parameters.port)},
                                    {"dev_search_path", parameters.dev_search_path}}));
  return folder;
}

}  // namespace

PathEnds path_ends(std::string_view described) {
  constexpr std::string_view kBetween = " > ";
  const std::size_t between = described.find(kBetween);
  if (between == std::string_view::npos) return {"ip:unknown", "ip:unknown"};
  return {without_port(described.substr(0, between)),
          without_port(described.substr(between + kBetween.size()))};
}

std::string entry_name(std::string_view path) {
  std::string name(path);
  std::replace(name.begin(), name.end(), '/', '!');
  // These names are not valid for a folder.
  if (name.empty() || name == "." || name == "..") name.insert(0, "!");
  return name;
}

Node server_tree(Model model, ServerOperations& operations) {
  Node root = Node::folder();
  root.add("class", [model] { return classes(model); });
  root.add("devices", [model, &operations] {
    Node folder = Node::folder();
    folder.add("virtual", [model, &operations] { return virtual_devices(model, operations); });
    return folder;
  });
  root.add("module", [model] { return modules(model->parameters); });
  return root;
}

}  // namespace rtrs::attributes
