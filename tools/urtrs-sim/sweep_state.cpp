#include "tools/urtrs-sim/sweep_state.hpp"

#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/lib/files/read_bounded.hpp"
#include "tools/urtrs-sim/state_file.hpp"

namespace rtrs::sim_tool {

namespace {

using nlohmann::json;

constexpr const char* kKind = "urtrs-sim sweep";

std::string text_of(const SeedRange& seeds) {
  return std::to_string(seeds.first) + ".." + std::to_string(seeds.end);
}

json file_of(const SweepIdentity& identity, std::uint64_t next) {
  return {{"schema_version", 1},         {"kind", kKind},
          {"version", this_version()},   {"seeds", text_of(identity.seeds)},
          {"options", identity.options}, {"next", next}};
}

std::string text(const json& from, const char* key) {
  return from.contains(key) && from[key].is_string() ? from[key].get<std::string>() : std::string();
}

}  // namespace

SweepState::SweepState(std::string file, SweepIdentity identity, std::uint64_t next)
    : file_(std::move(file)), identity_(std::move(identity)), next_(next) {}

tl::expected<SweepState, std::string> SweepState::open(const std::string& file,
                                                       const SweepIdentity& identity) {
  const auto wrong = [&file](const std::string& what) { return tl::make_unexpected(file + ": " + what); };
  if (::access(file.c_str(), F_OK) != 0 && errno == ENOENT)
    return SweepState(file, identity, identity.seeds.first);
  const auto read = tools::read_bounded(file, 1);
  if (!read) return wrong(read.error());
  const json found = json::parse(*read, nullptr, false);
  if (!found.is_object() || text(found, "kind") != kKind || !found.contains("next") ||
      !found["next"].is_number_unsigned())
    return wrong("it is not the state of a sweep; use another file");
  const std::string other = "; use another file, or remove it to start over";
  if (text(found, "version") != this_version())
    return wrong("it belongs to version " + text(found, "version") + ", whose seeds play other runs" + other);
  if (text(found, "seeds") != text_of(identity.seeds))
    return wrong("it belongs to --seeds " + text(found, "seeds") + other);
  if (text(found, "options") != identity.options)
    return wrong("it belongs to a sweep with the options \"" + text(found, "options") + "\"" + other);
  const auto next = found["next"].get<std::uint64_t>();
  if (next < identity.seeds.first || next > identity.seeds.end)
    return wrong("it is not the state of a sweep; use another file");
  return SweepState(file, identity, next);
}

bool SweepState::save(std::uint64_t next) {
  if (!replace_file(file_, file_of(identity_, next).dump() + "\n")) return false;
  next_ = next;
  return true;
}

}  // namespace rtrs::sim_tool
