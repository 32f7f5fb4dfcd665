#include "tools/urtrs-replay/commands.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/command/rotation.hpp"

namespace rtrs::replay_tool {

// Each of these functions is defined in its command_NAME.cpp.
void add_cat(CLI::App&, Runner&);
void add_check(CLI::App&, Runner&);
void add_diff(CLI::App&, Runner&);
void add_export(CLI::App&, Runner&);
void add_from_json(CLI::App&, Runner&);
void add_grep(CLI::App&, Runner&);
void add_import(CLI::App&, Runner&);
void add_simulate(CLI::App&, Runner&);
void add_live(CLI::App&, Runner&);
void add_merge(CLI::App&, Runner&);
void add_min(CLI::App&, Runner&);
void add_pcap(CLI::App&, Runner&);
void add_query(CLI::App&, Runner&);
void add_replay(CLI::App&, Runner&);
void add_seq(CLI::App&, Runner&);
void add_stat(CLI::App&, Runner&);
void add_why(CLI::App&, Runner&);

CLI::Option* add_traces(CLI::App& command, const char* name, std::vector<std::string>& into,
                        const std::string& what) {
  return command.add_option_function<std::vector<std::string>>(
      name, [&into](const std::vector<std::string>& given) { into = tools::trace_names(given); }, what);
}

void add_trace(CLI::App& command, std::string& into) {
  command
      .add_option_function<std::vector<std::string>>(
          "FILE",
          [&into](const std::vector<std::string>& given) {
            const std::vector<std::string> names = tools::trace_names(given);
            if (names.size() != 1)
              throw CLI::ValidationError("FILE",
                                         "expected one trace, got " + CLI::detail::join(names, " and "));
            into = names.front();
          },
          "Trace file, - for standard input, FILE.* for all files of a rotation")
      ->required();
}

void add_follow(CLI::App& command, std::string& into) {
  command
      .add_flag(
          "--follow{1h}", into,
          "Wait for more records, also in the next file of a rotation, until the trace ends, Ctrl-C, or "
          "nothing was written for TIME (default 1h)")
      ->type_name("[=TIME]")
      ->check([](const std::string& text) {
        const auto time = options::parse_positive_duration(text);
        return time ? std::string() : time.error();
      });
}

tools::Patience patience_of(const std::string& follow) {
  if (follow.empty()) return {};
  const Nanos time = options::parse_positive_duration(follow).value();
  // Line by line, because a reader waits for each record.
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return std::max(tools::Patience(1), std::chrono::duration_cast<tools::Patience>(
                                          std::chrono::nanoseconds(static_cast<std::int64_t>(time))));
}

void report_too_long(const std::string& path, std::uint64_t max_size) {
  error(path + ": longer than " + std::to_string(max_size) +
        " bytes; the whole trace is held in memory: record less, or allow more with --max-size");
}

int read_whole(const std::string& path, InputFile& file, std::uint64_t max_size, std::string& bytes) {
  if (file.size() > max_size) {
    report_too_long(path, max_size);
    return exit_cannot_read;
  }
  tools::BoundedSource source(file.source(), max_size);
  char part[1 << 16];
  std::ptrdiff_t got = 0;
  while ((got = source.read(part, sizeof part)) > 0) bytes.append(part, static_cast<std::size_t>(got));
  if (source.exceeded()) {
    report_too_long(path, max_size);
    return exit_cannot_read;
  }
  if (got < 0) error("cannot read " + path + ": " + std::strerror(static_cast<int>(-got)));
  return got == 0 ? exit_ok : exit_usage;
}

void add_commands(CLI::App& app, Runner& runner) {
  add_cat(app, runner);
  add_check(app, runner);
  add_grep(app, runner);
  add_query(app, runner);
  add_stat(app, runner);
  add_replay(app, runner);
#ifdef URTRS_HAS_LIVE
  add_live(app, runner);
#endif
  add_diff(app, runner);
  add_simulate(app, runner);
  add_merge(app, runner);
  add_min(app, runner);
  add_seq(app, runner);
  add_why(app, runner);
  add_from_json(app, runner);
  add_pcap(app, runner);
  add_export(app, runner);
  add_import(app, runner);
}

}  // namespace rtrs::replay_tool
