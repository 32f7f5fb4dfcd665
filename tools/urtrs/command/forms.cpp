// Table of all commands of urtrs.
#include "tools/urtrs/command/arguments.hpp"

namespace rtrs::admin {

namespace {

using Forms = std::vector<Form>;

Forms forms_of_things() {
  return {
      {"session", "list", "", 0, 0, "sessions of clients, each with its paths"},
      {"session", "show", "SESSION", 1, 1, "all that is known of one session"},
      {"session", "disconnect", "SESSION", 1, 1, "close a session; its client connects again by itself"},
      {"path", "list", "[SESSION]", 0, 1, "paths of all sessions, or of one"},
      {"path", "show", "SESSION PATH", 2, 2, "all that is known of one path"},
      {"path", "disconnect", "SESSION PATH", 2, 2,
       "close one path; IO goes on over the others, and the client connects it again"},
      {"device", "list", "[SESSION]", 0, 1, "devices that sessions have open"},
      {"device", "show", "DEVICE", 1, 1, "all that is known of one device"},
      {"device", "close", "DEVICE [SESSION] [force]", 1, 3,
       "take a device away from its session; force: also from a client that may not open it again"},
      {"export", "list", "", 0, 0, "what clients can map by name"},
      {"export", "add", "NAME=SOURCE[,ro][,force]", 1, 1,
       "export one more file, block device or mem:SIZE, until the end or a reload"},
      {"export", "remove", "NAME [force]", 1, 2,
       "export it no longer; force: take it from the sessions that have it open"},
  };
}

Forms forms_of_mappings() {
  return {
      {"mapping", "list", "[SESSION]", 0, 1,
       "devices that urtrs-mapd keeps mapped, of all sessions or of one"},
      {"mapping", "show", "DEVICE", 1, 1, "all that is known of one of them"},
  };
}

Forms forms_of_clients() {
  return {
      {"client session", "list", "", 0, 0, "sessions of the clients of this host, each with its paths"},
      {"client session", "show", "SESSION", 1, 1, "all that is known of one session"},
      {"client session", "policy", "SESSION POLICY", 2, 2, "which path a request takes"},
      {"client session", "recover", "[SESSION]", 0, 1, "connect at once each path that is down"},
      {"client path", "list", "[SESSION]", 0, 1, "paths of all clients, or of one session"},
      {"client path", "show", "SESSION PATH", 2, 2, "all that is known of one path"},
      {"client path", "add", "SESSION ADDRESS [PORT]", 2, 3, "one more path to the server"},
      {"client path", "remove", "SESSION PATH [force]", 2, 3,
       "do without a path; IO goes on over the others; force: also without the last one"},
      {"client path", "delete", "SESSION PATH [force]", 2, 3, "the same as remove"},
      {"client path", "disconnect", "SESSION PATH", 2, 2, "close a path until it is reconnected"},
      {"client path", "reconnect", "SESSION PATH", 2, 2, "connect a path anew"},
      {"client device", "list", "[SESSION]", 0, 1, "devices of all clients, or of one session"},
      {"client device", "show", "DEVICE", 1, 1, "all that is known of one device"},
      {"client device", "map", "DEVICE SESSION [MODE]", 2, 3,
       "open one more device of the server, and keep it open"},
      {"client device", "unmap", "DEVICE [SESSION] [force]", 1, 3,
       "close a device; force: also while NBD connections have it"},
      {"client device", "remap", "DEVICE [SESSION]", 1, 2,
       "try at once to open a device that the server refused"},
      {"client device", "resize", "DEVICE SIZE [SESSION]", 2, 3, "give a device another size"},
      {"client", "stats", "", 0, 0, "counters of each client"},
      {"client", "timers", "[SESSION]", 0, 1, "times by which clients decide, and who chose them"},
      {"client", "metrics", "", 0, 0, "all of them for Prometheus, as text"},
      {"client", "reset", "[SESSION [PATH]]", 0, 2, "set the counters of paths to 0"},
      {"client", "top", "", 0, 0, "IO of each path, again every second"},
      {"client", "monitor", "[SESSION]", 0, 1, "events of a client as they happen, a line each"},
      {"client", "debug", "dump", 1, 1, "what every path and the oldest request wait for, and since when"},
  };
}

Forms forms_of_everything() {
  return {
      {"reason", "list", "", 0, 0, "why paths end and connect requests are refused; no daemon is asked"},
      {"reason", "show", "CODE", 1, 1, "one of them, and what to do"},
      {"key", "new", "IDENTITY [FILE]", 1, 2, "make a pre-shared key for TLS; no daemon is asked"},
      {"key", "list", "FILE", 1, 1, "whose keys are in a file; the keys are not shown"},
      {"", "map", "DEVICE from SERVER [ADDRESS]... [MODE]", 2, 12, "make a device of a server usable here"},
      {"", "unmap", "DEVICE [SESSION] [force]", 1, 3, "take it away; force: also while connections have it"},
      {"", "remap", "DEVICE [SESSION]", 1, 2, "try at once to open it again"},
      {"", "reload", "", 0, 0, "read the configuration and its files again; what stays is said"},
      {"", "stats", "", 0, 0, "counters of the whole server"},
      {"", "reset", "[SESSION [PATH]]", 0, 2, "set the traffic counters of paths to 0"},
      {"", "top", "", 0, 0, "IO of each path, again every second"},
      {"", "monitor", "", 0, 0, "events as they happen, a line each"},
      {"", "trace", "start FILE | stop | dump FILE", 1, 2, "record what happens, or write the last records"},
      {"", "debug", "dump", 1, 1, "what every request, path and device waits for, and since when"},
      {"", "log", "LEVEL", 1, 1, "least severe message to log: trace, debug, info, warn, error"},
      {"", "doctor", "[PEER]", 0, 1, "what of this host is not in order, and what mends it"},
      {"", "limits", "", 0, 0, "every limit, and what a urtrsd that runs has set and uses"},
      {"", "daemons", "", 0, 0, "the daemons of this host that can be asked"},
      {"", "version", "", 0, 0, "of this command"},
  };
}

}  // namespace

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
