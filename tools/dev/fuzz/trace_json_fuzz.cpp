// Fuzz test: importing arbitrary lines of JSON must not crash. A trace that the importer accepts must be
// readable to its end.
#include <string>
#include <string_view>

#include "conformance/fuzz/fuzz.hpp"
#include "tools/lib/trace/reader/json.hpp"
#include "tools/lib/trace/reader/reader.hpp"

using namespace rtrs::trace;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string bytes;
  JsonImporter importer(std::make_unique<StringSink>(bytes));
  std::string_view left(reinterpret_cast<const char*>(data), size);
  bool ended = false;
  while (!left.empty()) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(line.size() == left.size() ? line.size() : line.size() + 1);
    if (!importer.line(line).empty()) return 0;
    ended = ended || line.find("\"end\"") != std::string_view::npos;
  }
  const std::uint64_t records = importer.records();
  if (!importer.finish().empty()) return 0;
  MemorySource source(bytes);
  Reader reader(source);
  RTRS_FUZZ_CHECK(reader.open() == Reader::Status::ok);
  Record record;
  Reader::Status status = Reader::Status::ok;
  while ((status = reader.next(record)) == Reader::Status::ok) {
  }
  RTRS_FUZZ_CHECK(reader.records() == records);
  RTRS_FUZZ_CHECK(status == Reader::Status::end || !ended || records == 0 ||
                  status == Reader::Status::damaged);
  return 0;
}
