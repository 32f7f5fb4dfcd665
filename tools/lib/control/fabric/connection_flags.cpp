#include "tools/lib/control/fabric/connection_flags.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>

namespace rtrs::tools {
namespace {

// Returns the error without the "name=value: " prefix, because options on the command line have another form.
std::string reason(const std::string& error, std::string_view name, const std::string& value) {
  const std::string assigned = std::string(name) + "=" + value + ": ";
  if (error.starts_with(assigned)) return error.substr(assigned.size()) + ", got \"" + value + "\"";
  return error.substr(name.size() + 2);
}

void add_flag(CLI::App& app, options::Connection target, const options::Option<options::Connection>& row,
              const ConnectionFlag& one) {
  const std::string flag = "--" + options::dashed(row.name);
  const std::string names = flag + (one.older.empty() ? "" : ",") + std::string(one.older);
  const std::string help(row.help);
  if (row.rule.kind == options::Kind::toggle) {
    app.add_flag_function(
        names, [&row, target](std::int64_t on) { options::store(row, target, {.text = {}, .on = on > 0}); },
        help);
    return;
  }
  const auto store = [&row, target, flag](const CLI::results_t& words) {
    const std::string error = options::set(row, target, words.back());
    if (!error.empty()) throw CLI::ValidationError(flag, reason(error, row.name, words.back()));
    return true;
  };
  CLI::Option* option = app.add_option(names, store, help);
  option->type_name(std::string(row.rule.shape));
  option->default_str(std::string(one.initial.empty() ? row.initial : one.initial));
}

}  // namespace

void add_connection_flags(CLI::App& app, options::Connection target,
                          std::initializer_list<ConnectionFlag> flags) {
  for (const ConnectionFlag& one : flags)
    for (const auto& row : options::all_options())
      if (row.name == one.name ||
          (one.name.ends_with('*') && row.name.starts_with(one.name.substr(0, one.name.size() - 1))))
        add_flag(app, target, row, one);
}

}  // namespace rtrs::tools
