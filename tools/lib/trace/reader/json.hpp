// Converts a trace to text, one JSON object per line, and back: the header, each record, and the trailer if
// there is one. The conversion is lossless: converting back gives the same records, header and chain hash.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "core/record/codec.hpp"
#include "core/record/format.hpp"
#include "core/record/writer.hpp"

namespace rtrs::trace {

// Returns {"trace":{"major":..,"minor":..,"tool":..,...,"enums":[..],"events":[..]}}.
std::string header_json(const Header& header);
// Returns {"seq":..,"time":..,"instance":..,"event":"..","fields":{..}}. Numbers are integers, enumerations
// are words (numbers if there is no word), uuids and bytes are hexadecimal.
std::string record_json(const Record& record, const Schema& schema);
// Returns {"end":{"records":..,"chain_hash":"16 hex digits"}}.
std::string end_json(std::uint64_t records, std::uint64_t chain_hash);

// Converts lines back to a trace.
class JsonImporter {
 public:
  // `rehash`: the lines were edited. Records get new numbers, StateHash records are left out, because they
  // are of the state before the edit, and number of records and chain hash of the end are computed.
  explicit JsonImporter(std::unique_ptr<Sink> sink, bool rehash = false);
  ~JsonImporter();
  // Converts one line. Returns an empty string, or an error; do not pass further lines after an error.
  std::string line(std::string_view text);
  // Call after the last line. Writes a trailer only if there was an end line. Returns an empty string, or an
  // error.
  std::string finish();
  std::uint64_t records() const noexcept { return writer_.records(); }
  // After an error of line() or finish(): errno of the sink, or 0 if the line is invalid.
  int write_error() const noexcept { return write_error_; }

 private:
  struct Line;
  std::string header_line(const Line& line);
  std::string record_line(const Line& line);
  std::string end_line(const Line& line);
  std::string write_failure(int error);

  Writer writer_;
  Header header_;
  bool rehash_ = false;
  bool started_ = false;
  bool ended_ = false;
  int write_error_ = 0;
};

}  // namespace rtrs::trace
