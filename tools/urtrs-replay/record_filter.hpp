// Selects records of a trace. A record must match all criteria. If a criterion has several values, the record
// must match one of them.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/record/codec.hpp"
#include "core/record/schema.hpp"
#include "tools/lib/trace/sequence/fields.hpp"
#include "tools/urtrs-replay/time_range.hpp"

namespace rtrs::replay_tool {

// Returns true if the name matches the pattern. "Path*" matches all names that start with "Path".
bool is_named(std::string_view pattern, std::string_view name);

// Condition on a field: NAME=VALUE or NAME!=VALUE with a value as `cat` prints it, NAME<N or NAME>N with a
// number or a duration. The name `path` also means the path of a connection (key.path), and `con` and
// `epoch` its other parts.
class FieldTest {
 public:
  static std::optional<FieldTest> parse(std::string_view text);
  bool holds(const tools::sequence::Fields& fields) const;

 private:
  std::string name_, value_;
  char comparison_ = '=';     // '!' means !=
  std::uint64_t number_ = 0;  // for < and >
};

struct FilterOptions {
  std::vector<std::string> events;   // event names; "Path*" matches all names that start with "Path"
  std::vector<std::string> classes;  // event classes: control, input, action, note
  std::vector<std::uint16_t> instances;
  std::vector<std::uint16_t> sessions;   // session numbers of a server
  std::vector<std::uint16_t> paths;      // path index in the session
  std::vector<std::string> connections;  // connections as CON or PATH:CON
  std::vector<std::uint32_t> permits;    // permits or chunks
  std::vector<std::uint32_t> devices;    // client handles, or device ids of the server
  std::vector<std::string> fields;       // see FieldTest
};

// Adds the options to a subcommand.
void add_filter_options(CLI::App& command, FilterOptions& options);

class RecordFilter {
 public:
  // Sets `why` to an error message if an option is wrong, otherwise to "".
  RecordFilter(const FilterOptions& options, const trace::Schema& schema, std::string& why);
  void set_range(const TimeRange& range) noexcept { range_ = range; }
  // Must be called for every record in order. The filter tracks the queue depth of each session, which it
  // needs to find the permit of a response.
  bool matches(const trace::Record& record);

 private:
  struct Connection {
    std::optional<std::uint16_t> path;
    std::uint16_t con = 0;
  };
  bool matches_event(const trace::Record& record) const;
  bool matches_place(const trace::Record& record) const;
  bool matches_device(const trace::Record& record) const;
  bool matches_permit(const trace::Record& record) const;
  bool matches_fields(const trace::Record& record) const;
  void follow(const trace::Record& record);

  const FilterOptions& options_;
  TimeRange range_;
  const trace::Schema& schema_;
  std::vector<Connection> connections_;
  std::vector<FieldTest> fields_;
  std::map<InstanceId, std::uint32_t> depth_;
};

}  // namespace rtrs::replay_tool
