// Specification of a client's block devices (RNBD), written independently of core/rnbd: which server opened a
// device under which id, what may be in flight at the same time, and which losses an IO must report.
#pragma once
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>

#include "conformance/spec/device_event.hpp"
#include "conformance/spec/findings.hpp"

namespace rtrs::spec {

class ClientDevicesSpec {
 public:
  // `begin`: nullptr if the beginning of the machine is not in the trace; then devices that were mapped
  // before are not judged.
  ClientDevicesSpec(Findings&, unsigned machine, const DeviceEvent* begin);
  void on(const DeviceEvent&);
  // The last step is complete.
  void finish() { end_step(); }

 private:
  struct Device {
    std::string name;
    std::optional<std::uint32_t> handle;  // known from MapAnswered
    AccessMode mode = AccessMode::read_only;
    DeviceState state = DeviceState::init;
    Geometry geometry;
    std::optional<std::uint32_t> id;  // that the last server to open the device gave
    std::uint64_t open_token = 0;     // of an unanswered OPEN; 0: none
    std::uint64_t close_token = 0;
    std::uint64_t instance = 0;  // of the export's cache; 0: unknown
    std::uint64_t changes = 0;   // that succeeded and were not FUA
    std::uint64_t flushed = 0;   // of them
    std::uint64_t losses = 0;
    std::uint64_t flush_told = 0;
    std::uint64_t fua_told = 0;
    std::uint32_t caches = 0;
    std::uint32_t in_flight = 0;
    unsigned not_open_in_a_row = 0;  // IO that a server answered with ENOTCONN
    bool refused = false;
    bool unmapping = false;
    bool close_allowed = false;  // its export is open at the server, and not wanted
    bool reopen = false;         // no IO before it is opened again
    bool may_close = false;      // this step may close it
    bool given_up = false;       // this step may refuse it, because its server gave its id to another device
    std::optional<Geometry> may_open;           // this step may open it, with this geometry
    std::optional<std::uint64_t> cache_report;  // CacheReplaced is due in this step, with this number
    bool is_mapped() const noexcept { return !unmapping && state != DeviceState::unmapped; }
  };
  using Devices = std::list<Device>;

  void link_up();
  void link_down();
  void map_requested();
  void map_answered();
  void unmap_requested();
  void resize_requested();
  void message_done();
  void open_answered(Device&);
  void opened(Device&, std::string_view response);
  void refused(Device&);
  void forget_ids();
  void send_message();
  void send_open();
  void send_close();
  void io_started();
  void io_done();
  void io_judged();
  static void ended_well(Device&, const DeviceEvent& done);
  void device_changed();
  void cache_replaced();

  void end_step();
  void require_reopen();
  Device* find(std::uint32_t handle);
  Device* find_mapped(std::string_view name);
  Device* find_mapped_by_bytes(std::string_view name);
  bool is_id_of_another(const Device&, std::uint32_t id) const;
  bool any_open_unanswered() const;
  static Geometry geometry_of(std::string_view response);

  template <class Seen>
  bool check(bool holds, Rule rule, Seen seen, const char* allowed) const {
    if (holds) return true;
    findings_.add(rule, event_.seq, event_.now, machine_, seen(), allowed);
    return false;
  }
  bool check(bool holds, Rule rule, const char* seen, const char* allowed) const {
    return check(
        holds, rule, [seen] { return std::string(seen); }, allowed);
  }

  Findings& findings_;
  unsigned machine_;
  bool whole_;
  DeviceEvent event_;
  Devices devices_;
  std::optional<Device> asked_;    // MapRequested in this step
  std::optional<DeviceEvent> io_;  // IoBegun or IoDone in this step, not answered yet
  std::optional<bool> link_;
  std::optional<bool> extended_;  // unknown until the first LinkUp of a trace without a beginning
  bool informed_ = false;         // SESS_INFO was answered since the link is up
  std::uint64_t info_token_ = 0;
  std::uint64_t last_token_ = 0;
  std::uint64_t first_open_ = 0;  // token of the first OPEN of this step; 0: none
  std::uint32_t io_in_flight_ = 0;
};

}  // namespace rtrs::spec
