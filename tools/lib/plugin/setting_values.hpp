// Values of the plugin's parameters: each is read whole, or refused with a sentence that names its parameter,
// and then `out` is as it was.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "core/proto/ids.hpp"

namespace rtrs::nbdkit {

using Done = tl::expected<void, std::string>;

Done refuse(std::string_view key, std::string_view value, const std::string& why);

Done set_whole(std::string_view key, std::string_view value, std::uint64_t least, std::uint64_t most,
               std::uint64_t& out);
template <class Number>
Done set_number(std::string_view key, std::string_view value, std::uint64_t least, std::uint64_t most,
                Number& out) {
  std::uint64_t number = 0;
  const Done done = set_whole(key, value, least, most, number);
  if (done) out = static_cast<Number>(number);
  return done;
}

Done set_duration(std::string_view key, std::string_view value, Nanos& out);
// From `least`, whole milliseconds, to an hour: with a shorter one nothing would ever come to its end.
Done set_interval(std::string_view key, std::string_view value, Nanos least, Nanos& out);
// A duration, or "never".
Done set_timeout(std::string_view key, std::string_view value, Nanos& out);
// "on" or "off".
Done set_switch(std::string_view key, std::string_view value, bool& out);

}  // namespace rtrs::nbdkit
