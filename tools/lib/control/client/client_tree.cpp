#include "tools/lib/control/client/client_tree.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tools/lib/control/attributes/server_tree.hpp"
#include "tools/lib/control/attributes/written_values.hpp"

namespace rtrs::control {

using attributes::Node;

namespace {

using Model = std::shared_ptr<const ClientModel>;
using Text = std::string_view;

constexpr const char* kMapUsage =
    "Usage: echo \"[dest_port=<port number> ]sessname=<name of the session> path=<[srcaddr@]dstaddr> "
    "[path=<[srcaddr@]dstaddr>] device_path=<path of the device at the server> "
    "[access_mode=<ro|rw|migration>] [nr_poll_queues=<number>]\" > map_device\n\n"
    "addr ::= [ ip:<ipv4> | ip:<ipv6> | gid:<gid> ]\n";
constexpr const char* kAddUsage =
    "Usage: echo [<source addr>@]<destination addr> > add_path\n\n*addr ::= [ ip:<ipv4|ipv6> | gid:<gid> ]\n";

Node line(const std::string& text) {
  return Node::file(text + "\n");
}
Node usage(const std::string& text, Node::Write write) {
  return Node::file([text] { return text; }, std::move(write));
}

// Linux counts responses that arrive on another CPU. Connections are not bound to a CPU here, so all counts
// are 0.
Node migrations() {
  std::string text;
  const long processors = std::max(::sysconf(_SC_NPROCESSORS_CONF), 1L);
  for (long i = 0; i < processors; ++i) text += "0 ";
  return usage(text + "\n", [](Text written) { return attributes::is_written(written, "1") ? 0 : EINVAL; });
}

Node statistics(const Model& model, std::size_t at, AttributeWrites& writes) {
  const PathStatus& status = model->paths[at].status;
  const Traffic& traffic = status.traffic;
  const auto file = [&](const std::string& text, PathStatistics what) {
    return usage(text, [model, at, what, &writes](Text written) {
      return attributes::is_written(written, "1") ? writes.reset(model->paths[at], what) : EINVAL;
    });
  };
  Node folder = Node::folder();
  folder.add("rdma",
             file(fmt::format("{} {} {} {} {} {}\n", traffic.reads(), traffic.read_bytes(), traffic.writes(),
                              traffic.write_bytes(), status.inflight, status.failovers),
                  PathStatistics::traffic));
  folder.add("reconnects", file(fmt::format("{} {}\n", status.reconnects, status.failed_attempts),
                                PathStatistics::reconnects));
  folder.add("reset_all", file("echo 1 to reset all statistics\n", PathStatistics::all));
  folder.add("cpu_migration_from", migrations());
  folder.add("cpu_migration_to", migrations());
  return folder;
}

Node path_folder(const Model& model, std::size_t at, AttributeWrites& writes) {
  const ClientPathModel& path = model->paths[at];
  const auto action = [&](const char* name, int (AttributeWrites::*act)(const ClientPathModel&)) {
    return Node::action(name, [model, at, act, &writes] { return (writes.*act)(model->paths[at]); });
  };
  Node folder = Node::folder();
  folder.add("state", line(path.status.state == PathState::connected ? "connected" : "disconnected"));
  folder.add("src_addr", line(source_of(path)));
  folder.add("dst_addr", line(destination_of(path)));
  folder.add("hca_name", line(path.device.name));
  folder.add("hca_port", line(std::to_string(path.device.port)));
  folder.add("cur_latency", line(fmt::format("{} ns", path.status.heartbeat_latency)));
  folder.add("reconnect", action("reconnect", &AttributeWrites::reconnect_path));
  folder.add("disconnect", action("disconnect", &AttributeWrites::disconnect_path));
  folder.add("remove_path", action("remove_path", &AttributeWrites::remove_path));
  folder.add("stats", statistics(model, at, writes));
  return folder;
}

Node session_folder(const Model& model, AttributeWrites& writes) {
  Node folder = Node::folder();
  folder.add("max_reconnect_attempts",
             Node::file([model] { return fmt::format("{}\n", model->max_reconnect_attempts); },
                        [&writes](Text text) { return writes.set_attempts(text); }));
  folder.add("mpath_policy", Node::file([model] { return attributes::policy_text(model->policy); },
                                        [&writes](Text text) { return writes.set_policy(text); }));
  folder.add("add_path", usage(kAddUsage, [&writes](Text text) { return writes.add_path(text); }));
  folder.add("paths", [model, &writes] {
    Node paths = Node::folder();
    for (std::size_t at = 0; at < model->paths.size(); ++at)
      if (model->paths[at].status.state != PathState::absent)
        paths.add(attributes::entry_name(pathname_of(model->paths[at])),
                  [model, at, &writes] { return path_folder(model, at, writes); });
    return paths;
  });
  return folder;
}

// Returns the state under the name that Linux uses.
std::string state_of(const ClientDeviceModel& device) {
  return device.state == rnbd::to_string(rnbd::DeviceState::unmapping) ? "unmapped" : device.state;
}

Node device_folder(const Model& model, std::size_t at, AttributeWrites& writes) {
  const ClientDeviceModel& device = model->devices[at];
  const std::string& name = device.name;
  Node rnbd = Node::folder();
  rnbd.add("state", line(state_of(device)));
  rnbd.add("session", line(model->session));
  rnbd.add("mapping_path", line(name));
  rnbd.add("access_mode", line(std::string(wire::rnbd::to_string(device.mode))));
  rnbd.add("nr_poll_queues", line("0"));
  rnbd.add("unmap_device", usage("Usage: echo <normal|force> > unmap_device\n",
                                 [name, &writes](Text text) { return writes.unmap_device(name, text); }));
  rnbd.add("remap_device", usage("Usage: echo <1> > remap_device\n",
                                 [name, &writes](Text text) { return writes.remap_device(name, text); }));
  rnbd.add("resize", usage("Usage: echo <new size in sectors> > resize\n",
                           [name, &writes](Text text) { return writes.resize(name, text); }));
  Node folder = Node::folder();
  folder.add("rnbd", std::move(rnbd));
  folder.add("size", line(std::to_string(device.size_bytes / wire::rnbd::kSectorBytes)));
  return folder;
}

std::string block_name(const ClientDeviceModel& device) {
  return fmt::format("rnbd{}", device.number);
}

// Returns a folder that `add(folder, name of the block device, index in the model)` fills, for each mapped
// device.
template <class Add>
Node devices(const ClientModel& model, Add add) {
  Node folder = Node::folder();
  for (std::size_t at = 0; at < model.devices.size(); ++at)
    if (model.devices[at].is_mapped()) add(folder, block_name(model.devices[at]), at);
  return folder;
}

Node virtual_devices(const Model& model, AttributeWrites& writes) {
  Node session = Node::folder();
  session.add(attributes::entry_name(model->session),
              [model, &writes] { return session_folder(model, writes); });
  Node ctl = Node::folder();
  ctl.add("map_device", usage(kMapUsage, [&writes](Text text) { return writes.map_device(text); }));
  ctl.add("devices", devices(*model, [&](Node& folder, const std::string& name, std::size_t at) {
            folder.add(attributes::entry_name(model->devices[at].name) + "@" + model->session,
                       Node::link("../../../block/" + name));
          }));
  Node rnbd = Node::folder();
  rnbd.add("ctl", std::move(ctl));
  Node folder = Node::folder();
  folder.add("rtrs-client", std::move(session));
  folder.add("rnbd-client", std::move(rnbd));
  folder.add("block", devices(*model, [&](Node& blocks, const std::string& name, std::size_t at) {
               blocks.add(name, [model, at, &writes] { return device_folder(model, at, writes); });
             }));
  return folder;
}

Node classes(const Model& model) {
  const std::string name = attributes::entry_name(model->session);
  Node session = Node::folder();
  session.add(name, Node::link("../../devices/virtual/rtrs-client/" + name));
  Node rnbd = Node::folder();
  rnbd.add("ctl", Node::link("../../devices/virtual/rnbd-client/ctl"));
  Node folder = Node::folder();
  folder.add("rtrs-client", std::move(session));
  folder.add("rnbd-client", std::move(rnbd));
  return folder;
}

}  // namespace

Node client_tree(Model model, AttributeWrites& writes) {
  Node root = Node::folder();
  root.add("class", [model] { return classes(model); });
  root.add("block", [model] {
    return devices(*model, [](Node& folder, const std::string& name, std::size_t) {
      folder.add(name, Node::link("../devices/virtual/block/" + name));
    });
  });
  root.add("devices", [model, &writes] {
    Node folder = Node::folder();
    folder.add("virtual", [model, &writes] { return virtual_devices(model, writes); });
    return folder;
  });
  return root;
}

}  // namespace rtrs::control
