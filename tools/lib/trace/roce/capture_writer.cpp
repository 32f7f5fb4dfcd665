#include "tools/lib/trace/roce/capture_writer.hpp"

#include <utility>
#include <vector>

#include "tools/lib/trace/roce/packet.hpp"
#include "tools/lib/trace/roce/pcapng.hpp"

namespace rtrs::roce {
namespace {

constexpr std::uint16_t kOptionComment = 1;
constexpr std::uint16_t kOptionApplication = 4;
constexpr std::uint8_t kNanoseconds = 9;

// A pcapng block, in big-endian byte order.
class Block {
 public:
  explicit Block(std::uint32_t type) {
    put(4, type);
    put(4, 0);
  }
  void put(std::size_t width, std::uint64_t value) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + width);
    store_be(bytes_, at, width, value);
  }
  void put_padded(Bytes bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    bytes_.resize((bytes_.size() + 3) / 4 * 4);
  }
  void option(std::uint16_t code, Bytes value) {
    put(2, code);
    put(2, value.size());
    put_padded(value);
  }
  void end_options() { put(4, 0); }
  const std::vector<std::byte>& finish() {
    const std::size_t length = bytes_.size() + 4;
    put(4, length);
    store_be(bytes_, 4, 4, length);
    return bytes_;
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

CaptureWriter::CaptureWriter(Out out, std::string_view application) : out_(std::move(out)) {
  Block section(0x0a0d0d0a);
  section.put(4, 0x1a2b3c4d);
  section.put(2, 1);
  section.put(2, 0);
  section.put(8, ~std::uint64_t{0});  // section length: not specified
  section.option(kOptionApplication, std::as_bytes(std::span(application)));
  section.end_options();
  out_(section.finish());
  Block interface(1);
  interface.put(2, link_ethernet);
  interface.put(2, 0);
  interface.put(4, 0);  // snapshot length: no limit
  const std::byte resolution{kNanoseconds};
  interface.option(kOptionResolution, Bytes(&resolution, 1));
  interface.end_options();
  out_(interface.finish());
}

void CaptureWriter::frame(std::uint64_t time, Bytes bytes, std::string_view comment) {
  Block packet(6);
  packet.put(4, 0);
  packet.put(8, time);
  packet.put(4, bytes.size());
  packet.put(4, bytes.size());
  packet.put_padded(bytes);
  if (!comment.empty()) {
    packet.option(kOptionComment, std::as_bytes(std::span(comment)));
    packet.end_options();
  }
  out_(packet.finish());
  ++frames_;
}

}  // namespace rtrs::roce
