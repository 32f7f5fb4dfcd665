// Fake client for tests of the control socket: returns a preset model and records the operations.
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tools/lib/control/client/client_control.hpp"

namespace rtrs::control {

// The model has a connected path, a waiting path, and an absent path.
class FakeClient : public ControlledClient {
 public:
  FakeClient() {
    shown.session = "web1";
    shown.link_up = true;
    ClientPathModel up{
        0, {}, {"10.0.0.1", "10.0.0.2", 1234}, "10.0.0.1:40112 > 10.0.0.2:1234", {"rxe0", 1, "send"}};
    up.status.state = PathState::connected;
    up.status.heartbeat_latency = microseconds(41);
    up.status.inflight = 3;
    ClientPathModel down{1, {}, {"", "10.0.1.2", 1234}, "", {}};
    down.status.state = PathState::waiting;
    down.status.reason = Reason::connect_refused;
    down.status.attempt = 3;
    down.status.retry_at = seconds(104) + milliseconds(200);
    ClientPathModel gone{2, {}, {"", "10.0.2.2", 1234}, "", {}};
    shown.paths = {up, down, gone};
    shown.devices = {{"disk0", wire::rnbd::AccessMode::read_write, "open", 1U << 20, 7, 1, true, 0}};
  }
  ClientModel model() const override { return shown; }
  Nanos now() const override { return clock; }
  Nanos started() const override { return seconds(90); }
  std::string fabric_name() const override { return "tcp"; }
  nlohmann::json credentials() const override {
    return {{"credentials", nlohmann::json::array()}, {"warnings", {"a certificate expires"}}};
  }
  std::uint16_t default_port() const override { return 1234; }
  int add_path(const PathAddress& address, const std::string&, unsigned& index) override {
    added = address;
    index = 2;
    return error;
  }
  int remove_path(unsigned path) override { return note("remove", path); }
  int disconnect_path(unsigned path) override { return note("disconnect", path); }
  int reconnect_path(unsigned path) override { return note("reconnect", path); }
  unsigned recover() override { return 1; }
  int set_policy(MultipathPolicy policy) override {
    shown.policy = policy;
    return error;
  }
  int set_max_reconnect_attempts(std::int32_t most) override {
    shown.max_reconnect_attempts = most;
    return error;
  }
  int reset_statistics(unsigned path, PathStatistics what) override {
    return note(what == PathStatistics::traffic      ? "reset traffic"
                : what == PathStatistics::reconnects ? "reset reconnects"
                                                     : "reset",
                path);
  }
  void map_device(const std::string& name, wire::rnbd::AccessMode mode,
                  std::function<void(int, const std::string&)> tell) override {
    mapped = name + " " + wire::rnbd::to_string(mode);
    tell_mapped = std::move(tell);
  }
  int unmap_device(const std::string& name, bool force) override {
    unmapped = name;
    return force ? 0 : error;
  }
  int remap_device(const std::string&) override { return error; }
  int resize_device(const std::string&, std::uint64_t sectors) override {
    shown.devices[0].size_bytes = sectors * 512;
    return error;
  }

  int note(const char* what, unsigned path) {
    done.emplace_back(what, path);
    return error;
  }

  ClientModel shown;
  PathAddress added;
  std::vector<std::pair<std::string, unsigned>> done;
  std::string mapped, unmapped;
  std::function<void(int, const std::string&)> tell_mapped;
  Nanos clock = seconds(100);
  int error = 0;
};

}  // namespace rtrs::control
