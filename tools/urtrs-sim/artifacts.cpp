#include "tools/urtrs-sim/artifacts.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <stdexcept>

#include "tools/lib/trace/choice_log/trace_judge.hpp"
#include "tools/lib/trace/judge/trace_check.hpp"
#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/roce/capture_writer.hpp"
#include "tools/lib/trace/roce/recordings.hpp"
#include "tools/lib/trace/roce/synthesis.hpp"
#include "tools/urtrs-sim/answer.hpp"
#include "tools/urtrs-sim/held_output.hpp"
#include "tools/urtrs-sim/run_page.hpp"

namespace rtrs::sim_tool {

namespace sequence = tools::sequence;

namespace {

// Owns an open trace file; the destructor closes it.
class OpenTrace {
 public:
  explicit OpenTrace(const std::string& file)
      : fd_(::open(file.c_str(), O_RDONLY | O_CLOEXEC)), source_(fd_) {
    if (fd_ < 0) throw std::runtime_error("cannot open " + file);
  }
  ~OpenTrace() { ::close(fd_); }
  OpenTrace(const OpenTrace&) = delete;
  OpenTrace& operator=(const OpenTrace&) = delete;
  trace::FdSource& source() { return source_; }

 private:
  int fd_;
  trace::FdSource source_;
};

void write_file(const std::string& file, const std::function<void(std::ofstream&)>& write) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  write(out);
  if (!out.flush()) throw std::runtime_error("cannot write " + file);
}

void write_capture(const std::vector<std::string>& traces, const std::string& file) {
  roce::Recordings recordings;
  for (const std::string& trace : traces) {
    OpenTrace opened(trace);
    trace::Reader reader(opened.source());
    if (reader.open() == trace::Reader::Status::ok) recordings.add(reader);
  }
  recordings.join();
  write_file(file, [&](std::ofstream& out) {
    roce::CaptureWriter writer(
        [&out](roce::Bytes bytes) {
          out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
        },
        "urtrs-sim");
    roce::Synthesis synthesis(recordings, roce::SynthesisOptions{},
                              [&writer](Nanos time, roce::Bytes frame) { writer.frame(time, frame); });
    synthesis.run();
  });
}

}  // namespace

std::string judgement(const std::vector<std::string>& traces, std::vector<sequence::WantedMark>& marks) {
  std::string text;
  for (std::size_t at = 0; at < traces.size(); ++at) {
    OpenTrace opened(traces[at]);
    const trace::TraceCheck check = trace::check_trace(opened.source());
    text += traces[at] + ": " + std::to_string(check.records) + " records, " +
            std::to_string(check.violations) + " violations of the protocol\n";
    for (const spec::Finding& finding : check.findings) {
      const std::string what =
          std::string(spec::info_of(finding.rule).id) + ": " + finding.seen + "; allowed: " + finding.allowed;
      text += "  record " + std::to_string(finding.seq) + ", " + what + "\n";
      marks.push_back({at, finding.seq, what});
    }
    for (const std::string& doubt : check.doubts) text += "  not judged: " + doubt + "\n";
  }
  return text;
}

void write_artifacts(const std::string& prefix, const std::string& said, const RunNotes& notes) {
  const std::vector<std::string> traces = tools::traces_of(prefix);
  std::vector<std::string> files = traces;
  std::vector<sequence::WantedMark> marks;
  const auto make = [&](const char* ending, const std::function<void(const std::string&)>& how) {
    const std::string file = prefix + ending;
    try {
      how(file);
      files.push_back(file);
    } catch (const std::exception& failure) {
      complain("no " + file + ": " + failure.what());
    }
  };
  make(".txt", [&](const std::string& file) {
    const std::string judged = judgement(traces, marks);
    write_file(file, [&](std::ofstream& out) { out << said << "\n" << judged; });
  });
  make(".pcapng", [&](const std::string& file) { write_capture(traces, file); });
  make(".html", [&](const std::string& file) {
    const std::string page = run_page(traces, marks, notes, sequence::seq_command(traces));
    write_file(file, [&](std::ofstream& out) { out << page; });
  });
  std::printf("artifacts:\n");
  for (const std::string& file : files) std::printf("  %s\n", file.c_str());
  answer()["artifacts"] = files;
}

int run_with_artifacts(const ReportOptions& given, const std::string& folder, const std::string& name) {
  ReportOptions options = given;
  options.trace = folder + "/" + name;
  options.name_traces = false;
  RunNotes notes;
  options.notes = &notes;
  std::string said;
  int code = kOk;
  {
    HeldOutput held;
    code = run_and_report(options);
    said = held.take();
  }
  std::fwrite(said.data(), 1, said.size(), stdout);
  if (code == kViolated || code == kNoProgress)
    write_artifacts(options.trace, said, notes);
  else
    for (const std::string& trace : tools::traces_of(options.trace)) ::unlink(trace.c_str());
  return code;
}

}  // namespace rtrs::sim_tool
