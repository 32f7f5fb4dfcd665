// Implementation of rtrs::BlockServer.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "core/driver/block_server.hpp"
#include "core/driver/ring.hpp"
#include "core/proto/limits.hpp"
#include "core/record/recorder.hpp"
#include "core/wire/linux_errno.hpp"

namespace rtrs {

struct BlockServer::Impl {
  enum class OpKind : std::uint8_t { none, storage, open, measure };

  struct Session {
    Session(std::uint16_t index_, std::uint64_t serial_, std::uint32_t generation, std::uint16_t depth)
        : devices({generation, rnbd::kMaxGenerations}),
          data(depth),
          operations(depth),
          serial(serial_),
          index(index_) {}
    // Operation in progress at the caller. Indexed by the device state machine's operation number; a request
    // has at most one.
    struct Operation {
      Nanos since = 0;
      std::uint32_t serial = 0;
      std::uint16_t chunk = 0;  // the request's chunk; unused by `measure`
      OpKind kind = OpKind::none;
    };
    rnbd::ServerDevices devices;
    std::vector<std::span<std::byte>> data;  // request data, indexed by chunk
    std::vector<Operation> operations;
    std::uint64_t serial;
    std::uint16_t index;
    bool drained = false;
  };
  struct Export {
    std::uint64_t handle = 0;
    std::uint64_t id = 0;
    std::uint16_t session = 0;
  };
  struct Damage {
    std::uint64_t export_id = 0;
    std::uint16_t error = 0;
  };

  Impl(const ServerConfig& config, std::uint32_t first_generation, Recorder* recorder_)
      : server(config, recorder_),
        depth(config.queue_depth),
        generation(first_generation),
        recorder(recorder_) {
    reserve_actions();
  }
  ~Impl();

  // --- events of the transport ---
  std::size_t poll(Fabric&, Nanos now, std::span<block::Action>);
  void handle(Fabric&, Nanos now, const ServerEvent&);
  void open_session(Fabric&, Nanos now, const ServerEvent&);
  void close_session(Fabric&, Nanos now, std::uint16_t index);
  void handle_request(Fabric&, Nanos now, const ServerEvent&);

  // --- devices ---
  // Feeds an input to the devices: records it, steps the state machine, leaves its actions in `list`.
  template <class Input>
  void step(Nanos now, Session& session, Input input, rnbd::ServerActions& list) {
    input.now = now;
    if (recorder != nullptr) {
      last_input = now;
      recorder->input(instance_of(session), input);
    }
    list.clear();
    session.devices.on(input, list);
    if (recorder != nullptr) recorder->device_actions(instance_of(session), list);
  }
  void begin_record(Nanos now, const Session& session);
  static InstanceId instance_of(const Session& session) noexcept { return devices_instance(session.index); }
  template <class Input>
  void feed(Fabric& fabric, Nanos now, Session& session, const Input& input) {
    step(now, session, input, actions);
    for (const rnbd::ServerAction& action : actions) {
      // The two actions of every IO are tested first, for speed.
      if (const auto* storage = std::get_if<rnbd::Storage>(&action))
        perform(fabric, now, session, *storage);
      else if (const auto* respond = std::get_if<rnbd::Respond>(&action))
        perform(fabric, now, session, *respond);
      else
        std::visit([&, this](const auto& one) { this->perform(fabric, now, session, one); }, action);
    }
  }
  void perform(Fabric&, Nanos, Session&, const rnbd::Storage&);
  void perform(Fabric&, Nanos, Session&, const rnbd::Respond&);
  void perform(Fabric&, Nanos, Session&, const rnbd::WriteBack&);
  void perform(Fabric&, Nanos, Session&, const rnbd::OpenExport&);
  void perform(Fabric&, Nanos, Session&, const rnbd::CloseExport&);
  void perform(Fabric&, Nanos, Session&, const rnbd::CacheDamaged&);
  void perform(Fabric&, Nanos, Session&, const rnbd::MeasureExport&);
  void perform(Fabric&, Nanos, Session&, const rnbd::SessionDrained&);
  void report_damage(std::uint64_t export_id, int error) noexcept;
  bool opened(Fabric&, Nanos now, block::OpId, const block::ExportOpened&);

  Session* find(std::uint16_t index) noexcept {
    return index < sessions.size() ? sessions[index].get() : nullptr;
  }
  static std::span<std::byte> data_of(const Session& session, std::uint64_t request) noexcept {
    return session.data[RequestId::of(request).chunk];
  }
  // Registers an operation that is handed to the caller.
  block::OpId begin(Nanos now, Session& session, std::uint16_t operation, OpKind kind,
                    std::uint64_t request) noexcept {
    session.operations[operation] = {now, ++last_operation, RequestId::of(request).chunk, kind};
    return id_of(session, operation);
  }
  block::OpId id_of(const Session& session, std::uint16_t operation) const noexcept {
    return block::OpId{std::uint64_t{session.index} << 48 | std::uint64_t{operation} << 32 |
                       session.operations[operation].serial};
  }
  // Ends an operation; returns its session, or null if no session waits for this result.
  Session* end(block::OpId id, OpKind kind) noexcept;
  static std::uint16_t operation_of(block::OpId id) noexcept {
    return static_cast<std::uint16_t>(static_cast<std::uint64_t>(id) >> 32);
  }
  std::vector<Export>::iterator export_of(std::uint64_t handle) noexcept;

  // Returns the place for the next action: in the span given to poll(), or else in `waiting`.
  block::Action& place() noexcept {
    return waiting.empty() && handed < out.size() ? out[handed++] : waiting.push();
  }
  template <class One>
  One& emit() noexcept {
    return place().emplace<One>();
  }
  void hand_out_waiting() noexcept;
  void reserve_actions();

  Server server;
  std::uint16_t depth;
  std::uint32_t generation;
  Recorder* recorder;
  Nanos last_input = 0;  // time of the last recorded input
  std::uint32_t last_operation = 0;
  std::uint64_t last_session = 0;
  unsigned live = 0;
  std::vector<std::unique_ptr<Session>> sessions;  // indexed by session
  std::vector<Export> exports;                     // open exports
  std::vector<Damage> unreported_damage;           // CacheDamaged actions not handed out yet

  // Output of the current poll().
  std::span<block::Action> out;
  std::size_t handed = 0;

  // Actions that wait for the next poll(), see reserve_actions().
  Ring<block::Action> waiting;
  std::size_t capacity = 0;

  // Events of the transport; those before `next` are handled.
  std::array<ServerEvent, 64> events;
  std::size_t next = 0;
  std::size_t count = 0;

  rnbd::ServerActions actions;  // actions of the current step
  BlockServerStats counted;
};

}  // namespace rtrs
