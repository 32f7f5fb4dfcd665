// Writes the IO of all applications of a world and its results, one JSON object per line, for a checker
// outside of this program. docs/simulation.md ("Histories") describes the format.
#pragma once
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/time.hpp"

namespace rtrs::sim {

// One IO. `number` is unique per disk. Sectors are counted on the disk.
struct HistoryIo {
  std::uint32_t client = 0;  // 1 is the first client
  std::string_view disk;
  std::uint64_t number = 0;
};

class HistoryLog {
 public:
  static constexpr const char* kFormat = "urtrs-history-1";
  static constexpr std::int64_t kBroken = -1;  // content that no write of the run wrote to this sector

  // `out` must outlive the log. `now` returns the virtual time.
  HistoryLog(std::string& out, std::uint64_t seed, std::string_view world, std::function<Nanos()> now);

  void invoked(const HistoryIo&, std::string_view type, std::uint64_t sector, std::uint32_t sectors);
  // `read`: for each sector of a READ the number of the IO that wrote it, 0 for zeroes, or kBroken.
  void succeeded(const HistoryIo&, std::span<const std::int64_t> read);
  // The server answered with an error. The IO may have taken effect, but has no effect from now on.
  void failed(const HistoryIo&, std::string_view error);
  // The IO failed without an answer. The IO may take effect until a later request of the same client process
  // succeeds, or until session_ended().
  void unknown(const HistoryIo&, std::string_view error);
  // The client's process died. No IO in flight gets a result.
  void crashed(std::uint32_t client) { of_client(client, "crash"); }
  // The server has no session of the client any more. IOs that failed, or whose process died, have no effect
  // from now on.
  void session_ended(std::uint32_t client) { of_client(client, "session_ended"); }
  // The disk lost data, but not by an IO; for example its cache was lost. No further event of this disk is
  // logged.
  void cut(std::uint32_t client, std::string_view disk, std::string_view why);

 private:
  void begin(std::uint32_t client, std::string_view event);
  void add(std::string_view name, std::string_view text);
  void add(std::string_view name, std::uint64_t number);
  void of_client(std::uint32_t client, std::string_view event);
  // Returns false if the history of the disk has ended.
  bool begin(const HistoryIo&, std::string_view event);

  std::string& out_;
  std::function<Nanos()> now_;
  std::set<std::string, std::less<>> cut_;
};

}  // namespace rtrs::sim
