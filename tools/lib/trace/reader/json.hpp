// A trace as text, one JSON object a line, and back: the header, every record, and at last the trailer where
// the trace has one. Nothing is lost: the way back gives the same records, header and chain hash.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "core/record/codec.hpp"
#include "core/record/format.hpp"
#include "core/record/writer.hpp"

namespace rtrs::trace {

// {"trace":{"major":..,"minor":..,"tool":..,...,"enums":[..],"events":[..]}}
std::string header_json(const Header& header);
// {"seq":..,"time":..,"instance":..,"event":"..","fields":{..}}: numbers as integers, enumerations as words
// (as numbers where there is no word), uuids and bytes in hex.
std::string record_json(const Record& record, const Schema& schema);
// {"end":{"records":..,"chain_hash":"16 hex digits"}}
std::string end_json(std::uint64_t records, std::uint64_t chain_hash);

// The way back, line by line.
class JsonImporter {
 public:
  explicit JsonImporter(std::unique_ptr<Sink> sink);
  ~JsonImporter();
  // Empty or what is wrong with the line; after an error no more lines may follow.
  std::string line(std::string_view text);
  // After the last line. Without an end line the trace gets no trailer, as the one it came from had none.
  std::string finish();
  std::uint64_t records() const noexcept { return writer_.records(); }
  // Where line() or finish() failed because the sink did: its errno. 0: something is wrong with the line.
  int write_error() const noexcept { return write_error_; }

 private:
  struct Line;
  std::string header_line(const Line& line);
  std::string record_line(const Line& line);
  std::string end_line(const Line& line);
  std::string cannot_write(int error);

  Writer writer_;
  Header header_;
  bool started_ = false;
  bool ended_ = false;
  int write_error_ = 0;
};

}  // namespace rtrs::trace
