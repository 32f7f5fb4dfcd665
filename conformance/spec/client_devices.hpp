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
  // `begin`: null if the trace does not contain the begin event of the machine; then devices that were mapped
  // before the trace are not checked.
  ClientDevicesSpec(Findings&, unsigned machine, const DeviceEvent* begin);
  void on(const DeviceEvent&);
  // Call after the last step.
  void finish() { end_step(); }

 private:
  struct Device {
    std::string name;
    std::optional<std::uint32_t> handle;  // known from MapAnswered
    AccessMode mode = AccessMode::read_only;
    DeviceState state = DeviceState::init;
    Geometry geometry;
    std::optional<std::uint32_t> id;  // id in the last OPEN response
    std::uint64_t open_token = 0;     // token of the unanswered OPEN; 0: none
    std::uint64_t close_token = 0;
    std::uint64_t instance = 0;  // instance of the export's cache; 0: unknown
    std::uint64_t changes = 0;   // number of successful changes without FUA
    std::uint64_t flushed = 0;   // number of these changes that a flush covered
    std::uint64_t losses = 0;
    std::uint64_t flush_told = 0;
    std::uint64_t fua_told = 0;
    std::uint32_t caches = 0;
    std::uint32_t in_flight = 0;
    unsigned not_open_in_a_row = 0;            // consecutive IOs with ENOTCONN and OPENs with an id in use
    std::optional<std::uint16_t> refusal = 0;  // errno of the last refusal, 0: none; empty: unknown
    bool refused = false;
    bool unmapping = false;
    bool close_allowed = false;  // the client may send CLOSE, because it does not use the open export
    bool close_due = false;      // it must, before the device is unmapped and while the link is up
    bool reopen = false;         // the device must be opened again before the next IO
    bool may_close = false;      // the device may become closed in this step
    bool given_up = false;       // the device may be refused in this step, because another device has its id
    std::optional<Geometry> may_open;           // the device may become open in this step, with this geometry
    std::optional<std::uint64_t> cache_report;  // CacheReplaced::unflushed that is due; empty: none
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
  void refused(Device&, std::uint16_t error);
  void forget_ids();
  void send_message();
  void send_open();
  void send_close();
  void io_started();
  void io_done();
  void io_judged();
  static void io_succeeded(Device&, const DeviceEvent& done);
  void device_changed();
  bool errno_fits(const Device&) const;
  void cache_replaced();

  void end_step();
  void check_round() const;
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
  DeviceEvent input_;  // of this step, without its bytes
  Devices devices_;
  std::optional<Device> asked_;    // device of an unanswered MapRequested in this step
  std::optional<DeviceEvent> io_;  // IoBegun or IoDone in this step, not answered yet
  std::optional<bool> link_;
  std::optional<bool> extended_;  // unknown until the first LinkUp of a trace without a beginning
  bool informed_ = false;         // SESS_INFO was answered since the link came up
  bool paused_ = false;           // a message was not delivered; the next one waits for RetryDue
  std::uint64_t info_token_ = 0;
  std::uint64_t last_token_ = 0;
  std::uint64_t first_open_ = 0;  // token of the first OPEN of this step; 0: none
  std::uint32_t io_in_flight_ = 0;
};

}  // namespace rtrs::spec
