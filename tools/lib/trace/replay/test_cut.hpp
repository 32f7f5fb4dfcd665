// Cuts the beginning off a trace, for tests: the rest begins with snapshots, as a file of a rotation does.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "core/record/writer.hpp"
#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/replay/replay_machines.hpp"

namespace rtrs::trace::test {

inline bool begins(const Record& record) {
  return record.event->name.starts_with("Begin");
}

// Replays a trace and writes the rest of it, from the first input at or after record `from` on. The note of a
// connect request would be missing, so the rest does not begin with one. Inputs only, with
// the number of their actions, if `dump`.
class Cut {
 public:
  Cut(std::string_view bytes, std::uint64_t from, bool dump)
      : source_(bytes), reader_(source_), from_(from), dump_(dump) {}

  std::string run() {
    EXPECT_EQ(reader_.open(), Reader::Status::ok);
    compatibility_ = std::make_unique<Compatibility>(reader_.header().schema);
    Record record;
    while (reader_.next(record) == Reader::Status::ok) {
      const bool input = record.event->category == EventClass::input;
      if (writer_ == nullptr && record.seq >= from_ && input && record.event->name != "ConnectRequested")
        start(record);
      if (dump_ && (input || record.event->category == EventClass::control)) count();
      if (writer_ != nullptr && takes(record)) put(record);
      follow(record);
    }
    if (writer_ == nullptr) return {};
    if (dump_) count();
    EXPECT_EQ(writer_->finish(), 0);
    return std::move(written_);
  }

 private:
  bool takes(const Record& record) const {
    return !dump_ || begins(record) || record.event->category == EventClass::input ||
           record.event->name == "End";
  }

  void start(const Record& first) {
    writer_ = std::make_unique<Writer>(std::make_unique<StringSink>(written_));
    Header header = reader_.header();
    header.flags |= partial | (dump_ ? action_counts : 0U);
    EXPECT_EQ(writer_->start(header), 0);
    for (const auto& [instance, machine] : machines_) {
      Snapshot part;
      part.now = first.time;
      part.machine = kinds_.at(instance);
      const std::string state = machine->save(part.layout);
      part.size = static_cast<std::uint32_t>(state.size());
      const auto all = std::as_bytes(std::span(state));
      for (std::size_t at = 0; at < all.size(); at += kMaxStatePart) {
        part.offset = static_cast<std::uint32_t>(at);
        part.part = all.subspan(at, std::min(kMaxStatePart, all.size() - at));
        EXPECT_EQ(writer_->append_note(instance, part), 0);
      }
    }
  }

  void put(const Record& record) {
    EXPECT_EQ(writer_->append_values(*record.event, record.instance, record.time, record.values), 0);
  }

  // Writes the number of actions of the last input.
  void count() {
    if (writer_ == nullptr || actions_.size() == 0 || !pending_) return;
    pending_ = false;
    const ActionCount count{static_cast<std::uint16_t>(actions_.size())};
    EXPECT_EQ(writer_->append(kKindOf<ActionCount>, instance_, &count), 0);
  }

  void follow(const Record& record) {
    if (begins(record)) {
      std::string why;
      machines_[record.instance] = core_machines()(record, compatibility_->map(record.event->id), why);
      ASSERT_NE(machines_[record.instance], nullptr) << why;
      kinds_[record.instance] = record.event->name == "BeginClient"           ? MachineKind::client_session
                                : record.event->name == "BeginServerSession"  ? MachineKind::server_session
                                : record.event->name == "BeginServerRegistry" ? MachineKind::server_registry
                                : record.event->name == "BeginClientDevices"  ? MachineKind::client_devices
                                                                              : MachineKind::server_devices;
    } else if (record.event->name == "End") {
      machines_.erase(record.instance);
    } else if (record.event->category == EventClass::input) {
      actions_.clear();
      pending_ = true;
      instance_ = record.instance;
      machines_.at(record.instance)->feed(record, compatibility_->map(record.event->id), actions_);
    }
  }

  MemorySource source_;
  Reader reader_;
  std::uint64_t from_;
  bool dump_;
  std::unique_ptr<Compatibility> compatibility_;
  std::map<InstanceId, std::unique_ptr<ReplayMachine>> machines_;
  std::map<InstanceId, MachineKind> kinds_;
  Effects actions_;
  bool pending_ = false;
  InstanceId instance_ = 0;
  std::string written_;
  std::unique_ptr<Writer> writer_;
};

}  // namespace rtrs::trace::test
