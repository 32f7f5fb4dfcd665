// Specification of a server's block devices for one session (RNBD), written independently of core/rnbd.
// Determines for each input which responses, storage operations and closes are due, and checks the actions
// against them.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "conformance/spec/device_event.hpp"
#include "conformance/spec/findings.hpp"

namespace rtrs::spec {

class ServerDevicesSpec {
 public:
  // `begin`: null if the trace does not contain the begin event of the machine; then nothing is reported that
  // an earlier event may explain.
  ServerDevicesSpec(Findings&, unsigned machine, const DeviceEvent* begin);
  void on(const DeviceEvent&);
  // Call after the last step.
  void finish() { end_step(); }

 private:
  enum class Message : std::uint8_t { malformed, sess_info, open, close, io };
  // The next step of a request.
  enum class Due : std::uint8_t {
    answer,        // Respond is due in this step, with `result`
    storage,       // Storage is due in this step
    measure,       // MeasureExport is due in this step
    opened,        // wait for ExportOpened of its device
    storage_done,  // wait for StorageDone
    measured,      // wait for ExportMeasured
    settled,       // wait for older syncs
    closed,        // wait until its export is closed
    unknown,       // depends on events before the beginning of the trace
  };
  struct Io {
    std::uint32_t device_id = 0;
    std::uint32_t size = 0;
    std::uint64_t sector = 0;
    std::uint16_t prio = 0;
    Opcode opcode = Opcode::read;
    bool fua = false;
    bool preflush = false;
    bool nounmap = false;
    bool flushes() const noexcept { return opcode == Opcode::flush || preflush; }
    bool changes() const noexcept { return opcode != Opcode::flush && opcode != Opcode::read; }
    bool syncs() const noexcept { return flushes() || (changes() && fua); }
  };
  struct Request {
    Message message = Message::malformed;
    Due due = Due::unknown;
    bool reads = false;
    bool held = false;            // occupies an operation of the machine
    bool counted = false;         // included in in_flight of its export
    bool storage_failed = false;  // storage reported EIO, and the export is measured before the answer
    AccessMode mode = AccessMode::read_only;
    std::uint8_t version = 0;
    std::uint16_t result = 0;
    std::uint32_t data_len = 0;
    std::uint32_t failures = 0;  // Export::failures when this sync began
    std::uint64_t sync = 0;      // number of this sync; settled: of the last sync that started before its end
    std::uint64_t handle = 0;
    Io io;
    std::string name;
    std::optional<std::uint16_t> operation;  // number of the operation that was handed out last
    std::optional<std::string> written;      // response data of WriteBack
  };
  struct Export {
    std::string name;
    AccessMode mode = AccessMode::read_only;
    Geometry geometry;
    std::uint64_t instance = 0;
    std::optional<std::uint32_t> id;  // known from the first OPEN_RSP
    std::uint16_t sync_error = 0;     // errno with which every flush fails; 0: none
    std::uint32_t failures = 0;       // number of failed syncs of this session
    std::uint32_t in_flight = 0;
    std::uint32_t closers = 0;
    std::uint64_t syncs = 0;  // number of started syncs
    bool closing = false;
    bool doubtful = false;  // the operator may have closed the device before its id was known
  };
  // A device between OPEN and ExportOpened.
  struct Opening {
    std::string name;
    AccessMode mode = AccessMode::read_only;  // mode of the first OPEN
    std::vector<std::uint64_t> waiters;       // ids of requests
    std::optional<std::uint16_t> operation;   // operation number of OpenExport
    bool may_be_doomed = false;               // the operator closed a device of unknown id, possibly this one
  };
  using Exports = std::map<std::uint64_t, Export>;

  void arrived();
  void parse(Request&) const;
  void parse_io(Request&) const;
  void decide(std::uint64_t id, Request&);
  void decide_open(std::uint64_t id, Request&);
  void decide_close(Request&);
  void decide_io(Request&);
  std::uint16_t refusal(const Export&, const Io&) const;
  void answer_with(std::uint64_t id, Request&, std::uint16_t result);
  bool is_full() const noexcept { return operations_in_use_ >= kMostOperations; }
  void hold(Request&, Due);  // from now on the request uses one of the machine's operations

  void export_opened();
  void export_measured();
  void storage_done();
  void settle(std::uint64_t handle);
  void force_closed();
  void session_closed();

  void storage();
  void take_operation(std::uint64_t id, Request&);
  void same_storage(const Request&);
  void respond();
  void responded_with(const Request&, std::uint16_t result);
  void check_response(const Request&);
  void check_open_rsp(const Request&, std::string_view response);
  void open_export();
  void close_export();
  void measure_export();
  void session_drained();

  void end_step();
  Opening* opening_of(std::string_view name);
  Exports::iterator open_export_of(std::string_view name);
  Exports::iterator export_with_id(std::uint32_t id);
  bool is_closing(std::string_view name) const;
  void forget(std::uint64_t id);
  void end_devices();
  static std::string due_text(const Request&);
  static bool is_name(std::string_view text, std::string_view name);

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

  static constexpr unsigned kMostOperations = 1024, kMostWaiters = 8, kMostDevices = 256;

  Findings& findings_;
  unsigned machine_;
  bool whole_;
  std::uint32_t generations_ = 0;
  DeviceEvent event_;
  std::map<std::uint64_t, Request> requests_;
  std::map<std::uint16_t, std::uint64_t> operations_;  // requests whose operation number is known
  Exports exports_;
  std::set<std::uint32_t> given_ids_;  // all ids that OPEN_RSP gave
  std::deque<Opening> openings_;
  std::vector<std::uint64_t> touched_;   // requests with an action due in this step
  std::vector<std::uint64_t> unwanted_;  // opened exports that cannot be used; to be closed in this step
  std::optional<std::pair<std::uint64_t, std::uint16_t>> damaged_;  // CacheDamaged that is due in this step
  std::uint64_t current_ = 0;                                       // request of the current input
  std::optional<std::uint16_t> measuring_;  // operation whose export is to be measured
  std::uint64_t opens_ = 0;
  unsigned operations_in_use_ = 0;
  std::optional<std::uint8_t> version_;
  bool session_closed_ = false;
  bool drained_ = false;
};

}  // namespace rtrs::spec
