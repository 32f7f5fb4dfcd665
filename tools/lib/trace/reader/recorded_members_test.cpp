// Checks that RTRS_FIELDS lists every member. A missing member is not recorded, so the replayed state machine
// would have another value for it than the recorded machine.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <type_traits>

#include "core/base/reflect.hpp"
#include "core/base/test_members.hpp"
#include "core/proto/config.hpp"
#include "core/record/kinds.hpp"

namespace rtrs::trace::recorded_members_test {
namespace {

using rtrs::test::members;

// Collects events, and structs in events, whose field list lacks members.
class Incomplete {
 public:
  template <class T>
  void look(const std::string& name) {
    static_assert(std::is_aggregate_v<T>);
    T value{};
    std::size_t listed = 0;
    T::visit_fields(value, [&]<class Field>(const char* field, Field&) {
      ++listed;
      if constexpr (Reflected<Field>) look<Field>(name + "." + field);
    });
    std::size_t expected = members<T>();
    // Two exceptions: a ConKey records path and session as one number, and an event with a ticket records
    // each member of the ticket.
    if constexpr (std::is_same_v<T, ConKey>) --expected;
    if constexpr (requires { value.ticket; }) expected += members<rnbd::IoTicket>() - 1;
    if (listed != expected)
      names += name + ": " + std::to_string(expected) + " members, " + std::to_string(listed) + " recorded\n";
  }

  std::string names;
};

struct Forgetful {
  int first = 0;
  HeartbeatConfig nested;
  int forgotten = 0;
  RTRS_FIELDS(first, nested)
};

TEST(RecordedMembers, EveryMemberOfEveryEventIsRecorded) {
  Incomplete incomplete;
#define LOOK(number, event_class, type) incomplete.look<type>(#type);
  RTRS_TRACE_EVENTS(LOOK)
  RTRS_TRACE_LONG(LOOK)
#undef LOOK
  EXPECT_EQ(incomplete.names, "");
}

TEST(RecordedMembers, UnlistedMemberIsReported) {
  Incomplete incomplete;
  incomplete.look<Forgetful>("Forgetful");
  EXPECT_EQ(incomplete.names, "Forgetful: 3 members, 2 recorded\n");
}

}  // namespace
}  // namespace rtrs::trace::recorded_members_test
