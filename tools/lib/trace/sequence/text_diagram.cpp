#include "tools/lib/trace/sequence/text_diagram.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "tools/lib/trace/reader/text.hpp"

namespace rtrs::tools::sequence {

namespace {

struct Glyphs {
  const char *lane, *idle, *line, *cross, *right, *left, *start_right, *start_left, *point, *state, *lost,
      *gap;
};
constexpr Glyphs kBoxes = {"│", "┊", "─", "┼", "▶", "◀", "├", "┤", "●", "◆", "✕", "⋮"};
constexpr Glyphs kAscii = {"|", ":", "-", "+", ">", "<", "+", "+", "o", "#", "x", "..."};
constexpr std::int64_t kQuiet = 1'000'000'000;  // time in ns without a step after which a line shows the gap

constexpr const char* kReset = "\x1b[0m";
constexpr const char* kDim = "\x1b[2m";
constexpr const char* kPathColors[] = {"\x1b[36m", "\x1b[35m", "\x1b[34m", "\x1b[33m"};
const char* color_of(Tone tone) {
  switch (tone) {
    case Tone::good:
      return "\x1b[32m";
    case Tone::warning:
      return "\x1b[33m";
    case Tone::bad:
      return "\x1b[31m";
    case Tone::normal:
      break;
  }
  return "";
}

class TextDiagram {
 public:
  TextDiagram(const StoryReader& reader, const Window& window, const TextStyle& style,
              const std::function<bool(std::string_view)>& line)
      : reader_(reader),
        story_(reader.story()),
        window_(window),
        style_(style),
        line_(line),
        glyphs_(style.ascii ? kAscii : kBoxes) {}

  void run() {
    make_columns();
    if (!header()) return;
    std::int64_t last = -1;
    bool stopped = false;
    reader_.each([&](const Step& step, std::size_t number, int in_flight) {
      if (number >= window_.to) return false;
      count(step);
      in_flight_ = in_flight;
      if (!window_.shows(step, number)) return true;
      stopped = (last >= 0 && step.at - last >= kQuiet && !quiet(step.at - last)) || !row(step);
      last = step.at;
      return !stopped;
    });
    if (!stopped) footer();
  }

 private:
  struct Column {
    std::string name;
    std::size_t at = 0;  // column in which the line of this lane is drawn
    Lane::Kind kind = Lane::Kind::client;
    bool recorded = true;
    Index path = kNone;
    unsigned alive = 0;  // number of open connections
  };

  void make_columns() {
    std::map<Index, std::size_t> of_path;
    std::size_t at = 1;
    for (const Lane& lane : story_.lanes) {
      const bool joins = style_.by_path && lane.kind == Lane::Kind::connection;
      if (joins && of_path.contains(lane.path)) {
        column_of_.push_back(of_path[lane.path]);
        continue;
      }
      Column column;
      column.name = joins ? lane.name.substr(0, lane.name.find('.')) : lane.name;
      column.kind = lane.kind;
      column.recorded = lane.recorded;
      column.path = lane.path;
      column.at = at;
      at += std::max<std::size_t>(column.name.size() + 1, 5);
      if (joins) of_path[lane.path] = columns_.size();
      column_of_.push_back(columns_.size());
      columns_.push_back(std::move(column));
    }
    width_ = at;
  }

  // `at`: common time.
  Nanos recorded(std::int64_t at) const {
    return static_cast<Nanos>(style_.times.zero()) + static_cast<Nanos>(at);
  }

  bool header() {
    if (!line_("# times: " + style_.times.words())) return false;
    for (std::size_t file = 0; file < story_.files.size(); ++file) {
      const TraceFile& one = story_.files[file];
      std::string text =
          std::string("# ") + letter(static_cast<Index>(file)) + ": " + one.name + ", " + one.tool + ", " +
          one.role + ", " + one.backend + ", " + std::to_string(one.records) + " records from " +
          style_.times.with_unit(
              recorded(static_cast<std::int64_t>(one.first - static_cast<Nanos>(one.times.zero()))));
      if (one.beginning_missing) text += ", beginning missing";
      if (one.clock != 0) text += ", clock shifted by " + duration_words(one.clock);
      if (!one.stopped.empty()) text += ", stopped at " + one.stopped;
      for (char& c : text) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
      }
      if (!line_(text)) return false;
    }
    std::string names(width_, ' ');
    for (const Column& column : columns_) names.replace(column.at, column.name.size(), column.name);
    const std::string time = std::string(static_cast<std::size_t>(time_width()) - 6, ' ') + "time s";
    return line_(style(time + "  record   IOs " + names + " path.connection; IOs in flight", kDim));
  }

  std::string style(const std::string& text, const char* how) const {
    return style_.color && *how != 0 ? how + text + kReset : text;
  }
  static char letter(Index file) { return static_cast<char>('A' + file % 26); }

  void count(const Step& step) {
    const Index lane =
        step.connection == kNone ? kNone : story_.connections[static_cast<std::size_t>(step.connection)].lane;
    if (lane != kNone) {
      // Counts both sides of a connection, because each side opens and closes its own view of the connection.
      const auto here = static_cast<std::size_t>(lane);
      const bool open = open_[step.connection];
      const bool closes = step.event == "ConnectionClosed";
      if (open == closes) columns_[column_of_[here]].alive += closes ? -1U : 1U;
      open_[step.connection] = !closes;
    }
  }

  int time_width() const { return style_.times.in_wall() ? 30 : 15; }

  bool quiet(std::int64_t ns) {
    return line_(style(
        std::string(15 - std::min<std::size_t>(15, 3), ' ') + glyphs_.gap + "  " + duration_words(ns), kDim));
  }

  // Returns the columns at which a step begins and ends. The two are equal for a step that is a point.
  std::pair<std::size_t, std::size_t> ends(const Step& step) const {
    const Index own = story_.lane_of(step);
    const std::size_t machine = own == kNone ? 0 : column_of_[static_cast<std::size_t>(own)];
    const Index lane =
        step.connection == kNone ? kNone : story_.connections[static_cast<std::size_t>(step.connection)].lane;
    const std::size_t wire = lane == kNone ? machine : column_of_[static_cast<std::size_t>(lane)];
    switch (step.shape) {
      case Shape::send:
        return {machine, wire};
      case Shape::receive:
        return {wire, machine};
      case Shape::deliver:
        return {machine, std::min(machine + 1, columns_.size() - 1)};
      case Shape::answer:
        return {std::min(machine + 1, columns_.size() - 1), machine};
      case Shape::point:
      case Shape::submit:
      case Shape::complete:
        break;
    }
    return {machine, machine};
  }

  std::string diagram(const Step& step) const {
    std::vector<std::string> cells(width_, " ");
    for (const Column& column : columns_) {
      const bool lives = column.recorded && (column.kind != Lane::Kind::connection || column.alive != 0);
      cells[column.at] = lives ? glyphs_.lane : glyphs_.idle;
    }
    const auto [from, to] = ends(step);
    const std::size_t a = columns_[from].at, b = columns_[to].at;
    if (a == b) {
      cells[a] = step.group == Group::state ? glyphs_.state : glyphs_.point;
      if (step.shape == Shape::submit && a > 0) cells[a - 1] = glyphs_.right;
      if (step.shape == Shape::complete && a > 0) cells[a - 1] = glyphs_.left;
    } else {
      for (std::size_t i = std::min(a, b) + 1; i < std::max(a, b); ++i)
        cells[i] = cells[i] == " " ? glyphs_.line : glyphs_.cross;
      cells[a] = a < b ? glyphs_.start_right : glyphs_.start_left;
      cells[a < b ? b - 1 : b + 1] = step.lost ? glyphs_.lost : a < b ? glyphs_.right : glyphs_.left;
    }
    std::string out;
    for (const std::string& cell : cells) out += cell;
    return out;
  }

  // True if the process did not run at some time in the last `took` ns before the step.
  bool waited_for_process(const Step& step, std::int64_t took) const {
    const auto& pauses = story_.files[static_cast<std::size_t>(step.file)].pauses;
    return std::any_of(pauses.begin(), pauses.end(), [&](const Pause& pause) {
      return pause.to <= step.time && step.time - pause.to < static_cast<Nanos>(took);
    });
  }

  std::string words(const Step& step) const {
    std::string text = step.title;
    if (step.lost) text += " - never arrived";
    if (step.shape == Shape::receive && step.peer != kNone && story_.same_clock) {
      const std::int64_t took = step.at - step.since;
      if (took >= 1'000'000)
        text += (waited_for_process(step, took) ? "  (on the way, or waiting for this process, for "
                                                : "  (on the way for ") +
                duration_words(took) + ')';
    }
    if (step.shape == Shape::complete && step.io != kNone)
      text += "  (took " + duration_words(step.at - step.since) + ')';
    for (char& c : text) {
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
    }
    return text;
  }

  bool row(const Step& step) {
    char head[64];
    const std::string record = letter(step.file) + std::to_string(step.record);
    std::snprintf(head, sizeof head, "%*s  %-8s %4d ", time_width(),
                  style_.times.text(recorded(step.at)).c_str(), record.c_str(), in_flight_);
    std::string text = words(step);
    const std::size_t used = static_cast<std::size_t>(time_width()) + 16 + width_ + 1;
    if (style_.width > used + 8 && text.size() > style_.width - used)
      text = text.substr(0, style_.width - used - 1) + '>';
    const char* tone = step.tone == Tone::normal && step.path != kNone
                           ? kPathColors[static_cast<std::size_t>(step.path) % std::size(kPathColors)]
                           : color_of(step.tone);
    if (!line_(style(head, kDim) + diagram(step) + ' ' + style(text, step.lost ? color_of(Tone::bad) : tone)))
      return false;
    if (step.mark.empty()) return true;
    return line_(style(">>>>>>>>>>>>>>> VIOLATION at " + record + ": " + step.mark, "\x1b[1;31m"));
  }

  void footer() {
    if (window_.to < reader_.steps())
      line_("# " + std::to_string(reader_.steps() - window_.to) + " more steps; see --to and --limit");
  }

  const StoryReader& reader_;
  const Story& story_;
  const Window& window_;
  const TextStyle& style_;
  const std::function<bool(std::string_view)>& line_;
  const Glyphs& glyphs_;
  std::vector<Column> columns_;
  std::vector<std::size_t> column_of_;  // indexed by lane
  std::map<Index, bool> open_;          // indexed by connection: true if the connection is open
  std::size_t width_ = 0;
  int in_flight_ = 0;
};

}  // namespace

bool Window::shows(const Step& step, std::size_t number) const noexcept {
  if (number < from || number >= to) return false;
  return !step.mark.empty() || (groups >> static_cast<unsigned>(step.group) & 1U) != 0;
}

std::string duration_words(std::int64_t ns) {
  const char* sign = ns < 0 ? "-" : "";
  const double amount = static_cast<double>(ns < 0 ? -ns : ns);
  char text[40];
  if (amount < 1e3) {
    std::snprintf(text, sizeof text, "%s%.0f ns", sign, amount);
  } else if (amount < 1e6) {
    std::snprintf(text, sizeof text, "%s%.1f us", sign, amount / 1e3);
  } else if (amount < 1e9) {
    std::snprintf(text, sizeof text, "%s%.2f ms", sign, amount / 1e6);
  } else {
    std::snprintf(text, sizeof text, "%s%.3f s", sign, amount / 1e9);
  }
  return text;
}

void print_diagram(const StoryReader& reader, const Window& window, const TextStyle& style,
                   const std::function<bool(std::string_view)>& line) {
  TextDiagram(reader, window, style, line).run();
}

}  // namespace rtrs::tools::sequence
