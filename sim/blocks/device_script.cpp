#include "sim/blocks/device_script.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "sim/blocks/block_plays.hpp"

namespace rtrs::sim {

namespace {

using Verb = DeviceLine::Verb;
using Range = DeviceLine::Range;

struct VerbInfo {
  std::string_view name;
  std::uint32_t words;
  std::string_view text;
};
constexpr VerbInfo kDeviceVerbs[] = {
#define RTRS_SIM_DEVICE_VERB(name, words, text) {#name, words, text},
    RTRS_SIM_DEVICE_VERBS(RTRS_SIM_DEVICE_VERB)
#undef RTRS_SIM_DEVICE_VERB
};

// Maximum for sectors, counts and paths in a script, so that sums cannot overflow.
constexpr std::uint64_t kMaxNumber = 1'000'000;
constexpr std::uint64_t kMostSectors = 4096;  // maximum size of a disk
constexpr Nanos kMaxTime = seconds(3600);
constexpr std::size_t kMaxNested = 8;
constexpr std::uint64_t kMaxSpread = kSectors / 8;

std::string_view next_token(std::string_view& rest) {
  const std::size_t first = rest.find_first_not_of(" \t\r");
  rest.remove_prefix(first == std::string_view::npos ? rest.size() : first);
  const std::string_view word = rest.substr(0, rest.find_first_of(" \t\r"));
  rest.remove_prefix(word.size());
  return word;
}

std::optional<std::uint64_t> plain_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value > kMaxNumber) return std::nullopt;
  return value;
}

// Parses "8" or "0..8".
bool read_range(std::string_view text, Range& range) {
  const std::size_t dots = text.find("..");
  const auto low = plain_number(text.substr(0, dots));
  const auto high =
      dots == std::string_view::npos ? low : plain_number(text.substr(std::min(text.size(), dots + 2)));
  if (!low || !high) return false;
  range = {*low, dots == std::string_view::npos ? *high + 1 : *high};
  return range.low < range.high;
}

bool read_time(std::string_view text, Range& range, Nanos& unit) {
  const std::size_t digits = text.find_last_of("0123456789");
  if (digits == std::string_view::npos) return false;
  const std::string_view name = text.substr(digits + 1);
  unit = name == "s" ? seconds(1) : name == "ms" ? milliseconds(1) : name == "us" ? microseconds(1) : 0;
  return unit != 0 && read_range(text.substr(0, digits + 1), range) && range.high <= kMaxTime / unit + 1;
}

bool read_outcome(std::string_view text, DeviceLine& line) {
  using Outcome = DeviceLine::Outcome;
  for (const auto& [name, outcome] :
       {std::pair{"ok", Outcome::ok}, {"failed", Outcome::failed}, {"ok_at_last", Outcome::ok_at_last}}) {
    if (text != name) continue;
    line.is = outcome;
    return true;
  }
  line.is = Outcome::error;
  for (std::uint16_t error = 1; error < 134; ++error) {
    const char* name = ::strerrorname_np(error);
    if (name == nullptr || text != name) continue;
    line.error = error;
    return true;
  }
  return false;
}

bool set_value(DeviceLine& line, std::string_view name, std::string_view value) {
  if (name == "number") return read_range(value, line.number);
  if (name == "sector") return read_range(value, line.sector);
  if (name == "sectors") return read_range(value, line.sectors) && line.sectors.high <= kMostSectors + 1;
  if (name == "time") return read_time(value, line.time, line.unit);
  if (name == "is") return read_outcome(value, line);
  if (name == "path") {
    line.both_paths = false;
    return read_range(value, line.path) && line.path.high <= BlockWorld::kPaths;
  }
  line.as = value;
  return !value.empty();
}

std::uint32_t word_of(std::string_view name) {
  static constexpr std::pair<std::string_view, std::uint32_t> kWords[] = {
      {"number", kNumber},
      {"time", kTime},
      {"sector", kSectorWords},
      {"sectors", kSectorWords | kSectorsWord},
      {"path", kPath},
      {"is", kIs},
      {"as", kAs}};
  for (const auto& [word, bit] : kWords)
    if (word == name) return bit;
  return 0;
}

// Returns the flag for a word without value; nullptr if it is not among the `words` that the verb accepts.
bool* flag_of(DeviceLine& line, std::uint32_t words, std::string_view name) {
  if (name == "fua" && (words & kFua) != 0) return &line.fua;
  if (name == "read_only" && (words & (kReadOnly | kMemory)) != 0) return &line.read_only;
  if (name == "process" && (words & kProcess) != 0) return &line.process;
  if (name == "memory" && (words & kMemory) != 0) return &line.memory;
  if (name == "no_fua" && (words & kMemory) != 0) return &line.no_fua;
  return nullptr;
}

// Returns the required word that is missing; empty if there is none.
std::string_view missing_word(const DeviceLine& line, std::string_view text) {
  const auto has = [text](std::string_view word) { return text.find(word) != std::string_view::npos; };
  if (line.verb == Verb::pass && !has(" time=")) return "time=";
  if ((line.verb == Verb::size || line.verb == Verb::resize || line.verb == Verb::add_disk) &&
      !has(" sectors="))
    return "sectors=";
  if (line.verb == Verb::refused && line.is != DeviceLine::Outcome::error) return "is=ERRNO";
  const bool errno_or_ok = line.is == DeviceLine::Outcome::error || line.is == DeviceLine::Outcome::ok;
  if (line.verb == Verb::absent && !errno_or_ok) return "is=ERRNO or is=ok";
  if (line.verb == Verb::done && line.is == DeviceLine::Outcome::unasked) return "is=";
  const bool counts = line.verb == Verb::repeat || line.verb == Verb::openings ||
                      line.verb == Verb::holders || line.verb == Verb::in_storage ||
                      line.verb == Verb::acted || line.verb == Verb::load || line.verb == Verb::spread;
  return counts && !has(" number=") ? "number=" : "";
}

}  // namespace

bool DeviceScriptReader::is_known(std::string_view disk) const noexcept {
  return std::any_of(disks.begin(), disks.end(), [disk](const Disk& one) { return one.name == disk; }) ||
         std::find(added_.begin(), added_.end(), disk) != added_.end();
}

std::string DeviceScriptReader::take_disks(std::string_view rest) {
  for (std::string_view word = next_token(rest); !word.empty(); word = next_token(rest)) {
    const std::size_t equals = word.find('=');
    const auto sectors = equals == std::string_view::npos ? std::optional<std::uint64_t>(kSectors)
                                                          : plain_number(word.substr(equals + 1));
    const std::string_view name = word.substr(0, equals);
    if (name.empty() || !sectors || *sectors == 0 || *sectors > kMostSectors)
      return "expected NAME or NAME=SECTORS (1 to 4096) instead of '" + std::string(word) + "'";
    if (is_known(name)) return "a disk '" + std::string(name) + "' already exists";
    disks.push_back({std::string(name), *sectors});
  }
  return disks.empty() ? "'disks' needs the names of disks" : "";
}

std::string DeviceScriptReader::take_word(DeviceLine& line, std::uint32_t words, std::string_view word) {
  if (bool* flag = flag_of(line, words, word); flag != nullptr) {
    *flag = true;
    return {};
  }
  const std::size_t equals = word.find('=');
  const std::string_view name = word.substr(0, equals);
  if (equals == std::string_view::npos || (word_of(name) & words) == 0)
    return std::string(kDeviceVerbs[static_cast<std::size_t>(line.verb)].name) + " takes no '" +
           std::string(word) + "'";
  return set_value(line, name, word.substr(equals + 1)) ? "" : "invalid value: '" + std::string(word) + "'";
}

DeviceScript& DeviceScriptReader::innermost() {
  DeviceScript* at = &script;
  for (const std::size_t index : open_) at = &(*at)[index].parts.back();
  return *at;
}

std::string DeviceScriptReader::existence_error(const DeviceLine& line) const {
  const auto is_in = [&line](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), line.disk) != names.end();
  };
  if (line.verb == Verb::done) return is_in(named_) ? "" : "no IO before this line has as=" + line.disk;
  const bool makes = line.verb == Verb::disk || line.verb == Verb::add_disk || line.verb == Verb::map ||
                     line.verb == Verb::open;
  if (line.verb > Verb::spread || line.verb == Verb::over || makes || is_in(mapped_)) return {};
  return "no line before this one maps " + line.disk;
}

std::string DeviceScriptReader::take(std::string_view text, std::size_t number) {
  std::string_view rest = text;
  const std::string_view verb = next_token(rest);
  if (verb == "end" || verb == "or") {
    if (open_.empty()) return "'" + std::string(verb) + "' without a 'repeat' or 'either' before it";
    const std::size_t index = open_.back();
    open_.pop_back();
    DeviceLine& block = innermost()[index];
    if (verb == "end") return {};
    if (block.verb != Verb::either) return "'or' without an 'either' before it";
    block.parts.emplace_back();
    open_.push_back(index);
    return {};
  }
  const auto found = std::find_if(std::begin(kDeviceVerbs), std::end(kDeviceVerbs),
                                  [verb](const VerbInfo& one) { return one.name == verb; });
  if (found == std::end(kDeviceVerbs)) return "unknown verb '" + std::string(verb) + "' for block devices";
  DeviceLine line;
  line.text = text;
  line.line = number;
  line.verb = static_cast<Verb>(found - std::begin(kDeviceVerbs));
  if ((found->words & (kDisk | kNewDisk | kName)) != 0) {
    line.disk = next_token(rest);
    if (line.disk.empty()) return std::string(verb) + " needs a name";
    if ((found->words & kDisk) != 0 && !is_known(line.disk))
      return "no disk '" + line.disk + "' in the line 'disks'";
  }
  for (std::string_view word = next_token(rest); !word.empty(); word = next_token(rest))
    if (std::string why = take_word(line, found->words, word); !why.empty()) return why;
  if (const auto missing = missing_word(line, text); !missing.empty())
    return std::string(verb) + " needs " + std::string(missing);
  if (line.verb == Verb::spread && line.number.high > kMaxSpread + 1)
    return "spread needs number= up to " + std::to_string(kMaxSpread);
  if ((found->words & (kSectorWords | kSectorsWord)) != 0 && line.sectors.low == 0)
    return "sectors= must be at least 1";
  if (std::string why = existence_error(line); !why.empty()) return why;
  if (!line.as.empty()) named_.push_back(line.as);
  if (line.verb == Verb::open || (line.verb == Verb::map && line.is == DeviceLine::Outcome::unasked))
    mapped_.push_back(line.disk);
  if (line.verb == Verb::add_disk) {
    if (is_known(line.disk)) return "a disk '" + line.disk + "' already exists";
    added_.push_back(line.disk);
  }
  const bool is_block = line.verb == Verb::repeat || line.verb == Verb::either;
  if (is_block && open_.size() == kMaxNested) return "blocks are nested more than eight deep";
  if (is_block) line.parts.emplace_back();
  DeviceScript& around = innermost();
  around.push_back(std::move(line));
  if (is_block) open_.push_back(around.size() - 1);
  return {};
}

std::string DeviceScriptReader::end(std::size_t& number) const {
  if (open_.empty()) return {};
  const DeviceScript* at = &script;
  for (const std::size_t index : open_) {
    number = (*at)[index].line;
    at = &(*at)[index].parts.back();
  }
  return "this 'repeat' or 'either' has no 'end'";
}

std::string device_steps_text() {
  static constexpr std::pair<std::uint32_t, std::string_view> kShown[] = {
      {kDisk | kNewDisk, "DISK"}, {kName, "NAME"},      {kNumber, "number="}, {kTime, "time="},
      {kPath, "path="},           {kIs, "is="},         {kAs, "as="},         {kFua, "fua"},
      {kReadOnly, "read_only"},   {kProcess, "process"}};
  std::string all;
  for (const VerbInfo& one : kDeviceVerbs) {
    std::string line = "  " + std::string(one.name);
    for (const auto& [words, shown] : kShown)
      if ((one.words & words) != 0) line += " " + std::string(shown);
    if ((one.words & kSectorWords) != 0) line += " sector=";
    if ((one.words & (kSectorWords | kSectorsWord)) != 0) line += " sectors=";
    if ((one.words & kMemory) != 0) line += " memory no_fua read_only";
    line.resize(std::max<std::size_t>(line.size() + 2, 46), ' ');
    all += line + std::string(one.text) + "\n";
  }
  all += "  a disk without =SECTORS has " + std::to_string(kSectors) +
         " of them, of 512 bytes; an IO without sectors= has 8 and begins at sector 0\n"
         "  a range LOW..HIGH is drawn at random, HIGH excluded; a path step without path= applies to paths "
         "0 and 1\n"
         "  is=ok, is=failed, is=ERRNO (such as EIO) or is=ok_at_last: EIO for lost data, then ok when "
         "submitted again\n"
         "  a line waits for at most ten minutes of virtual time\n";
  return all;
}

}  // namespace rtrs::sim
