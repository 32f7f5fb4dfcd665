// Tables of all commands and options of urtrs.
#include "tools/urtrs/command/arguments.hpp"

namespace rtrs::admin {

namespace {

using Forms = std::vector<Form>;

Forms forms_of_things() {
  return {
      {"session", "list", "", 0, 0, "sessions of clients, each with its paths"},
      {"session", "show", "SESSION", 1, 1, "details of one session"},
      {"session", "disconnect", "SESSION", 1, 1, "close a session; its client reconnects automatically"},
      {"path", "list", "[SESSION]", 0, 1, "paths of all sessions, or of one"},
      {"path", "show", "SESSION PATH", 2, 2, "details of one path"},
      {"path", "disconnect", "SESSION PATH", 2, 2,
       "close one path; IO continues over the others, and the client reconnects it"},
      {"device", "list", "[SESSION]", 0, 1, "devices that sessions have open"},
      {"device", "show", "DEVICE", 1, 1, "details of one device"},
      {"device", "close", "DEVICE [SESSION] [force]", 1, 3,
       "close a device of a session; force: also if the client may not reopen it"},
      {"export", "list", "", 0, 0, "what clients can map by name"},
      {"export", "add", "NAME=SOURCE[,ro][,force]", 1, 1,
       "export another file, block device or mem:SIZE, until exit or reload"},
      {"export", "remove", "NAME [force]", 1, 2,
       "stop exporting it; force: also close it in sessions that have it open"},
  };
}

Forms forms_of_mappings() {
  return {
      {"mapping", "list", "[SESSION]", 0, 1,
       "devices that urtrs-mapd keeps mapped, of all sessions or of one"},
      {"mapping", "show", "DEVICE", 1, 1, "details of one of them"},
  };
}

Forms forms_of_clients() {
  return {
      {"client session", "list", "", 0, 0, "sessions of the clients of this host, each with its paths"},
      {"client session", "show", "SESSION", 1, 1, "details of one session"},
      {"client session", "policy", "SESSION POLICY", 2, 2, "which path a request takes"},
      {"client session", "recover", "[SESSION]", 0, 1, "reconnect each path that is down, without waiting"},
      {"client path", "list", "[SESSION]", 0, 1, "paths of all clients, or of one session"},
      {"client path", "show", "SESSION PATH", 2, 2, "details of one path"},
      {"client path", "add", "SESSION ADDRESS [PORT]", 2, 3, "add a path to the server"},
      {"client path", "remove", "SESSION PATH [force]", 2, 3,
       "remove a path; IO continues over the others; force: also the last connected one"},
      {"client path", "delete", "SESSION PATH [force]", 2, 3, "the same as remove"},
      {"client path", "disconnect", "SESSION PATH", 2, 2, "close a path until it is reconnected"},
      {"client path", "reconnect", "SESSION PATH", 2, 2, "reconnect a path"},
      {"client device", "list", "[SESSION]", 0, 1, "devices of all clients, or of one session"},
      {"client device", "show", "DEVICE", 1, 1, "details of one device"},
      {"client device", "map", "DEVICE SESSION [MODE]", 2, 3,
       "open another device of the server, and keep it open"},
      {"client device", "unmap", "DEVICE [SESSION] [force]", 1, 3,
       "close a device; force: also while NBD clients use it"},
      {"client device", "remap", "DEVICE [SESSION]", 1, 2, "reopen a device that the server rejected"},
      {"client device", "resize", "DEVICE SIZE [SESSION]", 2, 3, "change the size of a device"},
      {"client", "stats", "", 0, 0, "counters of each client"},
      {"client", "timers", "[SESSION]", 0, 1, "timeouts of clients, and where each value comes from"},
      {"client", "metrics", "", 0, 0, "all counters, in the text format of Prometheus"},
      {"client", "reset", "[SESSION [PATH]]", 0, 2, "set the counters of paths to 0"},
      {"client", "top", "", 0, 0, "IO of each path, updated every second"},
      {"client", "monitor", "[SESSION]", 0, 1, "events of a client as they happen, a line each"},
      {"client", "debug", "dump", 1, 1, "what every path and the oldest request wait for, and for how long"},
  };
}

Forms forms_of_everything() {
  return {
      {"reason", "list", "", 0, 0, "why paths end and connect requests are rejected; needs no daemon"},
      {"reason", "show", "CODE", 1, 1, "one reason, and what to do"},
      {"key", "new", "IDENTITY [FILE]", 1, 2, "create a pre-shared key for TLS; needs no daemon"},
      {"key", "list", "FILE", 1, 1, "identities of the keys in a file; the keys are not shown"},
      {"", "map", "DEVICE from SERVER [ADDRESS]... [MODE]", 2, 12,
       "make a device of a server usable on this host"},
      {"", "unmap", "DEVICE [SESSION] [force]", 1, 3, "unmap it; force: also while it is in use"},
      {"", "remap", "DEVICE [SESSION]", 1, 2, "retry now to open it"},
      {"", "reload", "", 0, 0, "reload the configuration; names what needs a restart"},
      {"", "stats", "", 0, 0, "counters of the whole server"},
      {"", "reset", "[SESSION [PATH]]", 0, 2, "set the traffic counters of paths to 0"},
      {"", "top", "", 0, 0, "IO of each path, updated every second"},
      {"", "monitor", "", 0, 0, "events as they happen, a line each"},
      {"", "trace", "start FILE | stop | dump FILE", 1, 2, "record what happens, or write the last records"},
      {"", "debug", "dump", 1, 1, "what each request, path and device waits for, and for how long"},
      {"", "log", "LEVEL", 1, 1, "least severe message to log: trace, debug, info, warn, error"},
      {"", "doctor", "[PEER]", 0, 1, "check this host, and suggest a fix for each problem"},
      {"", "limits", "", 0, 0, "every limit, with the setting and usage of the running urtrsd"},
      {"", "daemons", "", 0, 0, "daemons of this host that can be queried"},
      {"", "version", "", 0, 0, "version of this command"},
  };
}

std::string help_of(const options::Row& row) {
  std::string help = "map: " + std::string(row.help);
  if (!row.initial.empty()) help += "; default: " + std::string(row.initial);
  return row.name == "port" ? help + ". doctor --rdma: default: 18516" : help;
}

}  // namespace

const std::vector<Flag>& flags() {
  static const std::vector<Flag> all = [] {
    std::vector<Flag> some{
        {"help", "", "print this help, or that of a command, and exit"},
        {"help-all", "", "all commands and options"},
        {"version", "", "print version, fabrics and compiler, and exit"},
        {"json", "", "JSON output, also for errors"},
        {"csv", "", "for spreadsheets"},
        {"fields", "=A,B", "columns to show; also +A, -A and all as bare words"},
        {"unit", "=U", "unit of bytes: B, K (1024), M, G, T, P or E; default: automatic"},
        {"no-headers", "", "omit the header line"},
        {"no-tree", "", "omit the lines below each row"},
        {"no-totals", "", "omit the line of totals"},
        {"socket", "=FILE", "control socket of the daemon or client; default: all that run"},
        {"interval", "=SECONDS", "seconds between updates of top; default: 1"},
        {"count", "=N", "top, monitor: exit after N; default: run until Ctrl-C"},
        {"run", "=COMMAND", "map: run COMMAND, then unmap"},
        {"nbd", "[=DEVICE]", "map: attach a kernel device (/dev/nbdN), as root"},
        {"nbd-wait", "=SECONDS", "map --nbd: how long IO waits for an nbdkit that exited; default: 300"},
        {"session", "=NAME", "map: name of a new session, here and at the server"},
        {"idempotent", "", "map: succeed if the device is already mapped"},
        {"rdma", "", "doctor: test the RDMA devices, or the connection to a peer"},
        {"listen", "", "doctor --rdma: wait for a test from another host"},
        {"rdma-device", "=NAME", "doctor --rdma: test only this device"},
        {"rounds", "=N", "doctor --rdma: rounds of the test that data arrive before their immediate"}};
    for (const options::Row* row : mapping::session_parameters())
      some.push_back({options::dashed(row->name), "=" + std::string(row->rule.shape), help_of(*row)});
    return some;
  }();
  return all;
}

const std::vector<Form>& forms() {
  static const Forms all = [] {
    Forms one = forms_of_things();
    for (const Forms& more : {forms_of_mappings(), forms_of_clients(), forms_of_everything()})
      one.insert(one.end(), more.begin(), more.end());
    return one;
  }();
  return all;
}

}  // namespace rtrs::admin
