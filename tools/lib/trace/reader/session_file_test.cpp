// Tests a Session that records to a file, with the code shown in docs/recording.md.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <stdexcept>

#include "backends/bindings/asio/session.hpp"
#include "conformance/asio/loop.hpp"
#include "conformance/asio/memory_server.hpp"
#include "core/record/recorder.hpp"
#include "tools/lib/files/scratch_folder.hpp"
#include "tools/lib/trace/reader/reader.hpp"

namespace rtrs::trace::test::session_file_test {
namespace {

std::unique_ptr<Fabric> open_fabric() {
  auto fabric = ofi::open_ofi_fabric({});
  if (!fabric) throw std::runtime_error(to_string(fabric.error()));
  return std::move(*fabric);
}

asio::SessionSettings settings_for(std::uint16_t port) {
  asio::SessionSettings settings;
  settings.client.session_name = "session_file_test";
  settings.client.paths = {PathAddress{"", "127.0.0.1", port}};
  settings.client.session_uuid.bytes[0] = 1;
  settings.client.path_uuids.resize(kMaxPaths);
  for (std::size_t i = 0; i < kMaxPaths; ++i)
    settings.client.path_uuids[i].bytes[0] = static_cast<std::uint8_t>(i + 2);
  return settings;
}

TEST(SessionFile, ContainsMachineRecordsAndWireNotes) {
  boost::asio::io_context context;
  sim::MemoryDisks disks;
  conformance::MemoryServer server(context, disks, {});
  const asio::SessionSettings settings = settings_for(server.port());
  const tools::ScratchFolder folder;
  const std::string path = folder / "session.rtrc";
  {
    Recorder recorder;
    trace::FileOptions file;
    file.detail = trace::Detail::wire;
    const int failed = recorder.open_file(path.c_str(), {"my program", "client", "tcp", 0, {}}, file);
    asio::Session session(context, open_fabric(), settings, &recorder);
    ASSERT_EQ(failed, 0);
    conformance::run(context, [&]() -> boost::asio::awaitable<void> {
      co_await session.async_open(boost::asio::use_awaitable);
      co_await session.async_close(boost::asio::use_awaitable);
    }());
  }
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  FdSource source(fd);
  Reader reader(source);
  ASSERT_EQ(reader.open(), Reader::Status::ok);
  Record record;
  bool wire = false;
  Reader::Status status = Reader::Status::ok;
  while ((status = reader.next(record)) == Reader::Status::ok)
    wire = wire || record.event->category == EventClass::note;
  EXPECT_EQ(status, Reader::Status::end);
  EXPECT_TRUE(wire);
  ::close(fd);
}

}  // namespace
}  // namespace rtrs::trace::test::session_file_test
