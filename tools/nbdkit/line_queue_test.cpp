#include "tools/nbdkit/line_queue.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace rtrs::nbdkit::line_queue_test {
namespace {

// Receives the printed lines. Its print function blocks until read() is called.
class Reader {
 public:
  void take(bool important, const std::string& line) {
    std::unique_lock lock(mutex_);
    ++offered_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return reads_; });
    lines_.push_back((important ? "! " : "  ") + line);
    changed_.notify_all();
  }
  void read() {
    const std::lock_guard lock(mutex_);
    reads_ = true;
    changed_.notify_all();
  }
  void stop_reading() {
    const std::lock_guard lock(mutex_);
    reads_ = false;
  }
  // Waits until the print function was called `count` times. The last call may still be blocked.
  void wait_until_offered(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return offered_ >= count; });
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
  std::size_t offered_ = 0;
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

TEST(LineQueueTest, StampsALineWhenItIsPushed) {
  const auto reader = std::make_shared<Reader>();
  int time = 0;
  LineQueue queue(into(reader), std::chrono::seconds(1), [&time] { return std::to_string(time) + "s "; });
  queue.push(true, "first");
  time = 5;
  queue.push(false, "second");
  time = 9;
  reader->read();
  EXPECT_EQ(reader->wait_for(2), (std::vector<std::string>{"! 0s first", "  5s second"}));
}

TEST(LineQueueTest, PushDoesNotBlockAndDroppedLinesAreCounted) {
  const auto reader = std::make_shared<Reader>();
  LineQueue queue(into(reader));
  // The queue keeps its capacity, and the thread may already have taken one more line.
  const std::size_t kept = LineQueue::kCapacity + 1;
  for (std::size_t i = 0; i < kept + 100; ++i) queue.push(false, std::to_string(i));
  reader->read();
  const auto lines = reader->wait_for(LineQueue::kCapacity + 1);
  EXPECT_EQ(lines[0], "  0");
  EXPECT_EQ(lines[LineQueue::kCapacity - 1], "  " + std::to_string(LineQueue::kCapacity - 1));
  const auto all = reader->wait_for(LineQueue::kCapacity + 1);
  const bool counted =
      all.back().find("lines were dropped") != std::string::npos ||
      reader->wait_for(LineQueue::kCapacity + 2).back().find("lines were dropped") != std::string::npos;
  EXPECT_TRUE(counted);
}

TEST(LineQueueTest, EachDroppedLineIsCountedOnce) {
  const auto reader = std::make_shared<Reader>();
  LineQueue queue(into(reader));
  std::size_t printed = 0;
  for (const std::size_t left_out : {100U, 7U}) {
    reader->stop_reading();
    queue.push(false, "first");
    reader->wait_until_offered(printed + 1);
    for (std::size_t i = 0; i < LineQueue::kCapacity + left_out; ++i) queue.push(false, "line");
    reader->read();
    printed += 1 + LineQueue::kCapacity + 1;
    EXPECT_EQ(reader->wait_for(printed).at(printed - 1),
              "! " + std::to_string(left_out) + " lines were dropped, because the log was not read in time");
    // Queues the lines one by one, so that the queue is empty before each line.
    for (const std::string later : {"second", "third"}) {
      queue.push(false, later);
      ++printed;
      EXPECT_EQ(reader->wait_for(printed).at(printed - 1), "  " + later);
    }
  }
}

TEST(LineQueueTest, LinesCausedByClientsAreRateLimitedAndCounted) {
  const auto reader = std::make_shared<Reader>();
  reader->read();
  {
    LineQueue queue(into(reader));
    for (int i = 0; i < 30; ++i) queue.push(LineQueue::Flood::failed_request, "failed");
    queue.push(LineQueue::Flood::refused_export, "refused");
  }
  const auto lines = reader->wait_for(22);
  EXPECT_EQ(std::ranges::count(lines, "! failed"), 20);
  EXPECT_EQ(std::ranges::count(lines, "! refused"), 1);
  EXPECT_EQ(std::ranges::count(lines, "! 10 more requests failed within 10 s"), 1);
}

TEST(LineQueueTest, DestructorDoesNotWaitForAnUnreadLine) {
  const auto reader = std::make_shared<Reader>();
  {
    LineQueue queue(into(reader), std::chrono::milliseconds(1));
    for (int i = 0; i < 10; ++i) queue.push(true, "line");
  }
  reader->read();
  EXPECT_EQ(reader->wait_for(10).size(), 10U);
}

}  // namespace
}  // namespace rtrs::nbdkit::line_queue_test
