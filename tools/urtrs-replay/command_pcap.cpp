#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <vector>

#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/roce/capture_writer.hpp"
#include "tools/lib/trace/roce/recordings.hpp"
#include "tools/lib/trace/roce/synthesis.hpp"
#include "tools/urtrs-replay/commands.hpp"

namespace rtrs::replay_tool {
namespace {

struct PcapOptions {
  std::vector<std::string> traces;
  std::string to;
  std::uint32_t mtu = 1024;
  std::uint16_t port = 1234;
  std::uint64_t max_size = kMaxTraceBytes;
  bool exact = false;
  bool json = false;
};

struct TooLong {};

// Output file; "-" is standard output. Prints an error if it cannot be opened. Throws if a write fails.
class OutputBytes {
 public:
  explicit OutputBytes(const std::string& path) : fd_(create_output(path, 0600, true)) {}
  ~OutputBytes() {
    if (fd_ >= 0) ::close(fd_);
  }
  bool is_open() const { return fd_ >= 0; }
  OutputBytes(const OutputBytes&) = delete;
  OutputBytes& operator=(const OutputBytes&) = delete;

  void put(roce::Bytes bytes) {
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    if (buffer_.size() >= kBuffer) flush();
  }
  void flush() {
    std::size_t done = 0;
    while (done < buffer_.size()) {
      const ssize_t wrote = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote < 0) throw std::system_error(errno, std::generic_category(), "cannot write the capture");
      done += static_cast<std::size_t>(wrote);
    }
    buffer_.clear();
  }

 private:
  static constexpr std::size_t kBuffer = std::size_t{256} << 10;
  int fd_;
  std::vector<std::byte> buffer_;
};

// Passes the bytes of the capture to `put`.
roce::SynthesisCounters synthesize(const roce::Recordings& recordings, const PcapOptions& options,
                                   std::function<void(roce::Bytes)> put) {
  roce::CaptureWriter writer(std::move(put), "urtrs-replay pcap");
  roce::Synthesis synthesis(recordings, roce::SynthesisOptions{options.mtu, options.port, options.exact},
                            [&writer](Nanos time, roce::Bytes frame) { writer.frame(time, frame); });
  synthesis.run();
  return synthesis.counters();
}

// A small trace can describe messages of any length, so the length is known only when the capture is made.
bool is_too_long(const roce::Recordings& recordings, const PcapOptions& options) {
  std::uint64_t left = options.max_size;
  try {
    synthesize(recordings, options, [&left](roce::Bytes bytes) {
      if (bytes.size() > left) throw TooLong();
      left -= bytes.size();
    });
  } catch (const TooLong&) {
    return true;
  }
  return false;
}

// Reads one trace. Returns an exit code, which is exit_damaged if only a part could be read.
int load(const std::string& path, std::uint64_t max_size, roce::Recordings& recordings) {
  InputFile file(path);
  if (!file.is_open()) return exit_usage;
  trace::Reader reader(file.source());
  const trace::Reader::Status status = reader.open();
  if (status != trace::Reader::Status::ok) return report_stop(path, status, reader);
  const std::uint64_t before = recordings.notes();
  const trace::Reader::Status end = recordings.add(reader, max_size);
  if (end == trace::Reader::Status::ok) {
    error(path + ": its messages take more than " + std::to_string(max_size) +
          " bytes of memory; allow more with --max-size, or record less");
    return exit_cannot_read;
  }
  if (recordings.notes() == before)
    error(path +
          ": the trace has no messages of the wire; record it with trace_detail=wire (nbdkit plugin) or "
          "--trace-detail wire (urtrsd)");
  return report_stop(path, end, reader);
}

nlohmann::ordered_json as_json(const roce::Recordings& recordings, const roce::SynthesisCounters& made) {
  return {{"notes", recordings.notes()},
          {"frames", made.frames},
          {"messages", made.messages},
          {"connections", made.connections},
          {"both_ends", recordings.paired()},
          {"without_setup", made.without_setup},
          {"reads_without_data", made.generated_reads},
          {"writes_without_address", made.unplaced_writes},
          {"requests_without_content", made.unread_requests},
          {"drifting_clocks", recordings.drifting()}};
}

int pcap(const PcapOptions& options) {
  if (!may_write(options.to, true)) return exit_usage;
  roce::Recordings recordings;
  int code = exit_ok;
  for (const std::string& path : options.traces) {
    const int one = load(path, std::max(options.max_size, kMaxTraceBytes), recordings);
    if (one == exit_usage || one == exit_cannot_read) return one;
    code = std::max(code, one);
  }
  if (recordings.notes() == 0) return exit_cannot_read;
  recordings.join();
  if (recordings.drifting() > 0)
    error("the clocks of the traces drift apart; the times of some frames are wrong by that much");
  if (is_too_long(recordings, options)) {
    error(options.to + ": the capture would be longer than " + std::to_string(options.max_size) +
          " bytes; allow more with --max-size");
    return exit_usage;
  }
  OutputBytes file(options.to);
  if (!file.is_open()) return exit_usage;
  const roce::SynthesisCounters made =
      synthesize(recordings, options, [&file](roce::Bytes bytes) { file.put(bytes); });
  file.flush();
  const auto numbers = as_json(recordings, made);
  if (numbers["without_setup"] != 0)
    error(numbers["without_setup"].dump() +
          " connections were set up before their trace begins; Wireshark shows them as plain RoCEv2 unless "
          "configured to decode them (docs/wireshark.md)");
  if (options.to == "-") return code;
  Output out;
  if (options.json) {
    nlohmann::ordered_json json{{"schema_version", 1}};
    json.update(numbers);
    out.line(json.dump());
  } else {
    out.line(options.to + ": " + numbers["frames"].dump() + " frames, " + numbers["messages"].dump() +
             " messages, " + numbers["connections"].dump() + " connections, " + numbers["both_ends"].dump() +
             " of them seen at both ends");
  }
  return out.finish(code);
}

}  // namespace

void add_pcap(CLI::App& app, Runner& runner) {
  const auto bind = [](CLI::App& command, PcapOptions& options) {
    add_traces(command, "TRACE", options.traces,
               "Traces of one run: client, server, or both; - for standard input")
        ->required();
    command
        .add_option("-o,--output", options.to, "Capture to write, - for standard output; no file is replaced")
        ->required();
    command.add_option("--mtu", options.mtu, "Bytes of payload a packet")
        ->check(CLI::IsMember({256, 512, 1024, 2048, 4096}))
        ->capture_default_str();
    command.add_option("--port", options.port, "Port of the server")
        ->check(CLI::Range(1, 65535))
        ->type_name("PORT")
        ->capture_default_str();
    add_max_size(command, options.max_size, "Longest capture to write");
    command.add_flag("--exact", options.exact,
                     "SEND_WITH_INV without payload, as on a wire; Wireshark without the dissector calls "
                     "them malformed, so by default they get 16 bytes of 0xff, which import removes");
    command.add_flag("--json", options.json, "What was written as a JSON object");
  };
  add_command<PcapOptions>(
      app, runner, "pcap", "Write a trace as a capture of RoCEv2 for Wireshark, whatever fabric it is from",
      std::string(
          "Examples:\n"
          "  urtrs-replay pcap run.rtrc -o run.pcapng\n"
          "  urtrs-replay pcap client.rtrc server.rtrc -o both.pcapng --json\n\n"
          "Needs traces with detail wire. Wireshark shows RTRS in it with tools/wireshark/urtrs.lua.\n"
          "Exit codes: 0 written, 2 wrong usage, 3 no trace or nothing of the wire in it, 5 a trace is "
          "damaged:\n"
          "the records before the damage were written."),
      bind, pcap);
}

}  // namespace rtrs::replay_tool
