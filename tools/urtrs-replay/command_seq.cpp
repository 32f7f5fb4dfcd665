// Prints or writes a sequence diagram of one or more traces.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/lib/text/terminal/terminal.hpp"
#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/judge/trace_check.hpp"
#include "tools/lib/trace/sequence/build.hpp"
#include "tools/lib/trace/sequence/page.hpp"
#include "tools/lib/trace/sequence/text_diagram.hpp"
#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/time_range.hpp"

namespace rtrs::replay_tool {
namespace {

namespace sequence = tools::sequence;
using sequence::Story;
using sequence::StoryReader;
using sequence::WantedMark;
using sequence::Window;

struct SeqOptions {
  std::vector<std::string> files;
  std::string html;
  bool json = false;
  std::vector<std::string> marks;
  bool check = false, no_check = false;
  std::vector<std::string> show, hide;
  TimeOptions times;
  std::optional<std::size_t> limit;
  std::string color = "auto";
  bool ascii = false;
  bool by_path = false;
};

constexpr std::size_t kPageLimit = 20'000;
constexpr std::size_t kMostOnPage = 1'000'000;  // each needs about 2 KiB of memory

// Parses a mark such as "17:text" or "B17:text": letter of the file (A is the first), record number,
// description.
std::optional<WantedMark> parse_mark(const std::string& text, std::size_t files) {
  WantedMark mark;
  const char* at = text.data();
  const char* end = text.data() + text.size();
  if (at != end && *at >= 'A' && *at <= 'Z') mark.file = static_cast<std::size_t>(*at++ - 'A');
  const auto [rest, wrong] = std::from_chars(at, end, mark.record);
  if (wrong != std::errc{} || (rest != end && *rest != ':')) return std::nullopt;
  mark.text = rest == end ? "marked" : std::string(rest + 1, end);
  if (mark.file >= files) return std::nullopt;
  return mark;
}

bool parse_marks(const SeqOptions& options, std::vector<WantedMark>& marks) {
  for (const std::string& text : options.marks) {
    const auto mark = parse_mark(text, options.files.size());
    if (!mark) {
      error(
          "--mark takes RECORD or RECORD:TEXT, with the letter of the file in front if it is not the first "
          "(B17:TEXT), not '" +
          text + "'");
      return false;
    }
    marks.push_back(*mark);
  }
  return true;
}

// Adds the violations that `urtrs-replay check` finds as marks.
bool add_findings(const std::vector<std::string>& files, std::vector<WantedMark>& marks) {
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i] == "-") {
      error("--check reads a trace twice and cannot read it from standard input; give a file");
      return false;
    }
    InputFile file(files[i]);
    if (!file.is_open()) return false;
    for (const spec::Finding& finding : trace::check_trace(file.source()).findings)
      marks.push_back({i, finding.seq,
                       std::string(spec::info_of(finding.rule).id) + ": " + finding.seen +
                           "; allowed: " + finding.allowed});
  }
  return true;
}

std::optional<unsigned> group_bits(const std::vector<std::string>& names) {
  unsigned bits = 0;
  for (const std::string& name : names) {
    unsigned group = 0;
    while (group < sequence::kGroups && name != to_string(static_cast<sequence::Group>(group))) ++group;
    if (name == "all") {
      bits = ~0U;
    } else if (group == sequence::kGroups) {
      error("unknown group '" + name +
            "'; the groups are io, connect, heartbeat, fence, state, local, wire, control and all");
      return std::nullopt;
    } else {
      bits |= 1U << group;
    }
  }
  return bits;
}

// Facts about the order of the steps, which need a reading of their own.
struct Outline {
  Story story;  // holds the first, the last and the marked steps
  Window window;
  std::map<sequence::Place, std::size_t> steps;  // of the places
};

// Finds the steps in the range, which is on the clock of `times`, and the steps of the places.
Outline outline_of(const StoryReader& reader, const trace::TimeBase& times, const TimeRange& range,
                   const std::vector<sequence::Place>& places) {
  Outline outline{reader.story(), {reader.steps(), reader.steps(), ~0U}, {}};
  sequence::PlaceFinder finder(places, outline.story.files.size());
  reader.order([&](const sequence::Step& step, std::size_t number) {
    const auto time =
        static_cast<std::int64_t>(static_cast<Nanos>(times.zero()) + static_cast<Nanos>(step.at));
    if (time >= range.from) outline.window.from = std::min(outline.window.from, number);
    if (time > range.to) outline.window.to = std::min(outline.window.to, number);
    finder.on(step, number);
    outline.story.length = step.at;
    if (!step.mark.empty()) outline.story.marks.push_back({static_cast<sequence::Index>(number), step.mark});
    const bool end = number == 0 || number + 1 == reader.steps();
    end || !step.mark.empty() ? outline.story.steps.hold(step) : outline.story.steps.skip();
    return true;
  });
  outline.steps = finder.steps();
  return outline;
}

// Reduces the window to `limit` steps (0: any number). If it has more, takes those around the first mark;
// without a mark, the first ones after --from; otherwise the last ones, because most failures are near the
// end.
Window shortened(std::size_t steps, const std::vector<sequence::Mark>& marks, Window window,
                 std::size_t limit) {
  if (limit == 0 || window.to - window.from <= limit) return window;
  std::size_t begin = window.from != 0 && window.to == steps ? window.from : window.to - limit;
  if (!marks.empty()) {
    const auto mark = static_cast<std::size_t>(marks.front().step);
    begin = std::clamp(mark < limit / 2 ? 0 : mark - limit / 2, window.from, window.to - limit);
  }
  window.from = begin;
  window.to = begin + limit;
  error("shows steps " + std::to_string(window.from) + " to " + std::to_string(window.to - 1) + " of " +
        std::to_string(steps) + "; choose others with --from, --to and --limit");
  return window;
}

// Returns the facts that a page shows besides the steps.
sequence::PageFacts facts_of(const SeqOptions& options, const trace::RunSummary& summary, bool judged) {
  sequence::PageFacts facts;
  facts.summary = &summary;
  facts.judged = judged;
  facts.command = sequence::seq_command(options.files);
  return facts;
}

// Returns the records that the outline of a page needs.
std::vector<sequence::Place> places_of(const Story& story, const sequence::PageFacts& facts,
                                       const std::vector<WantedMark>& marks) {
  std::vector<sequence::Place> places = sequence::places_of(story, facts);
  for (const WantedMark& mark : marks)
    places.emplace_back(static_cast<sequence::Index>(mark.file), mark.record);
  return places;
}

// Makes the content of a page. Returns an exit code.
int make_page(const SeqOptions& options, const StoryReader& reader, const Outline& outline,
              sequence::PageFacts facts, Story& story, sequence::PageContent& content) {
  const Window& window = outline.window;
  content.groups = window.groups;
  content.ranges = sequence::choose_ranges(sequence::places_of(outline.story, facts), outline.steps, window,
                                           options.limit.value_or(kPageLimit));
  content.facts = std::move(facts);
  std::size_t steps = 0;
  for (const sequence::Range& range : content.ranges) steps += range.to - range.from;
  if (steps > kMostOnPage) {
    error("a page of " + std::to_string(steps) + " steps is over the limit of " +
          std::to_string(kMostOnPage) + "; choose fewer with --from, --to or --limit");
    return exit_cannot_read;
  }
  if (steps != window.to - window.from)
    error("the page has " + std::to_string(steps) + " of " + std::to_string(window.to - window.from) +
          " steps: the first, the last, and those around what its summary names; choose others with --from, "
          "--to and --limit");
  story = reader.read(sequence::steps_of_page(content.ranges, outline.story));
  return exit_ok;
}

bool is_colored(const std::string& choice) {
  return choice == "auto" ? tools::wants_color(stdout) : choice == "always";
}

int write_page(const std::string& path, const std::string& page) {
  const int fd = create_output(path, 0666);
  if (fd < 0) return exit_usage;
  std::FILE* file = ::fdopen(fd, "wb");
  bool good = file != nullptr && std::fwrite(page.data(), 1, page.size(), file) == page.size();
  if (file != nullptr) good = std::fclose(file) == 0 && good;
  if (good) return exit_ok;
  std::perror(("urtrs-replay: cannot write " + path).c_str());
  return exit_usage;
}

int show_page(const SeqOptions& options, const StoryReader& reader, const Outline& outline,
              const sequence::PageFacts& facts, int code) {
  Story story;
  sequence::PageContent content;
  if (const int wrong = make_page(options, reader, outline, facts, story, content)) return wrong;
  if (!options.html.empty()) {
    const int written = write_page(options.html, sequence::story_page(story, content));
    return written == exit_ok ? code : written;
  }
  Output out;
  out.line(sequence::story_json(story, content));
  return out.finish(code);
}

int show_text(const SeqOptions& options, const StoryReader& reader, const Outline& outline,
              const trace::TimeBase& times, int code) {
  sequence::TextStyle style;
  style.color = is_colored(options.color);
  style.ascii = options.ascii;
  style.by_path = options.by_path;
  style.times = times;
  style.width = tools::columns_of(stdout);
  Output out(style.color);
  const Window window =
      shortened(reader.steps(), outline.story.marks, outline.window, options.limit.value_or(0));
  sequence::print_diagram(reader, window, style, [&out](std::string_view line) { return out.line(line); });
  return out.finish(code);
}

int seq(const SeqOptions& options) {
  if (!options.html.empty() && !may_write(options.html)) return exit_usage;
  std::vector<WantedMark> marks;
  if (!parse_marks(options, marks)) return exit_usage;
  const bool page = !options.html.empty();
  const bool piped = std::find(options.files.begin(), options.files.end(), "-") != options.files.end();
  const bool judge = options.check || (page && !piped && !options.no_check);
  if (judge && !add_findings(options.files, marks)) return exit_usage;
  const auto show = group_bits(options.show), hide = group_bits(options.hide);
  if (!show || !hide) return exit_usage;

  int code = exit_ok;
  if (given_twice(options.files)) return exit_usage;
  const bool paged = page || options.json;
  trace::RunSummary summary;
  const StoryReader reader(options.files, marks, code, paged ? &summary : nullptr);
  if (code == exit_usage || code == exit_cannot_read) return code;
  if (reader.steps() == 0) {
    error("no record to show");
    return code == exit_ok ? exit_cannot_read : code;
  }
  trace::TimeBase times = reader.story().clock_file().times;
  if (options.times.wall && !times.use_wall()) {
    error("no trace says at what wall time it was recorded; use seconds, without --wall");
    return exit_usage;
  }
  const auto range = range_of(options.times, times);
  if (!range) return exit_usage;
  const sequence::PageFacts facts = facts_of(options, summary, judge);
  Outline outline{reader.story(), {0, reader.steps(), ~0U}, {}};
  const bool in_range = !options.times.from.empty() || !options.times.to.empty();
  if (paged || in_range || (options.limit && !marks.empty()))
    outline = outline_of(reader, times, *range,
                         paged ? places_of(reader.story(), facts, marks) : std::vector<sequence::Place>());
  if (outline.window.from == outline.window.to) {
    const auto zero = static_cast<Nanos>(times.zero());
    report_empty_range(CLI::detail::join(options.files, ", "), times,
                       zero + static_cast<Nanos>(outline.story.steps.front().at),
                       zero + static_cast<Nanos>(outline.story.length));
    return exit_usage;
  }
  outline.window.groups = (sequence::usual_groups(reader.story()) | *show) & ~*hide;
  return paged ? show_page(options, reader, outline, facts, code)
               : show_text(options, reader, outline, times, code);
}

void bind(CLI::App& command, SeqOptions& options) {
  add_traces(command, "FILE", options.files, "Trace files: of one side, or of the server and its clients")
      ->required();
  command
      .add_option("--html", options.html,
                  "Write one self-contained page instead of text; no file is replaced")
      ->type_name("OUT");
  command.add_flag("--json", options.json, "The data of the page, as JSON");
  command.add_option("--mark", options.marks, "Show a violation at this record: [LETTER]RECORD[:TEXT]")
      ->type_name("MARK")
      ->allow_extra_args(false);
  command.add_flag("--check", options.check, "Show the violations that `check` finds; a page always does");
  command.add_flag("--no-check", options.no_check, "A page without them, sooner");
  command.add_option("--show", options.show, "Groups of steps to show besides the usual ones")
      ->delimiter(',');
  command
      .add_option("--hide", options.hide,
                  "Groups to hide: io, connect, heartbeat, fence, state, local, wire, control, all")
      ->delimiter(',');
  add_times(command, options.times);
  command.add_option("--limit", options.limit, "At most N steps (a page: 20000; text: all)")->type_name("N");
  command.add_option("--color", options.color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command.add_flag("--ascii", options.ascii, "No box drawing characters");
  command.add_flag("--by-path", options.by_path, "One lane per path, not one per connection");
}

}  // namespace

void add_seq(CLI::App& app, Runner& runner) {
  add_command<SeqOptions>(app, runner, "seq", "Draw a trace as a sequence diagram, as text or as a page",
                          std::string("Examples:\n  urtrs-replay seq client.rtrc | less -R\n"
                                      "  urtrs-replay seq client.rtrc server.rtrc --html sequence.html\n"
                                      "  urtrs-replay seq client.rtrc --hide heartbeat --mark 17:wrong\n\n") +
                              kExitCodes,
                          bind, seq);
}

}  // namespace rtrs::replay_tool
