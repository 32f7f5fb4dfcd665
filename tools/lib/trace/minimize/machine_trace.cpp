#include "tools/lib/trace/minimize/machine_trace.hpp"

#include <array>
#include <map>
#include <optional>

#include "core/record/codec.hpp"
#include "core/wire/imm.hpp"
#include "tools/lib/trace/minimize/device_follower.hpp"
#include "tools/lib/trace/replay/replay_machines.hpp"

namespace rtrs::tools {

namespace {

using trace::kKindOf;
using trace::Record;

template <class... Inputs>
bool read_input(std::variant<Inputs...>& out, const Record& record,
                const trace::Compatibility& compatibility) {
  const auto try_one = [&]<class T>(std::type_identity<T>) {
    using Event = typename EventOf<T>::Type;
    if (record.event->id != kKindOf<Event>) return false;
    out = trace::get_struct<Event>(record, compatibility.map(record.event->id));
    return true;
  };
  return (try_one(std::type_identity<Inputs>{}) || ...);
}

// Reads an action. Returns false if the record is not one of the alternatives.
template <class Variant, class... Alternatives>
bool read_action(Variant& out, const Record& record, const trace::Compatibility& compatibility,
                 std::type_identity<std::variant<Alternatives...>>) {
  const auto try_one = [&]<class T>(std::type_identity<T>) {
    if constexpr (kIsVariant<T>) {
      T control;
      if (!read_action(control, record, compatibility, std::type_identity<T>{})) return false;
      out = control;
      return true;
    } else {
      using Event = typename EventOf<T>::Type;
      if (record.event->id != kKindOf<Event>) return false;
      out = trace::get_struct<Event>(record, compatibility.map(record.event->id));
      return true;
    }
  };
  return (try_one(std::type_identity<Alternatives>{}) || ...);
}

// Follows a recorded session to find the request and the connection attempt of each input.
class SessionFollower {
 public:
  template <class Input>
  InputMeta meta(const Input& input, std::uint32_t index) {
    return std::visit([&](const auto& one) { return this->of(one, index); }, input);
  }
  void on_connect(const ConKey& key) {
    std::uint32_t& newest = newest_[key.path];
    newest = std::max(newest, key.epoch);
  }

 private:
  template <class Input>
  InputMeta of(const Input& input, std::uint32_t index) {
    InputMeta meta;
    if constexpr (requires { input.key; }) {
      const auto newest = newest_.find(input.key.path);
      if (newest != newest_.end() && newest->second > input.key.epoch)
        meta.age = newest->second - input.key.epoch;
    }
    meta.request = request(input, index);
    return meta;
  }
  std::uint32_t owner(std::uint32_t slot) const {
    const auto found = owners_.find(slot);
    return found == owners_.end() ? InputMeta::kNone : found->second;
  }
  template <class Input>
  std::uint32_t request(const Input& input, std::uint32_t index) {
    if constexpr (std::is_same_v<Input, Connected>) {
      depth_ = input.queue_depth;
    } else if constexpr (std::is_same_v<Input, Submitted>) {
      owners_[input.permit] = index;
    } else if constexpr (std::is_same_v<Input, ImmReceived>) {
      const auto type = wire::imm_type(input.imm);
      const bool response = type == wire::ImmType::io_rsp || type == wire::ImmType::io_rsp_w_inv;
      if (response && depth_ != 0)
        return owner(wire::split_msg_id(depth_, wire::decode_io_rsp(input.imm).msg_id).buf_id);
    } else if constexpr (std::is_same_v<Input, KeyedResponseReceived>) {
      return owner(input.buf_id);
    } else if constexpr (std::is_same_v<Input, KeyInvalidated>) {
      return owner(input.permit);
    } else if constexpr (std::is_same_v<Input, RequestArrived>) {
      owners_[input.chunk] = index;
    } else if constexpr (std::is_same_v<Input, ChunkInvalidated> || std::is_same_v<Input, Responded>) {
      return owner(input.chunk);
    }
    return InputMeta::kNone;
  }

  std::map<std::uint16_t, std::uint32_t> newest_;  // newest epoch of each path
  std::map<std::uint32_t, std::uint32_t> owners_;  // index of the request's input, by permit or chunk
  std::uint32_t depth_ = 0;
};

// Followers, one per kind of state machine. A machine uses only the follower of its kind.
struct Follower {
  SessionFollower session;
  ClientDevicesFollower client_devices;
  ServerDevicesFollower server_devices;
};

class Loader {
 public:
  explicit Loader(trace::Source& source) : reader_(source) {}

  tl::expected<LoadedTrace, std::string> run() {
    const auto wrong = [](std::string why) { return tl::make_unexpected(std::move(why)); };
    if (reader_.open() != trace::Reader::Status::ok) return wrong(reader_.stop().reason);
    if ((reader_.header().flags & trace::partial) != 0)
      return wrong("the beginning of the trace is missing; record to a file from the start");
    if ((reader_.header().flags & trace::action_counts) != 0)
      return wrong("the trace only counts actions; record to a file instead of dumping the ring");
    compatibility_ = std::make_unique<trace::Compatibility>(reader_.header().schema);
    Record record;
    trace::Reader::Status status;
    while ((status = reader_.next(record)) == trace::Reader::Status::ok) {
      const char* problem = compatibility_->problem(record.event->id);
      const bool known =
          record.event->category != trace::EventClass::note && record.event->id < trace::kKindLimit;
      if (known && problem == nullptr) take(record);
      if (!refused_.empty()) return wrong(refused_);
    }
    if (status != trace::Reader::Status::end && status != trace::Reader::Status::damaged)
      return wrong(reader_.stop().reason);
    loaded_.records = reader_.records();
    if (status == trace::Reader::Status::damaged) loaded_.damage = damage_text(reader_);
    if (!loaded_.damage.empty() && loaded_.records == 0)
      return wrong(loaded_.damage + "; no record of it can be read");
    return std::move(loaded_);
  }

 private:
  template <class Begin>
  Begin get(const Record& record) const {
    return trace::get_struct<Begin>(record, compatibility_->map(record.event->id));
  }

  template <class Begin>
  void check(const Record& record, const Begin& begin) {
    if (const char* problem = trace::problem_of(begin))
      refused_ = "record " + std::to_string(record.seq) + " (" + record.event->name + "): " + problem;
  }

  void take(const Record& record) {
    switch (record.event->id) {
      case kKindOf<trace::BeginClient>:
        check(record, get<trace::BeginClient>(record));
        add(record).machine = ClientInputs{get<trace::BeginClient>(record).config, 0, {}, {}, {}};
        return;
      case kKindOf<trace::BeginServerSession>: {
        const auto begin = get<trace::BeginServerSession>(record);
        check(record, begin);
        add(record).machine = ServerInputs{begin.config, begin.session, {}, {}, {}};
        return;
      }
      case kKindOf<trace::BeginClientDevices>:
        add(record).machine = ClientDevicesInputs{};
        return;
      case kKindOf<trace::BeginServerDevices>: {
        const auto begin = get<trace::BeginServerDevices>(record);
        check(record, begin);
        add(record).machine = ServerDevicesInputs{begin.options, begin.session, {}, {}, {}};
        return;
      }
      case kKindOf<trace::BeginServerRegistry>:
      case kKindOf<trace::End>:
        live_.erase(record.instance);
        return;
      default:
        break;
    }
    const auto live = live_.find(record.instance);
    if (live == live_.end()) return;
    if (record.event->id == kKindOf<Connect>)
      followers_[live->second].session.on_connect(get<Connect>(record).key);
    std::visit([&](auto& machine) { take(machine, record, followers_[live->second]); },
               loaded_.machines[live->second].machine);
  }

  template <class Machine>
  void take(Machine& machine, const Record& record, Follower& follower) {
    if (record.event->category == trace::EventClass::input) return input(machine, record, follower);
    if (machine.metas.empty()) return;
    if (record.event->id == kKindOf<trace::StateHash>) {
      machine.metas.back().state = get<trace::StateHash>(record).fingerprint;
    } else if (record.event->category == trace::EventClass::action) {
      typename std::remove_cvref_t<decltype(machine.actions)>::value_type action;
      if (!read_action(action, record, *compatibility_, std::type_identity<decltype(action)>{})) return;
      machine.actions.push_back(action);
      follow(machine, follower);
    }
  }

  // Passes the last action to the follower.
  template <class Machine>
  static void follow(Machine& machine, Follower& follower) {
    const auto index = static_cast<std::uint32_t>(machine.inputs.size() - 1);
    if constexpr (std::is_same_v<Machine, ClientDevicesInputs>)
      follower.client_devices.on_action(machine.actions.back(), machine.actions.size() - 1, index);
    else if constexpr (std::is_same_v<Machine, ServerDevicesInputs>)
      follower.server_devices.on_action(machine.actions.back(), machine.metas, index);
  }
  template <class Machine>
  static auto& follower_of(Follower& follower) {
    if constexpr (std::is_same_v<Machine, ClientDevicesInputs>)
      return follower.client_devices;
    else if constexpr (std::is_same_v<Machine, ServerDevicesInputs>)
      return follower.server_devices;
    else
      return follower.session;
  }

  template <class Machine>
  void input(Machine& machine, const Record& record, Follower& follower) {
    auto& inputs = machine.inputs;
    inputs.emplace_back();
    if (!read_input(inputs.back(), record, *compatibility_)) return inputs.pop_back();
    const auto index = static_cast<std::uint32_t>(inputs.size() - 1);
    InputMeta meta = follower_of<Machine>(follower).meta(inputs.back(), index);
    meta.record = record.seq;
    meta.first_action = machine.actions.size();
    machine.metas.push_back(meta);
  }

  MachineTrace& add(const Record& record) {
    live_[record.instance] = loaded_.machines.size();
    followers_.emplace_back();
    MachineTrace& machine = loaded_.machines.emplace_back();
    machine.instance = record.instance;
    machine.begin = record.time;
    machine.origin = reader_.header().origin;
    return machine;
  }

  trace::Reader reader_;
  std::unique_ptr<trace::Compatibility> compatibility_;
  LoadedTrace loaded_;
  std::string refused_;              // reason why a machine cannot be created
  std::vector<Follower> followers_;  // followers, indexed by machine
  std::map<InstanceId, std::size_t> live_;
};

}  // namespace

std::string damage_text(const trace::Reader& reader) {
  return "byte " + std::to_string(reader.stop().offset) + ": " + reader.stop().reason;
}

tl::expected<LoadedTrace, std::string> load_machines(trace::Source& source) {
  return Loader(source).run();
}

}  // namespace rtrs::tools
