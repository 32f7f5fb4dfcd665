// Which records of a trace somebody wants to see. Different criteria are joined by "and", several values of
// one by "or".
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/record/codec.hpp"
#include "core/record/schema.hpp"

namespace rtrs::tools {

struct FilterOptions {
  std::vector<std::string> events;   // names, or the beginnings of names with a star behind
  std::vector<std::string> classes;  // control, input, action, note
  std::vector<std::uint16_t> instances;
  std::vector<std::uint16_t> sessions;   // of a server
  std::vector<std::uint16_t> paths;      // index in the session
  std::vector<std::string> connections;  // CON or PATH:CON
  std::vector<std::uint32_t> permits;    // or chunks
  std::vector<std::uint32_t> devices;    // handles of a client, ids that a server gave
  std::vector<std::string> fields;       // NAME=VALUE, as `cat` prints them
  std::optional<double> from, to;        // seconds, as `cat` prints them
  bool any() const;
};

// Adds them to a subcommand.
void add_filter_options(CLI::App& command, FilterOptions& options);

class RecordFilter {
 public:
  // `why` says which option is wrong; empty when none is.
  RecordFilter(const FilterOptions& options, const trace::Schema& schema, std::string& why);
  // To be asked for every record in order: it follows the depth of the sessions, to know the permit of a
  // response.
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
  const trace::Schema& schema_;
  std::vector<Connection> connections_;
  std::vector<std::pair<std::string, std::string>> fields_;
  std::map<InstanceId, std::uint32_t> depth_;
};

}  // namespace rtrs::tools
