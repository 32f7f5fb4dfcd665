#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include "core/record/format.hpp"
#include "core/record/schema.hpp"
#include "core/record/writer.hpp"
#include "tools/lib/trace/command/files.hpp"
#include "tools/lib/trace/iwarp/analyzer.hpp"
#include "tools/lib/trace/roce/analyzer.hpp"
#include "tools/lib/trace/roce/capture_reader.hpp"
#include "tools/lib/trace/roce/clock_offsets.hpp"
#include "tools/lib/trace/roce/trace_import.hpp"
#include "tools/urtrs-replay/commands.hpp"

namespace rtrs::replay_tool {
namespace {

struct ImportCommand {
  std::string from;
  std::string to;
  std::uint16_t port = 1234;
  bool payload = false;
  bool json = false;
};

class FileBytes final : public roce::ByteSource {
 public:
  explicit FileBytes(int fd) : fd_(fd), buffer_(std::size_t{256} << 10) {}

  std::size_t read(roce::MutableBytes to) override {
    std::size_t done = 0;
    while (done < to.size()) {
      if (at_ == end_ && !refill()) break;
      const std::size_t part = std::min(end_ - at_, to.size() - done);
      std::memcpy(to.data() + done, buffer_.data() + at_, part);
      at_ += part;
      done += part;
    }
    return done;
  }

 private:
  bool refill() {
    ssize_t got = 0;
    do got = ::read(fd_, buffer_.data(), buffer_.size());
    while (got < 0 && errno == EINTR);
    if (got < 0) throw std::system_error(errno, std::generic_category(), "cannot read the capture");
    at_ = 0;
    end_ = static_cast<std::size_t>(got);
    return got > 0;
  }

  int fd_;
  std::vector<char> buffer_;
  std::size_t at_ = 0;
  std::size_t end_ = 0;
};

// Number of frames in the capture, by kind.
struct Frames {
  std::uint64_t all = 0;
  std::uint64_t other = 0;       // number of frames that are neither RoCEv2 nor iWARP
  std::uint64_t malformed = 0;   // number of invalid RoCEv2 frames
  std::uint64_t unreadable = 0;  // number of frames with an unknown link type
  std::uint64_t first = 0;       // time of the first frame
  std::uint64_t last = 0;
};

std::string date_of(std::uint64_t nanoseconds) {
  const auto whole = static_cast<std::time_t>(nanoseconds / 1'000'000'000);
  std::tm parts{};
  ::gmtime_r(&whole, &parts);
  std::array<char, 40> text{};
  const std::size_t size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::array<char, 16> rest{};
  std::snprintf(rest.data(), rest.size(), ".%09lluZ",
                static_cast<unsigned long long>(nanoseconds % 1'000'000'000));
  return std::string(text.data(), size) + rest.data();
}

nlohmann::ordered_json as_json(const Frames& frames, const roce::AnalyzerCounters& wire,
                               const iwarp_capture::AnalyzerCounters& tcp,
                               const roce::ImportCounters& trace) {
  return {{"frames", frames.all},
          {"seconds", static_cast<double>(frames.last - frames.first) / 1e9},
          {"packets", wire.packets},
          {"tcp_segments", tcp.segments},
          {"other_frames", frames.other},
          {"malformed_packets", frames.malformed},
          {"unreadable_frames", frames.unreadable},
          {"sessions", trace.sessions},
          {"paths", trace.paths},
          {"connections", trace.connections},
          {"notes", trace.notes},
          {"unparsed_requests", trace.unparsed_requests},
          {"requests_without_header", trace.headless},
          {"other_connections", trace.other_connections},
          {"retransmitted_packets", wire.retransmitted + tcp.retransmitted},
          {"retransmitted_cm_messages", wire.cm_retransmitted},
          {"rnr_naks", wire.rnr_naks},
          {"sequence_naks", wire.sequence_naks},
          {"fatal_naks", wire.fatal_naks},
          {"acknowledgements", wire.acknowledgements},
          {"messages_taken_as_received", wire.unproven},
          {"gaps", wire.gaps + tcp.gaps},
          {"lost_packets", wire.lost_packets},
          {"lost_tcp_bytes", tcp.lost_bytes},
          {"undecoded_tcp_bytes", tcp.undecoded},
          {"unacknowledged_messages", wire.unacknowledged + tcp.unacknowledged},
          {"packets_without_connection", wire.strangers + tcp.strangers},
          {"tls_segments", tcp.sealed},
          {"invalid_tcp_streams", tcp.faults},
          {"bad_icrc", wire.bad_icrc}};
}

std::string text_of(const nlohmann::ordered_json& value) {
  if (!value.is_number_float()) return value.dump();
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6f", value.get<double>());
  return text.data();
}

void print_text(Output& out, const nlohmann::ordered_json& numbers) {
  for (const auto& [name, value] : numbers.items()) {
    std::string row = name;
    std::replace(row.begin(), row.end(), '_', ' ');
    row.resize(28, ' ');
    out.line(row + text_of(value));
  }
}

// Passes what a frame shows about the order of events to the estimate of the clocks.
void look(roce::ClockOffsets& clocks, std::uint64_t time, const iwarp_capture::Segment& segment) {
  const std::size_t size = segment.payload.size() + segment.cut + (segment.syn ? 1 : 0);
  clocks.look(
      time,
      {segment.source.address, segment.destination.address, {segment.source.port, segment.destination.port}},
      size == 0 ? std::nullopt : std::optional(segment.sequence + static_cast<std::uint32_t>(size)),
      segment.ack ? std::optional(segment.acknowledgement) : std::nullopt);
}

using Decoded = std::variant<std::monostate, roce::Packet, iwarp_capture::Segment>;

// Decodes a frame; monostate if it is neither RoCEv2 nor TCP. Sets `malformed` if it is invalid RoCEv2.
Decoded decode(const roce::CapturedFrame& frame, bool& malformed) {
  roce::Packet packet;
  const roce::Decoded found = roce::decode(frame.link, frame.bytes, frame.original, packet);
  malformed = found == roce::Decoded::malformed;
  if (found == roce::Decoded::packet) return packet;
  iwarp_capture::Segment segment;
  if (iwarp_capture::decode(frame.link, frame.bytes, frame.original, segment)) return segment;
  return {};
}

class Import {
 public:
  explicit Import(const ImportCommand& options) : options_(options), file_(options.from) {}

  int run() {
    if (!file_.is_open()) return exit_usage;
    if (::lseek(file_.fd(), 0, SEEK_CUR) == 0) look_at_clocks();
    FileBytes source(file_.fd());
    roce::CaptureReader reader(source);
    if (reader.open() != roce::CaptureReader::Status::ok) {
      error(options_.from + ": " + reader.reason() + "; tcpdump, dumpcap and Wireshark write captures");
      return exit_cannot_read;
    }
    roce::CapturedFrame frame;
    auto status = reader.next(frame);
    if (status == roce::CaptureReader::Status::ok && !start(frame.time)) return exit_usage;
    Progress progress(file_.size(), true);
    order_ = roce::FrameOrder<Decoded>(static_cast<std::uint64_t>(std::abs(clocks_.largest())));
    while (status == roce::CaptureReader::Status::ok && trace_->error() == 0) {
      take(frame);
      progress.at(reader.offset());
      status = reader.next(frame);
    }
    return finish(status, reader);
  }

 private:
  // Reads the capture once before the conversion, to estimate clock offsets. Not possible for a pipe.
  void look_at_clocks() {
    FileBytes source(file_.fd());
    roce::CaptureReader reader(source);
    roce::CapturedFrame frame;
    if (reader.open() == roce::CaptureReader::Status::ok) {
      while (reader.next(frame) == roce::CaptureReader::Status::ok) {
        bool malformed = false;
        const Decoded decoded = decode(frame, malformed);
        if (const auto* packet = std::get_if<roce::Packet>(&decoded)) clocks_.look(frame.time, *packet);
        if (const auto* segment = std::get_if<iwarp_capture::Segment>(&decoded))
          look(clocks_, frame.time, *segment);
      }
    }
    clocks_.finish();
    ::lseek(file_.fd(), 0, SEEK_SET);
  }

  // Receives frames in the order of their corrected times. A corrected time can be before the first frame of
  // the capture; it is replaced by the time of that frame.
  void in_order(std::uint64_t time, Decoded&& decoded) {
    time = std::max(time, frames_.first);
    if (auto* packet = std::get_if<roce::Packet>(&decoded)) roce_->packet(time, std::move(*packet));
    if (auto* segment = std::get_if<iwarp_capture::Segment>(&decoded))
      if (!iwarp_->segment(time, std::move(*segment))) ++frames_.other;
  }

  bool start(std::uint64_t first) {
    const int fd = create_output(options_.to, 0600);
    if (fd < 0) return false;
    auto sink = std::make_unique<trace::FdSink>(fd);
    frames_.first = frames_.last = first;
    writer_ = std::make_unique<trace::Writer>(std::move(sink));
    trace::Header header;
    header.schema = trace::builtin_schema();
    header.origin = {"urtrs-replay import",
                     "client",
                     "capture",
                     0,
                     {"captured=" + date_of(first), "capture=" + trace::clean_text(options_.from)}};
    if (const int wrong = writer_->start(header)) {
      failed_to_write(wrong);
      return false;
    }
    trace_ = std::make_unique<roce::TraceImport>(*writer_,
                                                 roce::ImportOptions{options_.port, options_.payload, first});
    const auto take = [this](const roce::WireEvent& event) { trace_->on(event); };
    roce_ = std::make_unique<roce::Analyzer>(take);
    iwarp_ = std::make_unique<iwarp_capture::Analyzer>(options_.port, take);
    return true;
  }

  void take(const roce::CapturedFrame& frame) {
    ++frames_.all;
    frames_.last = std::max(frames_.last, frame.time);
    if (!roce::readable_link(frame.link)) {
      ++frames_.unreadable;
      return;
    }
    bool malformed = false;
    Decoded decoded = decode(frame, malformed);
    if (std::holds_alternative<std::monostate>(decoded)) {
      ++(malformed ? frames_.malformed : frames_.other);
      return;
    }
    const auto* segment = std::get_if<iwarp_capture::Segment>(&decoded);
    const std::int64_t more = segment != nullptr
                                  ? clocks_.correction(segment->source.address, segment->destination.address)
                                  : clocks_.correction(std::get<roce::Packet>(decoded));
    const std::uint64_t earlier = more < 0 ? std::min(frame.time, static_cast<std::uint64_t>(-more)) : 0U;
    const std::uint64_t time =
        frame.time - earlier + static_cast<std::uint64_t>(std::max(more, std::int64_t{0}));
    order_.add(time, std::move(decoded),
               [this](std::uint64_t at, Decoded&& next) { in_order(at, std::move(next)); });
  }

  int failed_to_write(int number) const {
    error("cannot write " + options_.to + ": " + std::strerror(number));
    return exit_usage;
  }

  int finish(roce::CaptureReader::Status status, const roce::CaptureReader& reader) {
    if (trace_ == nullptr) {
      error(options_.from + ": the capture has no frames");
      return exit_cannot_read;
    }
    order_.finish([this](std::uint64_t at, Decoded&& next) { in_order(at, std::move(next)); });
    roce_->finish();
    iwarp_->finish();
    const std::uint64_t unknown =
        roce_->counters().strangers + iwarp_->counters().strangers + iwarp_->counters().sealed;
    if (unknown != 0) trace_->without_setup(unknown, frames_.last);
    int wrong = trace_->error();
    if (wrong == 0) wrong = writer_->finish();
    if (wrong != 0) return failed_to_write(wrong);
    int code = exit_ok;
    if (status == roce::CaptureReader::Status::damaged) {
      error(options_.from + ", byte " + std::to_string(reader.offset()) + ": " + reader.reason() +
            "; everything before it was imported");
      code = exit_damaged;
    }
    return summarize(code);
  }

  // Prints what the capture lacks, in one line for each reason.
  void explain(std::uint64_t connections) const {
    const roce::AnalyzerCounters& wire = roce_->counters();
    const iwarp_capture::AnalyzerCounters& tcp = iwarp_->counters();
    const std::uint64_t strangers = wire.strangers + tcp.strangers;
    if (tcp.sealed > 0)
      error(std::to_string(tcp.sealed) +
            " segments are encrypted by TLS and cannot be decoded: record a trace at the client or server "
            "instead (trace=FILE trace_detail=wire, --trace FILE --trace-detail wire)");
    if (connections == 0) {
      error(
          options_.from + ": it contains no setup of an RTRS connection (" + std::to_string(wire.packets) +
          " RoCEv2 packets, " + std::to_string(tcp.segments) + " TCP segments, " + std::to_string(strangers) +
          " of unknown connections); capture UDP port 4791 or the server's TCP port (--port) from before the "
          "client connects");
    } else if (strangers > 0) {
      error(std::to_string(strangers) +
            " packets belong to connections whose setup is not in the capture, because it began later or has "
            "one direction only; they are skipped, and check reports inconclusive");
    }
    if (const std::int64_t most = clocks_.largest(); most != 0)
      error("the clocks of the two ends differ by up to " + std::to_string(std::abs(most) / 1000) +
            " us; the frames of one end were shifted by that, so that no reply precedes its request");
    if (wire.unproven > 0)
      error("the capture has no acknowledgements (RC ACK frames), so " + std::to_string(wire.unproven) +
            " messages to clients are assumed to be received, and check reports inconclusive");
    if (wire.gaps > 0)
      error("the capture misses " + std::to_string(wire.lost_packets) + " packets in " +
            std::to_string(wire.gaps) + " places; they are marked WireGap, and check is inconclusive there");
    if (tcp.lost_bytes > 0)
      error("the capture misses " + std::to_string(tcp.lost_bytes) + " bytes of TCP connections, and " +
            std::to_string(tcp.undecoded) + " bytes behind them could not be decoded; the " +
            std::to_string(tcp.gaps) + " places are marked WireGap, and check is inconclusive there");
    if (tcp.faults > 0)
      error("the iWARP messages of " + std::to_string(tcp.faults) +
            " TCP streams are invalid; the rest of these streams is skipped; the first reason: " +
            iwarp::to_string(tcp.first_fault));
  }

  int summarize(int code) const {
    const roce::ImportCounters& trace = trace_->counters();
    explain(trace.connections);
    if (trace.connections == 0 && code == exit_ok) code = exit_cannot_read;
    auto numbers = as_json(frames_, roce_->counters(), iwarp_->counters(), trace);
    numbers["clock_correction_ns"] = clocks_.largest();
    Output out;
    if (options_.json) {
      nlohmann::ordered_json json{{"schema_version", 1}};
      json.update(numbers);
      out.line(json.dump());
    } else {
      print_text(out, numbers);
    }
    return out.finish(code);
  }

  const ImportCommand& options_;
  InputFile file_;
  Frames frames_;
  roce::ClockOffsets clocks_;
  roce::FrameOrder<Decoded> order_{0};
  std::unique_ptr<trace::Writer> writer_;
  std::unique_ptr<roce::TraceImport> trace_;
  std::unique_ptr<roce::Analyzer> roce_;
  std::unique_ptr<iwarp_capture::Analyzer> iwarp_;
};

int import(const ImportCommand& options) {
  if (options.to == "-") return error("cannot write a trace to standard output; name a file"), exit_usage;
  return Import(options).run();
}

}  // namespace

void add_import(CLI::App& app, Runner& runner) {
  const auto bind = [](CLI::App& command, ImportCommand& options) {
    command
        .add_option("CAPTURE", options.from, "pcap or pcapng file with RoCEv2 or iWARP, - for standard input")
        ->required();
    command.add_option("TRACE", options.to, "Trace file to write, not standard output")->required();
    command.add_option("--port", options.port, "Port of the RTRS servers")
        ->capture_default_str()
        ->check(CLI::Range(1, 65535))
        ->type_name("PORT");
    command.add_flag("--payload", options.payload, "Keep user data, not only its digest");
    command.add_flag("--json", options.json, "What was found as a JSON object");
  };
  add_command<ImportCommand>(
      app, runner, "import", "Turn a capture of RoCEv2 or TCP traffic into a trace",
      std::string(
          "Examples:\n"
          "  urtrs-replay import capture.pcapng capture.rtrc\n"
          "  urtrs-replay import capture.pcapng capture.rtrc --json\n"
          "\n"
          "Decodes RoCEv2 and the fabric tcp (iWARP) without TLS, also in one capture.\n"
          "The trace has the messages as the clients saw them, rebuilt by sequence number. A file is read "
          "twice: if the clocks of the two ends differ (by up to 100 ms), timestamps are corrected first.\n"
          "Exit codes: 0 imported, 2 wrong usage, 3 no capture or no RTRS in it, 5 the capture is damaged: "
          "everything before the damage was imported."),
      bind, import);
}

}  // namespace rtrs::replay_tool
