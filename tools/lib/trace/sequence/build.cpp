#include "tools/lib/trace/sequence/build.hpp"

#include "tools/lib/trace/command/exit_codes.hpp"
#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/sequence/order.hpp"
#include "tools/lib/trace/sequence/path_walk.hpp"
#include "tools/lib/trace/sequence/requests.hpp"

namespace rtrs::tools::sequence {

namespace {

// Returns the indexes of the marks of this step.
template <class Add>
void each_mark(const std::vector<WantedMark>& marks, const Step& step, Add add) {
  if (step.event == kPauseEvent) return;
  for (std::size_t mark = 0; mark < marks.size(); ++mark)
    if (marks[mark].file == static_cast<std::size_t>(step.file) && marks[mark].record == step.record)
      add(mark);
}

void add_mark(Step& step, const WantedMark& mark) {
  step.mark += (step.mark.empty() ? "" : "; ") + mark.text;
}

void add_to_connection(Story& story, const Step& step, std::size_t number) {
  if (step.connection == kNone) return;
  Connection& one = story.connections[static_cast<std::size_t>(step.connection)];
  if (step.shape == Shape::send) one.sent.push_back(static_cast<Index>(number));
  if (step.shape == Shape::receive) one.received.push_back(static_cast<Index>(number));
}

}  // namespace

void StoryReader::order(const Visit& visit) const {
  StepOrder order(survey_, true);
  Step step;
  Index io = kNone;
  for (std::size_t number = 0; order.next(step, io); ++number) {
    each_mark(marks_, step, [&](std::size_t mark) { add_mark(step, marks_[mark]); });
    if (!visit(step, number)) return;
  }
}

void StoryReader::read(const Kept& kept, Story* into, const VisitAll& visit) const {
  StepOrder order(survey_, false);
  RequestFollower requests(story(), kept);
  PathWalk paths(story(), kept);
  Step step;
  Index io = kNone;
  for (std::size_t number = 0; order.next(step, io); ++number) {
    requests.on(step, number, io);
    order.set_io(step.io);
    paths.on(step, number);
    each_mark(marks_, step, [&](std::size_t mark) {
      add_mark(step, marks_[mark]);
      if (into != nullptr) into->marks.push_back({static_cast<Index>(number), marks_[mark].text});
    });
    if (visit && !visit(step, number, requests.in_flight())) return;
    if (into == nullptr) continue;
    into->length = step.at;
    // The send precedes its receive.
    if (step.peer != kNone && into->steps.holds(static_cast<std::size_t>(step.peer)))
      into->steps[static_cast<std::size_t>(step.peer)].peer = static_cast<Index>(number);
    if (kept.all) add_to_connection(*into, step, number);
    kept.holds(number) ? into->steps.hold(std::move(step)) : into->steps.skip();
  }
  if (into == nullptr) return;
  requests.finish(*into);
  paths.finish(*into);
}

void StoryReader::each(const VisitAll& visit) const {
  read({}, nullptr, visit);
}

Story StoryReader::read(const Kept& kept) const {
  Story whole = story();
  read(kept, &whole, {});
  return whole;
}

bool set_marks(Story& story, const std::vector<WantedMark>& wanted) {
  std::vector<bool> found(wanted.size(), false);
  for (std::size_t at = 0; at < story.steps.held(); ++at) {
    const std::size_t number = story.steps.number_at(at);
    Step& step = story.steps[number];
    each_mark(wanted, step, [&](std::size_t mark) {
      add_mark(step, wanted[mark]);
      story.marks.push_back({static_cast<Index>(number), wanted[mark].text});
      found[mark] = true;
    });
  }
  for (std::size_t mark = 0; mark < wanted.size(); ++mark) {
    if (found[mark]) continue;
    report_no_step(wanted[mark]);
    return false;
  }
  return true;
}

void report_no_step(const WantedMark& mark) {
  error("no record " + std::to_string(mark.record) + " in file " + std::to_string(mark.file + 1) +
        "; records are numbered as in `cat --json`, from 0");
}

Story build_story(const std::vector<std::string>& files, const std::vector<WantedMark>& marks, int& code,
                  trace::RunSummary* summary) {
  const StoryReader reader(files, marks, code, summary);
  if (code == exit_usage || code == exit_cannot_read) return reader.story();
  if (reader.steps() > kMostHeld) {
    error("the traces have " + std::to_string(reader.steps()) + " steps, and this command holds at most " +
          std::to_string(kMostHeld) + " in memory; `seq` with --from and --to shows any part of them");
    code = exit_cannot_read;
    return reader.story();
  }
  return reader.read({true, {}});
}

}  // namespace rtrs::tools::sequence
