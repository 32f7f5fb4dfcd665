// Writes traces in the formats of other programs.
#pragma once
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "core/record/codec.hpp"
#include "core/record/format.hpp"
#include "core/wire/rnbd_messages.hpp"
#include "tools/lib/trace/reader/time_base.hpp"
#include "tools/urtrs-replay/moments.hpp"

namespace rtrs::replay_tool {

// Receives the records of one or more traces and writes the result while it reads.
class Exporter {
 public:
  explicit Exporter(std::FILE* out) : out_(out) {}  // borrowed
  virtual ~Exporter() = default;
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;
  // `header` must outlive the calls up to end_trace(). `times`: common to all traces.
  virtual void begin_trace(const std::string& name, const trace::Header& header,
                           const trace::TimeBase& times) = 0;
  virtual void add(const trace::Record& record) = 0;
  virtual void end_trace() = 0;
  virtual void finish() = 0;
  // Numbers of what was written, by name.
  const std::map<std::string, std::uint64_t>& counts() const { return counts_; }

 protected:
  void put(std::string_view text) { (void)!std::fwrite(text.data(), 1, text.size(), out_); }
  void count(const char* what) { ++counts_[what]; }

 private:
  std::FILE* out_;
  std::map<std::string, std::uint64_t> counts_;
};

// A JSON trace for Perfetto and chrome://tracing. A process for each session, a thread with its states for
// each path, asynchronous slices for requests and storage operations, instants for moments.
class PerfettoExporter final : public Exporter {
 public:
  explicit PerfettoExporter(std::FILE* out);
  void begin_trace(const std::string& name, const trace::Header& header,
                   const trace::TimeBase& times) override;
  void add(const trace::Record& record) override;
  void end_trace() override;
  void finish() override;

 private:
  struct Storage {
    Nanos since = 0;
    std::string name, args;
  };
  struct Request {
    Nanos since = 0;
    std::uint64_t record = 0, path = 0, bytes = 0;
    bool write = false;
    bool begun = false;
  };
  unsigned process(InstanceId instance);
  unsigned thread(InstanceId instance, std::uint64_t path);
  std::string time(Nanos at) const;
  void event(const std::string& members);
  void slice(const char* category, InstanceId instance, std::uint64_t id, Nanos from, std::optional<Nanos> to,
             const std::string& name, const std::string& args);
  void request(const trace::Record& record);
  void end_request(InstanceId instance, std::uint64_t slot, Nanos now, const std::string& args,
                   bool answered);
  void storage(const trace::Record& record);
  void path_state(const trace::Record& record);
  void moment(const trace::Record& record);

  std::string file_;
  const trace::Header* header_ = nullptr;
  std::int64_t zero_ = 0;
  std::optional<Moments> moments_;
  trace::Record last_;
  bool any_ = false;
  unsigned next_id_ = 0;
  std::map<InstanceId, unsigned> processes_;
  std::map<std::pair<InstanceId, std::uint64_t>, unsigned> threads_;
  std::map<std::pair<InstanceId, std::uint64_t>, Request> requests_;  // by permit or chunk
  std::map<std::pair<InstanceId, std::uint64_t>, Storage> storage_;   // operations in progress
  std::map<unsigned, bool> has_state_;  // by thread: a slice with the path's state is open
};

// An fio iolog, version 3, with the IO of one trace: of a server's storage, or of a client's messages.
class IologExporter final : public Exporter {
 public:
  // `device`: only IO of this device; empty: of all.
  IologExporter(std::FILE* out, std::string device);
  void begin_trace(const std::string& name, const trace::Header& header,
                   const trace::TimeBase& times) override;
  void add(const trace::Record& record) override;
  void end_trace() override {}
  void finish() override {}

 private:
  void server(const trace::Record& record);
  void client(const trace::Record& record);
  void io(Nanos at, const std::string& device, const wire::rnbd::Io& io);
  void line(Nanos at, const std::string& file, const std::string& rest);

  std::string device_;
  const trace::Header* header_ = nullptr;
  std::optional<Nanos> zero_;
  Nanos latest_ = 0;
  std::map<std::string, std::string> files_;                                    // by device
  std::map<std::pair<InstanceId, std::uint64_t>, std::string> opening_, open_;  // names of devices
  std::map<std::tuple<InstanceId, std::uint64_t, std::uint64_t, std::uint64_t>, std::uint64_t>
      posts_;                                                    // permits of requests without a message yet
  std::map<std::pair<InstanceId, std::uint64_t>, bool> unsent_;  // by permit
};

}  // namespace rtrs::replay_tool
