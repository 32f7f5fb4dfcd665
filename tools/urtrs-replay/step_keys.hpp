// Reduces the records of a trace to the steps of its machines that `diff` compares.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tools/lib/trace/reader/reader.hpp"
#include "tools/urtrs-replay/compare.hpp"

namespace rtrs::replay_tool {

// Numbers the handles of one machine by first use, because their values are arbitrary. Knows the kMost
// handles of each kind that were used last, so that memory does not grow with the trace: an older one counts
// as new.
class HandleNames {
 public:
  static constexpr std::size_t kMost = 4096;
  std::string of(std::string_view field, const std::string& value);

 private:
  struct Kind {
    struct Handle {
      std::uint64_t value = 0;  // digest of the text
      std::uint64_t number = 0;
    };
    std::list<Handle> handles;  // the last used first
    std::unordered_map<std::uint64_t, std::list<Handle>::iterator> by_value;
    std::uint64_t count = 0;
  };
  std::map<std::string, Kind, std::less<>> kinds_;
};

// A step of a machine, to compare with a step of the other trace.
struct Step {
  std::uint64_t seq = 0;
  std::uint64_t key = 0;  // digest of the text that is compared
};

// Finds the steps of one trace. A thread has the steps of one machine, from its begin record to the next, and
// a name that is the same in both traces, such as "ClientSession 0".
class StepKeys {
 public:
  using Opened = std::function<void(const std::string& thread)>;
  // `opened` and `closed` tell which threads exist.
  StepKeys(CompareMode mode, const trace::Schema& schema, Opened opened, Opened closed);
  // Returns the thread if the record is a step that is compared. The result is valid until the next call.
  const std::string* thread(const trace::Record& record);
  // Returns the key of the record for which thread() was called last.
  Step step(const trace::Record& record);

 private:
  struct Thread {
    std::string name;
    HandleNames handles;
  };
  bool is_compared(const trace::Record& record) const;
  Thread& open(InstanceId instance, std::string name);
  Thread& thread_of(InstanceId instance);
  static std::string message(std::string_view field, std::string_view bytes, HandleNames& handles);

  CompareMode mode_;
  const trace::Schema& schema_;
  Opened opened_, closed_;
  std::map<InstanceId, Thread> threads_;
  std::map<std::string, std::uint64_t> count_;  // of the threads of each kind
};

}  // namespace rtrs::replay_tool
