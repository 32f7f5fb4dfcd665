#include "tools/lib/trace/to_scenario/device_story.hpp"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "sim/world/disk_load.hpp"

namespace rtrs::tools {

namespace {

using sim::Step;
using Verb = Step::Verb;

constexpr std::uint32_t kMaxDisks = 8;     // maximum number of disks per simulated client
constexpr std::uint32_t kMaxIoLength = 8;  // sectors; short, so that several IOs fit side by side on a disk
constexpr std::uint32_t kDiskSectorBytes = wire::rnbd::kSectorBytes;
// The server's operator is assumed to act this long before the first effect that the trace shows.
constexpr Nanos kBefore = microseconds(100);

class Devices {
 public:
  Devices(const ClientDevicesInputs& devices, const ClientInputs& session)
      : devices_(devices), session_(session) {}

  DeviceStory read() {
    if (std::any_of(session_.inputs.begin(), session_.inputs.end(),
                    [](const ClientInput& input) { return std::holds_alternative<CloseRequested>(input); }))
      leaves_ = last_use();
    for (std::size_t at = 0; at < devices_.inputs.size(); ++at) {
      at_ = at;
      visit_event(
          [this](const auto& input) {
            now_ = input.now;
            on(input);
          },
          devices_.inputs[at]);
      for (std::size_t one = first_action(at); one < first_action(at + 1); ++one)
        visit_event([this](const auto& action) { did(action); }, devices_.actions[one]);
    }
    std::stable_sort(story_.steps.begin(), story_.steps.end(),
                     [](const Timed& a, const Timed& b) { return a.time < b.time; });
    story_.disks = static_cast<std::uint32_t>(disk_of_.size());
    return std::move(story_);
  }

 private:
  struct Device {
    std::uint32_t disk = 0;
    std::deque<Nanos> begun;  // start times of messages in flight
    unsigned again = 0;       // number of undelivered messages that will be sent again
    std::uint64_t sectors = 0, first_sectors = 0;
    bool same_server = false;  // the server has not changed since the device was opened
  };

  std::size_t first_action(std::size_t input) const {
    return input < devices_.metas.size() ? devices_.metas[input].first_action : devices_.actions.size();
  }
  // Returns the index of the last input that uses a device. An unmap after this input belongs to the shutdown
  // of the client.
  std::size_t last_use() const {
    std::size_t last = 0;
    for (std::size_t at = 0; at < devices_.inputs.size(); ++at)
      if (event_if<trace::IoBegun>(devices_.inputs[at]) != nullptr ||
          event_if<trace::MapRequested>(devices_.inputs[at]) != nullptr)
        last = at;
    return last;
  }
  Step step(Verb verb, std::uint32_t disk) const {
    Step step;
    step.verb = verb;
    step.con = disk;
    return step;
  }
  void add(Nanos time, const Step& step) { story_.steps.push_back({time, step}); }
  Nanos before(Nanos time) const { return time > kBefore ? time - kBefore : time; }
  Device* device(rnbd::DeviceHandle handle) {
    const auto found = known_.find(handle);
    return found == known_.end() ? nullptr : &found->second;
  }

  // --- inputs of the state machine ---
  void on(const trace::LinkUp&) {}
  void on(const trace::LinkDown&) {
    for (auto& [handle, one] : known_) one.same_server = false;
  }
  void on(const trace::MapRequested& input) { mapping_ = &input; }
  void on(const trace::UnmapRequested& input) {
    if (const Device* one = device(input.device); one != nullptr && at_ < leaves_)
      add(input.now, step(Verb::unmap, one->disk));
  }
  void on(const trace::RemapRequested& input) {
    if (const Device* one = device(input.device)) add(input.now, step(Verb::remap, one->disk));
  }
  void on(const trace::ResizeRequested&) {}  // scenarios have no step for this input
  void on(const trace::MessageDone&) {}
  void on(const trace::RetryDue&) {}
  void on(const trace::ReopenDue&) {}

  void on(const trace::IoBegun& input) {
    Device* one = device(input.device);
    if (one == nullptr) return;
    one->begun.push_back(input.now);
    // A message that is sent again is not a new IO.
    if (one->again != 0) {
      --one->again;
      return;
    }
    const std::uint32_t bytes = bytes_of_next_request();
    Step io = step(Verb::disk_read, one->disk);
    if (input.nature.flushes) {
      io.verb = Verb::disk_flush;
    } else if (input.nature.changes) {
      io.verb = bytes == 0 ? Verb::disk_discard : Verb::disk_write;
      io.value = input.nature.durable ? 1 : 0;
    }
    if (!input.nature.flushes) {
      io.number = std::clamp<std::uint32_t>(bytes / kDiskSectorBytes, 1, kMaxIoLength);
      // Places IOs side by side on the disk; after the last place, starts again with the first.
      io.time = count_++ % (sim::kSectorsOfADisk / 2 / kMaxIoLength) * kMaxIoLength;
    }
    add(input.now, io);
  }
  void on(const trace::IoDone& input) {
    done_ = device(input.device);
    if (done_ == nullptr || done_->begun.empty()) return;
    const Nanos since = done_->begun.front();
    done_->begun.pop_front();
    if (!input.delivered) return;
    story_.slowest = std::max(story_.slowest, input.now - since);
    // The server has not changed and answers ENOTCONN, so the operator has removed the device.
    if (input.peer_errno == ENOTCONN && done_->same_server) {
      done_->same_server = false;
      add(before(since), step(Verb::take_away, done_->disk));
    }
    if (input.peer_errno == EIO && input.ticket.nature.flushes)
      add(before(since), step(Verb::fail_sync, done_->disk));
  }

  // --- actions of the state machine ---
  void did(const trace::SendMessage& action) {
    if (action.kind == rnbd::MessageKind::open) asked_ = now_;
  }
  void did(const trace::MapAnswered& action) {
    if (action.error != 0 || mapping_ == nullptr) return;
    const std::string name(mapping_->name.view());
    const auto disk = disk_of_.try_emplace(name, static_cast<std::uint32_t>(disk_of_.size())).first->second;
    if (disk >= kMaxDisks) {
      disk_of_.erase(name);
      return;
    }
    known_[action.device].disk = disk;
    Step map = step(Verb::map, disk);
    map.number = mapping_->mode == wire::rnbd::AccessMode::read_only ? 1 : 0;
    add(mapping_->now, map);
  }
  void did(const trace::DeviceChanged& action) {
    Device* one = device(action.device);
    if (one == nullptr) return;
    if (action.state == rnbd::DeviceState::open) return opened(*one, action.geometry.nsectors);
    one->same_server = false;
    // ENOTCONN is not a refusal: the server has lost the device.
    if (action.peer_errno == 0 || action.peer_errno == ENOTCONN) return;
    if (!forbidden_.insert(one->disk).second) return;
    Step forbid = step(Verb::forbid, one->disk);
    forbid.number = 1;
    add(before(asked_), forbid);
  }
  void did(const trace::CacheReplaced&) {}
  void did(const trace::IoStarted&) {}
  void did(const trace::IoJudged& action) {
    if (done_ != nullptr && action.disposition == rnbd::Disposition::retry_after_remap) ++done_->again;
  }

  void opened(Device& one, std::uint64_t sectors) {
    one.same_server = true;
    if (forbidden_.erase(one.disk) != 0) add(before(asked_), step(Verb::forbid, one.disk));
    if (one.first_sectors == 0) one.first_sectors = std::max<std::uint64_t>(sectors, 1);
    if (one.sectors != 0 && one.sectors != sectors) {
      Step resize = step(Verb::resize, one.disk);
      const std::uint64_t share = sim::kSectorsOfADisk * sectors / one.first_sectors;
      resize.number = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(
          share, sim::kSectorsOfADisk / 2, std::uint64_t{2} * sim::kSectorsOfADisk));
      add(before(asked_), resize);
    }
    one.sectors = sectors;
  }

  // Returns the data length of the next request of the session. The session records a message later than the
  // device state machine does.
  std::uint32_t bytes_of_next_request() {
    const std::uint64_t record = devices_.metas[at_].record;
    while (request_ < session_.inputs.size()) {
      const auto* submitted = std::get_if<Submitted>(&session_.inputs[request_]);
      if (submitted != nullptr && session_.metas[request_].record > record) return submitted->data_len;
      ++request_;
    }
    return 0;
  }

  const ClientDevicesInputs& devices_;
  const ClientInputs& session_;
  DeviceStory story_;
  std::size_t at_ = 0;                    // index of the current input
  std::size_t leaves_ = ~std::size_t{0};  // index of the input after which the client closes
  std::size_t request_ = 0;               // index of the next input of the session
  const trace::MapRequested* mapping_ = nullptr;
  Device* done_ = nullptr;  // device of the last IoDone
  Nanos now_ = 0;
  Nanos asked_ = 0;  // time at which the last OPEN was sent
  std::map<std::string, std::uint32_t> disk_of_;
  std::map<rnbd::DeviceHandle, Device> known_;
  std::set<std::uint32_t> forbidden_;  // disks whose last OPEN the server refused
  std::uint32_t count_ = 0;
};

}  // namespace

DeviceStory device_story(const ClientDevicesInputs& devices, const ClientInputs& session) {
  return Devices(devices, session).read();
}

}  // namespace rtrs::tools
