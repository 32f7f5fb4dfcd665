// Makes a long trace of a short one, to measure the programs that read traces: writes its records again and
// again, each time later and as other sessions. Copies of the client and the server still belong together.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/record/writer.hpp"
#include "core/wire/messages.hpp"
#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/reader/reader.hpp"

namespace {

using namespace rtrs;
using namespace rtrs::trace;

struct Stored {
  const EventInfo* event = nullptr;
  InstanceId instance = 0;
  Nanos time = 0;
  std::vector<Value> values;
};

class Grower {
 public:
  explicit Grower(const char* path) : file_(path), reader_(file_.source()) {}

  bool load() {
    if (!file_.is_open() || reader_.open() != Reader::Status::ok) return false;
    Record record;
    while (reader_.next(record) == Reader::Status::ok) {
      Stored one{record.event, record.instance, record.time, {record.values.begin(), record.values.end()}};
      for (std::size_t i = 0; i < one.values.size(); ++i) {
        const FieldType type = record.event->fields[i].type;
        if (one.values[i].bytes.empty()) continue;
        one.values[i].bytes = bytes_.emplace_back(one.values[i].bytes);
        if (type == FieldType::uuid) uuids_.insert(std::string(one.values[i].bytes));
        if (record.event->name == "WireCm") add_uuids(one.values[i].bytes);
      }
      records_.push_back(std::move(one));
    }
    return !records_.empty();
  }

  // Returns 0 or an errno.
  int write(const char* path, std::uint64_t most) {
    int error = 0;
    auto sink = FdSink::create(path, error);
    if (sink == nullptr) return error;
    Writer writer(std::move(sink));
    if (const int wrong = writer.start(reader_.header())) return wrong;
    constexpr Nanos kSecond = 1'000'000'000;
    const Nanos length = records_.back().time - records_.front().time + kSecond;
    for (std::uint32_t copy = 0; writer.records() + records_.size() <= most || copy == 0; ++copy) {
      for (const Stored& one : records_)
        if (const int wrong =
                writer.append_values(*one.event, one.instance, one.time + copy * length, renamed(one, copy)))
          return wrong;
    }
    std::printf("%s: %llu records\n", path, static_cast<unsigned long long>(writer.records()));
    return writer.finish();
  }

 private:
  // A client's trace has its uuids only in connect requests.
  void add_uuids(std::string_view private_data) {
    const auto request = wire::parse_conn_req(std::as_bytes(std::span(private_data)));
    if (!request) return;
    for (const wire::Uuid& uuid : {request.value.sess_uuid, request.value.paths_uuid})
      uuids_.emplace(reinterpret_cast<const char*>(uuid.bytes.data()), uuid.bytes.size());
  }
  // Changes the uuids, also those in messages, so that each copy has its own sessions.
  const std::vector<Value>& renamed(const Stored& one, std::uint32_t copy) {
    changed_.clear();
    values_ = one.values;
    for (std::size_t i = 0; i < values_.size() && copy != 0; ++i) {
      if (values_[i].bytes.size() < kUuid || one.event->fields[i].type == FieldType::text) continue;
      const bool whole = one.event->fields[i].type == FieldType::uuid;
      if (!whole && one.event->name != "WireCm" && one.event->name != "ConnectRequested") continue;
      std::string text(values_[i].bytes);
      for (std::size_t at = 0; at + kUuid <= text.size(); ++at) {
        if (!uuids_.contains(text.substr(at, kUuid))) continue;
        for (std::size_t byte = 0; byte < sizeof copy; ++byte)
          text[at + byte] = static_cast<char>(text[at + byte] ^ static_cast<char>(copy >> (8 * byte)));
        at += kUuid - 1;
      }
      values_[i].bytes = changed_.emplace_back(std::move(text));
    }
    return values_;
  }

  static constexpr std::size_t kUuid = 16;
  tools::InputFile file_;
  Reader reader_;
  std::deque<std::string> bytes_, changed_;
  std::vector<Stored> records_;
  std::vector<Value> values_;
  std::set<std::string> uuids_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: grow_trace TRACE LONGER RECORDS\n"), 2;
  Grower grower(argv[1]);
  if (!grower.load()) return std::fprintf(stderr, "grow_trace: cannot read %s\n", argv[1]), 2;
  if (const int wrong = grower.write(argv[2], std::strtoull(argv[3], nullptr, 10)))
    return std::fprintf(stderr, "grow_trace: cannot write %s: %s\n", argv[2], std::strerror(wrong)), 2;
  return 0;
}
