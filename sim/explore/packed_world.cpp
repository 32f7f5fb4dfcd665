#include "sim/explore/packed_world.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "core/base/assert.hpp"
#include "core/base/reflect.hpp"
#include "sim/explore/field_name.hpp"

namespace rtrs::explore {

namespace {

// Zigzag encoding. Fields use all ones (-1) for "none", so that small negative numbers must be short too.
// Times are shifted, so that kNever becomes 0.
constexpr std::uint64_t kNeverIsZero = 2;
static_assert(static_cast<std::uint64_t>(kNever) * 2 + kNeverIsZero == 0);

template <class T>
std::uint64_t folded(T value) noexcept {
  using Signed = std::make_signed_t<T>;
  const auto wide = static_cast<std::int64_t>(static_cast<Signed>(value));
  const auto number = (static_cast<std::uint64_t>(wide) << 1) ^ static_cast<std::uint64_t>(wide >> 63);
  return std::is_same_v<T, Nanos> ? number + kNeverIsZero : number;
}
template <class T>
T unfolded(std::uint64_t value) noexcept {
  if constexpr (std::is_same_v<T, Nanos>) value -= kNeverIsZero;
  return static_cast<T>((value >> 1) ^ (~(value & 1) + 1));
}

// Writes numbers above 0 with a non-zero first byte. A zero byte is followed by the length of a run of zeros.
class Writer {
 public:
  explicit Writer(std::vector<std::uint8_t>& bytes) noexcept : bytes_(bytes) {}
  ~Writer() {
    if (zeros_ > 0) flush();
    bytes_.insert(bytes_.end(), part_.begin(), part_.begin() + at_);
  }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  RTRS_INLINED void put(std::uint64_t value) {
    if (value == 0)
      ++zeros_;
    else
      put_number(value);
  }

 private:
  void put_number(std::uint64_t value) {
    if (zeros_ > 0) flush();
    number(value);
  }
  void number(std::uint64_t value) {
    constexpr std::size_t kLongest = 10;  // bytes of a number
    if (at_ + static_cast<std::ptrdiff_t>(kLongest) > static_cast<std::ptrdiff_t>(part_.size())) {
      bytes_.insert(bytes_.end(), part_.begin(), part_.begin() + at_);
      at_ = 0;
    }
    std::uint8_t* out = part_.data() + at_;
    for (; value >= 0x80; value >>= 7) *out++ = static_cast<std::uint8_t>(value | 0x80);
    *out++ = static_cast<std::uint8_t>(value);
    at_ = out - part_.data();
  }
  void flush() {
    number(0);
    number(zeros_);
    zeros_ = 0;
  }
  std::vector<std::uint8_t>& bytes_;
  std::array<std::uint8_t, 512> part_;  // written bytes that are not in bytes_ yet: the first at_
  std::ptrdiff_t at_ = 0;
  std::uint64_t zeros_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) noexcept
      : at_(bytes.data()), end_(at_ + bytes.size()) {}

  RTRS_INLINED std::uint64_t get() {
    if (zeros_ > 0) {
      --zeros_;
      return 0;
    }
    return get_number();
  }
  bool at_end() const noexcept { return at_ == end_ && zeros_ == 0; }

 private:
  std::uint64_t get_number() {
    if (*at_ != 0) return number();
    ++at_;
    zeros_ = number() - 1;
    return 0;
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const std::uint8_t byte = *at_++;
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
  }
  const std::uint8_t* at_;
  const std::uint8_t* end_;
  std::uint64_t zeros_ = 0;
};

// For types whose objects are mostly unused in a small world, such as paths: one byte marks an unused object.
template <class T>
inline constexpr bool kOftenUnused = std::is_same_v<T, ClientPath> || std::is_same_v<T, ServerPath>;

template <class T>
RTRS_INLINED inline void put(Writer& out, const T& value) {
  if constexpr (kOftenUnused<T>) {
    static const T kUnused{};
    const bool unused = value == kUnused;
    out.put(unused ? 0 : 1);
    if (unused) return;
  }
  if constexpr (Reflected<T>) {
    T::visit_fields(value, [&out](FieldName name, const auto& field) RTRS_INLINED {
      if (name != "config_") put(out, field);
    });
  } else if constexpr (std::is_enum_v<T>) {
    out.put(static_cast<std::uint64_t>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    out.put(value ? 1 : 0);
  } else if constexpr (std::is_integral_v<T>) {
    out.put(folded(value));
  } else if constexpr (requires { value.bytes; }) {
    // All bytes of a uuid are equal in a machine world.
    std::uint8_t last = 0;
    for (const std::uint8_t byte : value.bytes) out.put(byte ^ std::exchange(last, byte));
  } else {
    // Stores the size of growing containers; arrays have a fixed size.
    if constexpr (requires(T & any) { any.clear(); }) out.put(value.size());
    for (const auto& item : value) put(out, item);
  }
}

template <class T>
RTRS_INLINED inline void get(Reader& in, T& value, const sim::MachineConfig& config) {
  if constexpr (kOftenUnused<T>) {
    if (in.get() == 0) {
      value = T{};
      return;
    }
  }
  if constexpr (Reflected<T>) {
    T::visit_fields(value, [&in, &config](FieldName name, auto& field) RTRS_INLINED {
      if (name != "config_") get(in, field, config);
    });
  } else if constexpr (std::is_same_v<T, bool>) {
    value = in.get() != 0;
  } else if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(in.get());
  } else if constexpr (std::is_integral_v<T>) {
    value = unfolded<T>(in.get());
  } else if constexpr (requires { value.bytes; }) {
    std::uint8_t last = 0;
    for (auto& byte : value.bytes) byte = last = static_cast<std::uint8_t>(in.get() ^ last);
  } else {
    if constexpr (std::is_same_v<T, std::vector<ServerSession>>) {
      const auto size = static_cast<std::size_t>(in.get());
      while (value.size() > size) value.pop_back();
      while (value.size() < size) value.emplace_back(config.server, static_cast<std::uint16_t>(value.size()));
    } else if constexpr (requires { value.clear(); }) {
      value.resize(static_cast<std::size_t>(in.get()));
    }
    for (auto& item : value) get(in, item, config);
  }
}

// Layout of a packed world: the end offsets of the first two sections, two bytes each; then the three
// sections.
constexpr unsigned kClient = 0;
constexpr unsigned kServer = 1;
constexpr unsigned kRest = 2;
constexpr std::size_t kLengths = 4;

template <class Field>
constexpr unsigned section_of() {
  if (std::is_same_v<Field, ClientSession>) return kClient;
  const bool server =
      std::is_same_v<Field, ServerRegistry> || std::is_same_v<Field, std::vector<ServerSession>>;
  return server ? kServer : kRest;
}

struct Sections {
  explicit Sections(std::span<const std::uint8_t> bytes) noexcept {
    if (bytes.empty()) return;
    const std::size_t client = bytes[0] | std::size_t{bytes[1]} << 8;
    const std::size_t server = bytes[2] | std::size_t{bytes[3]} << 8;
    of = {bytes.subspan(kLengths, client - kLengths), bytes.subspan(client, server - client),
          bytes.subspan(server)};
  }
  std::array<std::span<const std::uint8_t>, 3> of;
};

}  // namespace

void pack(const sim::MachineWorld& world, std::span<const std::uint8_t> before,
          std::vector<std::uint8_t>& bytes) {
  RTRS_ASSERT(world.violation() == nullptr);
  const Sections old(before);
  const std::size_t begin = bytes.size();
  bytes.resize(begin + kLengths);
  const auto add = [&]<unsigned kWhich>(bool changed) {
    if (changed || before.empty()) {
      Writer out(bytes);
      sim::MachineWorld::visit_fields(world, [&out](FieldName, const auto& field) RTRS_INLINED {
        if constexpr (section_of<std::remove_cvref_t<decltype(field)>>() == kWhich) put(out, field);
      });
    } else {
      bytes.insert(bytes.end(), old.of[kWhich].begin(), old.of[kWhich].end());
    }
    return bytes.size() - begin;
  };
  const std::size_t client = add.template operator()<kClient>(world.client_changed());
  const std::size_t server = add.template operator()<kServer>(world.server_changed());
  add.template operator()<kRest>(true);
  RTRS_ASSERT(server <= 0xffff);
  for (unsigned byte = 0; byte < 2; ++byte) {
    bytes[begin + byte] = static_cast<std::uint8_t>(client >> 8 * byte);
    bytes[begin + 2 + byte] = static_cast<std::uint8_t>(server >> 8 * byte);
  }
}

Unpacked unpack(std::span<const std::uint8_t> bytes, std::span<const std::uint8_t> before,
                sim::MachineWorld& world) {
  const Sections now(bytes);
  const Sections old(before);
  const auto restore = [&]<unsigned kWhich>() {
    if (std::equal(now.of[kWhich].begin(), now.of[kWhich].end(), old.of[kWhich].begin(),
                   old.of[kWhich].end()))
      return false;
    Reader in(now.of[kWhich]);
    sim::MachineWorld::visit_fields(world, [&](FieldName, auto& field) RTRS_INLINED {
      if constexpr (section_of<std::remove_cvref_t<decltype(field)>>() == kWhich)
        get(in, field, world.config());
    });
    RTRS_ASSERT(in.at_end());
    return true;
  };
  restore.template operator()<kRest>();
  return {restore.template operator()<kClient>(), restore.template operator()<kServer>()};
}

}  // namespace rtrs::explore
