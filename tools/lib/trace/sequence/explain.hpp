// Converts the records of one file to steps of the diagram: finds kind, connection and text of each step.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "conformance/spec/known.hpp"
#include "core/record/kinds.hpp"
#include "tools/lib/trace/sequence/fields.hpp"
#include "tools/lib/trace/sequence/step_buffer.hpp"

namespace rtrs::tools::sequence {

class Explainer {
 public:
  // Adds the state machines and connections of file `file` to the story, and its steps to `steps`. `lean`:
  // steps without their fields.
  Explainer(Story& story, StepBuffer& steps, Index file, bool lean);
  void add(const Fields& record);
  // The snapshot in this record, which was added before, tells the state of its machine. `ahead`: only its
  // depth is used, for the records before the snapshot.
  void resume(const trace::Record& record, const spec::KnownSession& known, bool ahead);

 private:
  // Facts that are known about a state machine while its records are read.
  struct Known {
    Index machine = kNone;
    std::map<ConKey, Index> connections;
    struct Submitted {
      bool write = false;
      std::uint32_t bytes = 0;
    };
    std::map<std::uint16_t, Submitted> permits;  // client only: requests, by permit
    std::map<std::uint32_t, ConKey> requests;    // server only: connections, by handle of the connect request
    // Steps whose message text is not known yet. posted: steps of a client, by permit. delivered: steps of a
    // server, by chunk and serial.
    std::map<std::uint32_t, std::size_t> posted, delivered;
    // Names of devices by their id, and names in OPEN messages by request or token.
    std::map<std::uint32_t, std::string> devices;
    std::map<std::uint64_t, std::string> opening;
    bool speaks_rnbd = false;  // at least one request had an RNBD message
  };
  using Handler = void (Explainer::*)(const Fields&, Step&);
  static const std::map<std::string_view, Handler>& handlers();

  Known& known(const Fields& record);
  Known& begin(const Fields& record, Side side, bool registry);
  Side guess_side(const Fields& record) const;
  Machine& machine() { return story_.machines[static_cast<std::size_t>(now_->machine)]; }
  bool on_server() { return machine().side == Side::server; }
  std::string chunk_or_permit(std::uint64_t number);
  Index connection_at(const ConKey& key);
  void attach(const Fields& record, Step& step);
  Step step_of(const Fields& record) const;
  // Records of device state machines (explain_devices.cpp).
  bool is_of_devices(const Fields& record);
  void add_of_devices(const Fields& record);
  std::optional<InstanceId> session_of_devices(InstanceId instance) const;
  bool append_at_delivery(const Fields& record, const std::string& words);
  void append_message(const Fields& record, Step& step, std::uint32_t permit);
  void note_device_names(const Fields& record);
  Index device_of(wire::Bytes message);
  Connection& connection_of(Step& step) {
    return story_.connections[static_cast<std::size_t>(step.connection)];
  }
  void send(Step& step, std::uint64_t signature);
  void receive(Step& step, std::uint64_t signature);
  // Describes the immediate of a response or heartbeat. Sets group and tone of the step.
  std::string imm_words(std::uint32_t imm, Step& step);

  // Records of connections, paths and sessions (explain_control.cpp).
  void on_begin_client(const Fields&, Step&);
  void on_begin_server(const Fields&, Step&);
  void on_end(const Fields&, Step&);
  void on_connect(const Fields&, Step&);
  void on_connected(const Fields&, Step&);
  void on_connect_failed(const Fields&, Step&);
  void on_addresses_found(const Fields&, Step&);
  void on_connect_requested(const Fields&, Step&);
  void on_accept(const Fields&, Step&);
  void on_reject(const Fields&, Step&);
  void on_info(const Fields&, Step&);
  void on_fence(const Fields&, Step&);
  void on_disconnect(const Fields&, Step&);
  void on_lost(const Fields&, Step&);
  void on_closed(const Fields&, Step&);
  void on_path_changed(const Fields&, Step&);
  void on_link_changed(const Fields&, Step&);
  void on_end_session(const Fields&, Step&);
  void on_operator(const Fields&, Step&);
  // Records of requests and messages (explain_io.cpp).
  void on_submitted(const Fields&, Step&);
  void on_post_request(const Fields&, Step&);
  void on_arrived(const Fields&, Step&);
  void on_deliver(const Fields&, Step&);
  void on_responded(const Fields&, Step&);
  void on_post_response(const Fields&, Step&);
  void on_post_imm(const Fields&, Step&);
  void on_probe_delivery(const Fields&, Step&);
  void on_imm(const Fields&, Step&);
  void on_complete(const Fields&, Step&);
  void on_failed_over(const Fields&, Step&);
  void on_key_invalidated(const Fields&, Step&);
  void on_peer_broke(const Fields&, Step&);
  void on_wire(const Fields&, Step&);
  void on_wire_cm(const Fields&, Step&);
  void take_limits(std::string_view con_rsp);

  Story& story_;
  StepBuffer& steps_;
  Index file_;
  bool lean_;
  std::map<std::uint16_t, Known> by_instance_;
  // Depth, and whether generations were negotiated, by instance; from the first snapshot of each.
  std::map<std::uint16_t, std::pair<std::uint32_t, bool>> ahead_;
  std::set<std::uint16_t> devices_;  // instances of device machines
  Known* now_ = nullptr;             // machine of the record that is being converted
};

// Returns, for example, "errno 5 (EIO)".
std::string errno_words(std::uint64_t number);
// Returns, for example, "4096 B" or "128 KiB".
std::string size_words(std::uint64_t bytes);
// Returns a value that identifies a message and is equal at both of its ends. `kind` is the kind of the
// message; `what` distinguishes messages of that kind.
constexpr std::uint64_t signature(char kind, std::uint64_t what) {
  return static_cast<std::uint64_t>(static_cast<unsigned char>(kind)) << 56 | (what & ((1ULL << 56) - 1));
}

}  // namespace rtrs::tools::sequence
