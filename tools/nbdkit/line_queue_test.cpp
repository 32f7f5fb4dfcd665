#include "tools/nbdkit/line_queue.hpp"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <vector>

namespace rtrs::nbdkit {
namespace {

// A reader that takes nothing until it is let go.
class Reader {
 public:
  void take(bool important, const std::string& line) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return reads_; });
    lines_.push_back((important ? "! " : "  ") + line);
    changed_.notify_all();
  }
  void read() {
    const std::lock_guard lock(mutex_);
    reads_ = true;
    changed_.notify_all();
  }
  std::vector<std::string> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return lines_.size() >= count; });
    return lines_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
  bool reads_ = false;
};

LineQueue::Print into(const std::shared_ptr<Reader>& reader) {
  return [reader](bool important, const std::string& line) { reader->take(important, line); };
}

TEST(LineQueueTest, PrintsInOrder) {
  const auto reader = std::make_shared<Reader>();
  reader->read();
  LineQueue queue(into(reader));
  queue.push(true, "first");
  queue.push(false, "second");
  EXPECT_EQ(reader->wait_for(2), (std::vector<std::string>{"! first", "  second"}));
}

TEST(LineQueueTest, PushReturnsWhereNobodyReadsAndWhatWasLeftOutIsCounted) {
  const auto reader = std::make_shared<Reader>();
  LineQueue queue(into(reader));
  // The thread may have taken the first line out of the queue already.
  const std::size_t kept = LineQueue::kCapacity + 1;
  for (std::size_t i = 0; i < kept + 100; ++i) queue.push(false, std::to_string(i));
  reader->read();
  const auto lines = reader->wait_for(LineQueue::kCapacity + 1);
  EXPECT_EQ(lines[0], "  0");
  EXPECT_EQ(lines[LineQueue::kCapacity - 1], "  " + std::to_string(LineQueue::kCapacity - 1));
  const auto all = reader->wait_for(LineQueue::kCapacity + 1);
  const bool counted =
      all.back().find("more lines were left out") != std::string::npos ||
      reader->wait_for(LineQueue::kCapacity + 2).back().find("more lines were left out") != std::string::npos;
  EXPECT_TRUE(counted);
}

TEST(LineQueueTest, EndsWithLinesThatNobodyReads) {
  const auto reader = std::make_shared<Reader>();
  {
    LineQueue queue(into(reader), std::chrono::milliseconds(1));
    for (int i = 0; i < 10; ++i) queue.push(true, "line");
  }
  reader->read();
  EXPECT_EQ(reader->wait_for(10).size(), 10U);
}

}  // namespace
}  // namespace rtrs::nbdkit
