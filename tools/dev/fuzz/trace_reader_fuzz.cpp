// Fuzz test: reading arbitrary bytes as a trace must not crash. Each record that was read can be printed, and
// can be written again without change.
#include <string>

#include "conformance/fuzz/fuzz.hpp"
#include "core/record/writer.hpp"
#include "tools/lib/trace/reader/json.hpp"
#include "tools/lib/trace/reader/reader.hpp"
#include "tools/lib/trace/reader/text.hpp"
#include "tools/lib/trace/reader/wire_reader.hpp"

using namespace rtrs::trace;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  MemorySource source({reinterpret_cast<const char*>(data), size});
  Reader reader(source);
  if (reader.open() != Reader::Status::ok) {
    RTRS_FUZZ_CHECK(!reader.stop().reason.empty() && reader.stop().offset <= size);
    return 0;
  }
  RTRS_FUZZ_CHECK(!header_json(reader.header()).empty());
  std::string copy;
  Writer writer(std::make_unique<StringSink>(copy));
  RTRS_FUZZ_CHECK(writer.start(reader.header()) == 0);
  const WireNotes notes(reader.header().schema);
  Record record;
  Reader::Status status = Reader::Status::ok;
  while ((status = reader.next(record)) == Reader::Status::ok) {
    RTRS_FUZZ_CHECK(!record_text(record, reader.header().schema).empty());
    RTRS_FUZZ_CHECK(!record_json(record, reader.header().schema).empty());
    (void)notes.note(record);
    RTRS_FUZZ_CHECK(writer.append_values(*record.event, record.instance, record.time, record.values) == 0);
  }
  RTRS_FUZZ_CHECK(writer.records() == reader.records());
  if (status == Reader::Status::end) RTRS_FUZZ_CHECK(writer.chain_hash() == reader.chain_hash());
  if (status != Reader::Status::end) RTRS_FUZZ_CHECK(!reader.stop().reason.empty());
  return 0;
}
