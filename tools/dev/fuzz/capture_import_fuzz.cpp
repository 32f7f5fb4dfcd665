// Fuzz test: reading arbitrary bytes as a capture must not crash. The imported trace must be complete, and it
// must be possible to judge it and to convert it back to packets.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "conformance/fuzz/fuzz.hpp"
#include "core/record/schema.hpp"
#include "tools/lib/trace/iwarp/analyzer.hpp"
#include "tools/lib/trace/judge/trace_check.hpp"
#include "tools/lib/trace/roce/analyzer.hpp"
#include "tools/lib/trace/roce/capture_reader.hpp"
#include "tools/lib/trace/roce/recordings.hpp"
#include "tools/lib/trace/roce/synthesis.hpp"
#include "tools/lib/trace/roce/trace_import.hpp"

using namespace rtrs;

namespace {

class MemoryBytes final : public roce::ByteSource {
 public:
  MemoryBytes(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}
  std::size_t read(roce::MutableBytes to) override {
    const std::size_t part = std::min(to.size(), size_ - at_);
    if (part != 0) std::memcpy(to.data(), data_ + at_, part);
    at_ += part;
    return part;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

// Returns the imported trace; empty if the capture has no frame.
std::string imported(roce::CaptureReader& reader) {
  roce::CapturedFrame frame;
  auto status = reader.next(frame);
  if (status != roce::CaptureReader::Status::ok) return {};
  const std::uint64_t first = frame.time;
  std::string text;
  trace::Writer writer(std::make_unique<trace::StringSink>(text));
  trace::Header header;
  header.schema = trace::builtin_schema();
  RTRS_FUZZ_CHECK(writer.start(header) == 0);
  roce::ImportOptions options;
  options.time_zero = first;
  roce::TraceImport import(writer, options);
  const auto take = [&](const roce::WireEvent& event) { import.on(event); };
  roce::Analyzer analyzer(take);
  iwarp_capture::Analyzer iwarp(options.port, take);
  for (; status == roce::CaptureReader::Status::ok; status = reader.next(frame)) {
    roce::Packet packet;
    iwarp_capture::Segment segment;
    if (roce::decode(frame.link, frame.bytes, frame.original, packet) == roce::Decoded::packet)
      analyzer.packet(std::max(frame.time, first), std::move(packet));
    else if (iwarp_capture::decode(frame.link, frame.bytes, frame.original, segment))
      iwarp.segment(std::max(frame.time, first), std::move(segment));
  }
  RTRS_FUZZ_CHECK(status == roce::CaptureReader::Status::end || !reader.reason().empty());
  analyzer.finish();
  iwarp.finish();
  RTRS_FUZZ_CHECK(import.error() == 0);
  RTRS_FUZZ_CHECK(writer.finish() == 0);
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  MemoryBytes bytes(data, size);
  roce::CaptureReader reader(bytes);
  if (reader.open() != roce::CaptureReader::Status::ok) {
    RTRS_FUZZ_CHECK(!reader.reason().empty());
    return 0;
  }
  const std::string text = imported(reader);
  if (text.empty()) return 0;
  trace::MemorySource judged(text);
  trace::LawCollector laws;
  const trace::TraceCheck check = trace::check_trace(judged, &laws, {}, 5'000'000'000);
  RTRS_FUZZ_CHECK(check.status == trace::Reader::Status::end);
  (void)laws.judge();
  trace::MemorySource source(text);
  trace::Reader trace_reader(source);
  RTRS_FUZZ_CHECK(trace_reader.open() == trace::Reader::Status::ok);
  roce::Recordings recordings;
  RTRS_FUZZ_CHECK(recordings.add(trace_reader) == trace::Reader::Status::end);
  recordings.join();
  roce::Synthesis(recordings, {}, [](rtrs::Nanos, roce::Bytes) {}).run();
  return 0;
}
