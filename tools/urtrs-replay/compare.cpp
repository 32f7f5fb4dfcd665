#include "tools/urtrs-replay/compare.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>

#include "core/proto/ids.hpp"
#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/reader/text.hpp"
#include "tools/lib/trace/reader/time_base.hpp"
#include "tools/urtrs-replay/commands.hpp"
#include "tools/urtrs-replay/step_keys.hpp"

namespace rtrs::replay_tool {

namespace {

using Status = trace::Reader::Status;

// One of the two traces while it is read.
class Side {
 public:
  Side(const NamedFile& file, CompareMode mode, StepKeys::Opened opened, StepKeys::Opened closed)
      : name_(file.name), file_(file.path), reader_(file_.source()), progress_(file_.size(), true) {
    if (!file_.is_open()) {
      code_ = exit_usage;
      return;
    }
    status_ = reader_.open();
    if (status_ == Status::ok)
      keys_ = std::make_unique<StepKeys>(mode, reader_.header().schema, std::move(opened), std::move(closed));
    else
      code_ = report_stop(name_, status_, reader_);
  }
  // Reads up to the next step. Returns false at the end of the trace.
  bool next() {
    while (status_ == Status::ok && (status_ = reader_.next(record_)) == Status::ok) {
      progress_.at(reader_.bytes());
      thread_ = keys_->thread(record_);
      if (thread_ != nullptr) return true;
    }
    if (keys_ != nullptr) code_ = report_stop(name_, status_, reader_);
    keys_.reset();
    return false;
  }
  bool is_open() const { return keys_ != nullptr; }
  const std::string& thread() const { return *thread_; }
  Step step() { return keys_->step(record_); }
  std::uint64_t records() const { return reader_.records(); }
  int code() const { return code_; }

 private:
  std::string name_;
  InputFile file_;
  trace::Reader reader_;
  Progress progress_;
  Status status_ = Status::ok;
  std::unique_ptr<StepKeys> keys_;
  trace::Record record_;
  const std::string* thread_ = nullptr;
  int code_ = exit_ok;
};

// Returns the records `seqs` (ascending) of a trace as text.
std::vector<std::string> texts_of(const std::string& path, const std::vector<std::uint64_t>& seqs) {
  std::vector<std::string> texts;
  InputFile file(path);
  if (!file.is_open()) return texts;
  trace::Reader reader(file.source());
  trace::Record record;
  if (reader.open() != Status::ok || reader.next(record) != Status::ok) return texts;
  const trace::TimeBase base(reader.header(), record.time);
  for (const std::uint64_t seq : seqs) {
    if (seq > record.seq) reader.go_to_record(seq);
    while (record.seq < seq && reader.next(record) == Status::ok) {
    }
    texts.push_back(trace::record_text(record, reader.header().schema, base));
  }
  return texts;
}

// What is known about a machine that may be in both traces.
struct ComparedThread {
  std::size_t place = 0;  // in the order of the report
  bool seen[2] = {}, over[2] = {};
  bool decided = false;             // it differs, or cannot be the first to differ
  bool full = false;                // no more steps are held
  bool lost = false;                // steps were dropped that may matter, so that it must be read again
  std::size_t ahead = 0;            // side of the waiting steps
  std::deque<Step> waiting;         // steps that the other side has not reached
  std::deque<std::uint64_t> equal;  // numbers of the last equal steps, of trace A
};

struct FirstUnlike {
  std::string thread;
  std::size_t place = 0;
  std::uint64_t seq[2] = {kNever, kNever};  // kNever: that trace has no more steps
  std::vector<std::uint64_t> before;
  std::uint64_t first() const { return std::min(seq[0], seq[1]); }
};

class Comparer {
 public:
  Comparer(const NamedFile& a, const NamedFile& b, CompareMode mode, std::size_t most_held)
      : files_{a, b}, mode_(mode), most_held_(most_held) {
    for (std::size_t side = 0; side < 2; ++side)
      sides_[side] = std::make_unique<Side>(
          files_[side], mode, [this, side](const std::string& name) { opened(side, name); },
          [this, side](const std::string& name) { closed(side, name); });
  }

  Comparison run() {
    if (both_open()) {
      while (sides_[0]->is_open() || sides_[1]->is_open()) advance(next_side());
      read_lost();
    }
    Comparison result;
    result.a = {sides_[0]->records(), sides_[0]->code()};
    result.b = {sides_[1]->records(), sides_[1]->code()};
    if (found_) result.difference = describe();
    return result;
  }

 private:
  bool both_open() const { return sides_[0]->is_open() && sides_[1]->is_open(); }

  void opened(std::size_t side, const std::string& name) {
    ComparedThread& thread = threads_[name];
    // Machines of trace A come before those that only trace B has.
    const std::size_t place = side * kOnlyInB + count_[side]++;
    thread.place = thread.seen[0] || thread.seen[1] ? std::min(thread.place, place) : place;
    thread.seen[side] = true;
    if (thread.seen[0] && thread.seen[1]) held_[thread.ahead] += thread.waiting.size();
  }
  void closed(std::size_t side, const std::string& name) {
    const auto found = threads_.find(name);
    if (found == threads_.end()) return;
    ComparedThread& thread = found->second;
    thread.over[side] = true;
    if (thread.over[0] && thread.over[1] && thread.waiting.empty() && !thread.lost) threads_.erase(found);
  }

  // Returns the side for which the other side's steps wait.
  std::size_t next_side() const {
    for (const std::size_t side : {0U, 1U})
      if (!sides_[side]->is_open()) return 1 - side;
    if (held_[0] != held_[1]) return held_[0] > held_[1] ? 1 : 0;
    return sides_[0]->records() > sides_[1]->records() ? 1 : 0;
  }

  void advance(std::size_t side) {
    if (!sides_[side]->next()) {
      // What waits for this trace, waits in vain.
      for (auto& [name, thread] : threads_)
        if (!thread.waiting.empty() && thread.ahead != side) decide(name, thread, side, nullptr);
      return;
    }
    const auto found = threads_.find(sides_[side]->thread());
    const Step step = sides_[side]->step();
    if (found != threads_.end()) take(found->first, found->second, side, step);
  }

  void take(const std::string& name, ComparedThread& thread, std::size_t side, const Step& step) {
    if (thread.decided || (thread.full && (thread.waiting.empty() || thread.ahead == side))) return;
    const std::size_t other = 1 - side;
    if (!thread.waiting.empty() && thread.ahead != side) {
      if (thread.waiting.front().key != step.key) return decide(name, thread, side, &step);
      note_equal(thread, side == 0 ? step.seq : thread.waiting.front().seq);
      drop_first(thread);
    } else if (!sides_[other]->is_open()) {
      thread.ahead = side;
      thread.waiting.push_back(step);
      hold(thread, 1);
      decide(name, thread, other, nullptr);
    } else if (found_ && step.seq > found_->first() && sides_[other]->records() > found_->first()) {
      // A difference from here on would be a later one.
      thread.full = true;
      if (thread.waiting.empty()) forget(thread);
    } else if (all_held_ >= most_held_ && !thread.waiting.empty()) {
      thread.full = thread.lost = true;
    } else {
      thread.ahead = side;
      thread.waiting.push_back(step);
      hold(thread, 1);
    }
  }
  static void note_equal(ComparedThread& thread, std::uint64_t seq) {
    constexpr std::size_t kShown = 10;
    if (thread.equal.size() == kShown) thread.equal.pop_front();
    thread.equal.push_back(seq);
  }
  void hold(const ComparedThread& thread, std::size_t more) {
    all_held_ += more;
    if (thread.seen[0] && thread.seen[1]) held_[thread.ahead] += more;
  }
  void drop_first(ComparedThread& thread) {
    thread.waiting.pop_front();
    hold(thread, std::size_t{0} - 1);
    if (thread.waiting.empty() && thread.full && !thread.lost) forget(thread);
  }
  void forget(ComparedThread& thread) {
    hold(thread, std::size_t{0} - thread.waiting.size());
    thread.decided = true;
    thread.lost = false;
    thread.waiting = {};
    thread.equal = {};
  }

  // The first waiting step differs from `step` of `side`; null: that trace has no more steps.
  void decide(const std::string& name, ComparedThread& thread, std::size_t side, const Step* step) {
    FirstUnlike one{name, thread.place, {kNever, kNever}, {thread.equal.begin(), thread.equal.end()}};
    one.seq[thread.ahead] = thread.waiting.front().seq;
    if (step != nullptr) one.seq[side] = step->seq;
    consider(std::move(one));
    forget(thread);
  }
  void consider(FirstUnlike one) {
    const bool first = !found_ || one.first() < found_->first() ||
                       (one.first() == found_->first() && one.place < found_->place);
    if (first) found_ = std::make_unique<FirstUnlike>(std::move(one));
  }

  // Compares the machines of which too many steps would have waited, each in a pass of its own.
  void read_lost() {
    for (auto& [name, thread] : threads_) {
      if (!thread.lost || thread.decided) continue;
      read_alone(name, thread.place);
    }
  }
  void read_alone(const std::string& name, std::size_t place) {
    const auto nothing = [](const std::string&) {};
    Side a(files_[0], mode_, nothing, nothing), b(files_[1], mode_, nothing, nothing);
    const auto next = [&name](Side& side) {
      while (side.next()) {
        const Step step = side.step();
        if (side.thread() == name) return step;
      }
      return Step{kNever, 0};
    };
    ComparedThread thread;
    for (;;) {
      const Step one = next(a), other = next(b);
      if (one.seq == kNever && other.seq == kNever) return;
      if (one.seq == kNever || other.seq == kNever || one.key != other.key)
        return consider({name, place, {one.seq, other.seq}, {thread.equal.begin(), thread.equal.end()}});
      note_equal(thread, one.seq);
    }
  }

  Difference describe() const {
    Difference difference;
    difference.found = true;
    difference.thread = mode_ == CompareMode::exact ? "" : found_->thread;
    std::vector<std::uint64_t> of_a = found_->before;
    if (found_->seq[0] != kNever) of_a.push_back(found_->seq[0]);
    difference.before = texts_of(files_[0].path, of_a);
    if (found_->seq[0] != kNever && !difference.before.empty()) {
      difference.a = std::move(difference.before.back());
      difference.before.pop_back();
    }
    if (found_->seq[1] != kNever) {
      std::vector<std::string> text = texts_of(files_[1].path, {found_->seq[1]});
      if (!text.empty()) difference.b = std::move(text.front());
    }
    difference.seq_a = std::min(found_->seq[0], sides_[0]->records());
    difference.seq_b = std::min(found_->seq[1], sides_[1]->records());
    return difference;
  }

  static constexpr std::size_t kOnlyInB = std::size_t{1} << 48;
  NamedFile files_[2];
  CompareMode mode_;
  std::size_t most_held_;
  std::map<std::string, ComparedThread> threads_;
  std::size_t count_[2] = {};  // threads
  std::size_t held_[2] = {};   // waiting steps of the machines that are in both traces
  std::size_t all_held_ = 0;
  std::unique_ptr<FirstUnlike> found_;
  std::unique_ptr<Side> sides_[2];
};

}  // namespace

Comparison compare(const NamedFile& a, const NamedFile& b, CompareMode mode, std::size_t most_held) {
  return Comparer(a, b, mode, most_held).run();
}

}  // namespace rtrs::replay_tool
