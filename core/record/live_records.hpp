// Passes each record of a recorder to a listener at once: the listener gets the records that a reader of the
// file would get, without encoding, checksums or a file.
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/record/codec.hpp"

namespace rtrs::trace {

class Listener {
 public:
  virtual ~Listener() = default;
  // Receives a record (schema: builtin_schema()), borrowed until the call returns. `fields` is
  // empty and `offset` is 0, because nothing is encoded.
  virtual void on(const Record&) = 0;
};

// Numbers the records from 0 and gives actions the time of the input before them, as a file does.
class LiveRecords {
 public:
  explicit LiveRecords(Listener& listener) noexcept : listener_(listener) {}  // borrowed
  // `value` points to an object of the type of built-in kind `kind`.
  void append(KindId kind, InstanceId instance, const void* value);
  template <class Note>
  void append_note(InstanceId instance, const Note& note) {
    tell(instance, note);
  }

 private:
  template <class T>
  void tell(InstanceId instance, const T& value);

  Listener& listener_;
  std::uint64_t next_ = 0;
  Nanos time_ = 0;
};

}  // namespace rtrs::trace
