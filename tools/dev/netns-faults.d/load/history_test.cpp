// Tests that the judge of the fault tests (tools/dev/netns-faults) reports each kind of violation.
#include "tools/dev/netns-faults.d/load/history.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <sstream>

#include "tools/dev/netns-faults.d/load/cell.hpp"

namespace rtrs::real::history_test {
namespace {

constexpr const char* kHead = "urtrs-history 1 0 7 4\n";

std::string refusal(const std::string& events) {
  Book book;
  std::istringstream text(kHead + events);
  const auto added = book.add(text, "load");
  return added ? "" : added.error();
}

Findings judged(const std::string& events, std::vector<std::uint32_t> image = {}) {
  Book book;
  std::istringstream text(kHead + events);
  const auto added = book.add(text, "load");
  EXPECT_TRUE(added) << added.error();
  if (!image.empty()) book.add_final_content(std::move(image));
  return book.judge();
}
std::string first_broken(const std::string& events, std::vector<std::uint32_t> image = {}) {
  const Findings found = judged(events, std::move(image));
  return found.broken.empty() ? "" : found.broken.front();
}

constexpr std::uint32_t kOne = first_id(0) + 1;
constexpr std::uint32_t kTwo = first_id(0) + 2;
const std::string one = std::to_string(kOne);
const std::string two = std::to_string(kTwo);
const std::string read = std::to_string(first_id(0) + 3);

TEST(Cell, IsIdentifiedByItsWholeContent) {
  std::vector<std::byte> cell(kCellBytes);
  EXPECT_EQ(value_of(cell, 3, 7), 0U);
  write_cell(kOne, 3, 7, cell);
  EXPECT_EQ(value_of(cell, 3, 7), kOne);
  EXPECT_FALSE(value_of(cell, 2, 7)) << "of another cell";
  EXPECT_FALSE(value_of(cell, 3, 8)) << "of another run";
  std::vector<std::byte> newer(kCellBytes);
  write_cell(kTwo, 3, 7, newer);
  std::memcpy(cell.data() + kCellBytes / 2, newer.data() + kCellBytes / 2, kCellBytes / 2);
  EXPECT_FALSE(value_of(cell, 3, 7)) << "half of the cell is from another write";
  std::vector<std::byte> zeros(kCellBytes);
  zeros.back() = std::byte{1};
  EXPECT_FALSE(value_of(zeros, 3, 7));
}

TEST(History, AcceptsReadsExplainedByWrites) {
  const Findings found = judged("w " + one + " 0 2 10\na " + one + " ok 20\nr " + read + " 0 4 30\na " +
                                read + " ok 40 " + one + " " + one + " 0 0\nend 50\n");
  EXPECT_TRUE(found.broken.empty()) << found.broken.front();
  EXPECT_EQ(found.writes, 1U);
  EXPECT_EQ(found.reads, 1U);
  EXPECT_EQ(found.compared, 4U);
}

TEST(History, FindsAnOlderWriteThatTakesEffectLate) {
  const std::string events = "w " + one + " 0 1 10\na " + one + " ok 20\nw " + two + " 0 1 30\na " + two +
                             " ok 40\nr " + read + " 0 1 50\na " + read + " ok 60 " + one + "\nend 70\n";
  EXPECT_NE(first_broken(events), "");
}

TEST(History, FindsALostWriteInTheImage) {
  const std::string events = "w " + one + " 0 1 10\na " + one + " ok 20\nend 30\n";
  EXPECT_EQ(first_broken(events, {kOne, 0, 0, 0}), "");
  EXPECT_NE(first_broken(events, {0, 0, 0, 0}), "");
  EXPECT_NE(first_broken(events, {kBroken, 0, 0, 0}), "");
  EXPECT_NE(first_broken(events, {kOne, 0, kTwo, 0}), "") << "no client wrote this value";
}

TEST(History, WriteWithoutAnAnswerMayTakeEffectAtAnyTime) {
  const std::string begun = "w " + one + " 0 1 10\n";
  const std::string newer = "w " + two + " 0 1 30\na " + two + " ok 40\n";
  EXPECT_EQ(first_broken(begun + newer, {kOne, 0, 0, 0}), "") << "killed before its answer";
  const std::string gone = begun + "a " + one + " gone 5 20\n" + newer + "end 50\n";
  EXPECT_EQ(first_broken(gone, {kOne, 0, 0, 0}), "");
  const std::string refused = begun + "a " + one + " peer 28 20\n" + newer + "end 50\n";
  EXPECT_NE(first_broken(refused, {kOne, 0, 0, 0}), "") << "the server had failed the write";
}

TEST(History, RequiresOneAnswerPerRequest) {
  EXPECT_NE(first_broken("w " + one + " 0 1 10\nend 20\n"), "");
  EXPECT_EQ(judged("w " + one + " 0 1 10\n").unanswered, 1U);
  EXPECT_NE(refusal("w " + one + " 0 1 10\na " + one + " ok 20\na " + one + " ok 30\n"), "");
  EXPECT_NE(refusal("a " + one + " ok 20\n"), "");
}

TEST(History, FindsAnInvalidCell) {
  EXPECT_NE(first_broken("r " + read + " 0 1 10\na " + read + " ok 20 x\nend 30\n"), "");
}

TEST(History, OrdersEventsOfAllClientsByTime) {
  Book book;
  const std::string other = std::to_string(first_id(1) + 1);
  std::istringstream first(kHead + ("w " + one + " 0 1 10\na " + one + " ok 20\nend 30\n"));
  std::istringstream second("urtrs-history 1 1 7 4\nw " + other + " 0 1 40\na " + other + " ok 50\nend 60\n");
  std::istringstream again(kHead);
  ASSERT_TRUE(book.add(first, "first"));
  ASSERT_TRUE(book.add(second, "second"));
  EXPECT_FALSE(book.add(again, "again")) << "the same client";
  book.add_final_content({first_id(1) + 1, 0, 0, 0});
  EXPECT_TRUE(book.judge().broken.empty());
  book.add_final_content({kOne, 0, 0, 0});
  EXPECT_FALSE(book.judge().broken.empty());
}

TEST(History, RefusesInvalidHistories) {
  for (const char* events : {"w 1 0 1 10\n", "x\n", "w\n", "end 1\nend 2\n"})
    EXPECT_NE(refusal(events), "") << events;
  EXPECT_NE(refusal("w " + one + " 3 2 10\n"), "") << "beyond the last cell";
  EXPECT_NE(refusal("r " + read + " 0 1 10\na " + read + " ok 20\n"), "") << "a read without its value";
  EXPECT_NE(refusal("r " + read + " 0 1 10\na " + read + " ok 20 -1\n"), "");
  EXPECT_EQ(refusal("w " + one + " 0 1 10\na " + one + " ok"), "") << "truncated when the process died";
  Book book;
  std::istringstream empty("");
  EXPECT_FALSE(book.add(empty, "empty"));
}

}  // namespace
}  // namespace rtrs::real::history_test
