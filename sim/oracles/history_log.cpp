#include "sim/oracles/history_log.hpp"

namespace rtrs::sim {

HistoryLog::HistoryLog(std::string& out, std::uint64_t seed, std::string_view world,
                       std::function<Nanos()> now)
    : out_(out), now_(std::move(now)) {
  out_ = std::string("{\"format\":\"") + kFormat + "\"";
  add("seed", seed);
  add("world", world);
  out_ += "}\n";
}

void HistoryLog::begin(std::uint32_t client, std::string_view event) {
  out_ += "{\"at\":" + std::to_string(now_());
  add("client", client);
  add("event", event);
}

bool HistoryLog::begin(const HistoryIo& io, std::string_view event) {
  if (cut_.contains(io.disk)) return false;
  begin(io.client, event);
  add("disk", io.disk);
  add("op", io.number);
  return true;
}

// All texts are names defined in this program, so that no character needs escaping.
void HistoryLog::add(std::string_view name, std::string_view text) {
  out_ += ",\"" + std::string(name) + "\":\"" + std::string(text) + "\"";
}

void HistoryLog::add(std::string_view name, std::uint64_t number) {
  out_ += ",\"" + std::string(name) + "\":" + std::to_string(number);
}

void HistoryLog::invoked(const HistoryIo& io, std::string_view type, std::uint64_t sector,
                         std::uint32_t sectors) {
  if (!begin(io, "invoke")) return;
  add("type", type);
  add("sector", sector);
  add("sectors", sectors);
  out_ += "}\n";
}

void HistoryLog::succeeded(const HistoryIo& io, std::span<const std::int64_t> read) {
  if (!begin(io, "ok")) return;
  for (std::size_t at = 0; at < read.size(); ++at)
    out_ += (at == 0 ? ",\"read\":[" : ",") + std::to_string(read[at]);
  out_ += read.empty() ? "}\n" : "]}\n";
}

void HistoryLog::failed(const HistoryIo& io, std::string_view error) {
  if (!begin(io, "failed")) return;
  add("error", error);
  out_ += "}\n";
}

void HistoryLog::unknown(const HistoryIo& io, std::string_view error) {
  if (!begin(io, "unknown")) return;
  add("error", error);
  out_ += "}\n";
}

void HistoryLog::of_client(std::uint32_t client, std::string_view event) {
  begin(client, event);
  out_ += "}\n";
}

void HistoryLog::cut(std::uint32_t client, std::string_view disk, std::string_view why) {
  if (!cut_.emplace(disk).second) return;
  begin(client, "cut");
  add("disk", disk);
  add("why", why);
  out_ += "}\n";
}

}  // namespace rtrs::sim
