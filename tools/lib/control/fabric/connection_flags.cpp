#include "tools/lib/control/fabric/connection_flags.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>

namespace rtrs::tools {
namespace {

// Returns the error without the "name=value: " prefix, because the command line has another form.
std::string reason(const std::string& error, std::string_view name, const std::string& value) {
  const std::string assigned = std::string(name) + "=" + value + ": ";
  if (error.starts_with(assigned)) return error.substr(assigned.size()) + ", got \"" + value + "\"";
  return error.substr(name.size() + 2);
}

}  // namespace

void add_connection_flags(CLI::App& app, options::Connection target,
                          std::initializer_list<ConnectionFlag> flags) {
  for (const ConnectionFlag& one : flags) {
    const auto* row = options::find(options::connection_options(), one.name);
    if (row == nullptr) row = options::find(options::server_options(), one.name);
    std::string flag = "--" + std::string(row->name);
    std::replace(flag.begin(), flag.end(), '_', '-');
    const std::string names = flag + (one.older.empty() ? "" : ",") + std::string(one.older);
    const std::string help(row->help);
    if (row->rule.kind == options::Kind::toggle) {
      app.add_flag_function(
          names, [row, target](std::int64_t on) { options::store(*row, target, {.text = {}, .on = on > 0}); },
          help);
      continue;
    }
    const auto store = [row, target, flag](const CLI::results_t& words) {
      const std::string error = options::set(*row, target, words.back());
      if (!error.empty()) throw CLI::ValidationError(flag, reason(error, row->name, words.back()));
      return true;
    };
    CLI::Option* option = app.add_option(names, store, help);
    option->type_name(std::string(row->rule.shape));
    option->default_str(std::string(one.initial.empty() ? row->initial : one.initial));
  }
}

}  // namespace rtrs::tools
