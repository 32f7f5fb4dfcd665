#include "sim/explore/packed_world.hpp"

#include <string_view>
#include <type_traits>

#include "core/base/assert.hpp"
#include "core/base/reflect.hpp"

namespace rtrs::explore {

namespace {

// Zigzag encoding. Fields use all ones (-1) for "never" and "none", so that small negative numbers must be
// short too.
template <class T>
std::uint64_t folded(T value) noexcept {
  using Signed = std::make_signed_t<T>;
  const auto wide = static_cast<std::int64_t>(static_cast<Signed>(value));
  return (static_cast<std::uint64_t>(wide) << 1) ^ static_cast<std::uint64_t>(wide >> 63);
}
template <class T>
T unfolded(std::uint64_t value) noexcept {
  return static_cast<T>((value >> 1) ^ (~(value & 1) + 1));
}

// Writes numbers above 0 with a non-zero first byte. A zero byte is followed by the length of a run of zeros.
class Writer {
 public:
  explicit Writer(std::vector<std::uint8_t>& bytes) noexcept : bytes_(bytes) {}
  ~Writer() { flush(); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void put(std::uint64_t value) {
    if (value == 0) {
      ++zeros_;
      return;
    }
    flush();
    number(value);
  }

 private:
  void number(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<std::uint8_t>(value | 0x80));
    bytes_.push_back(static_cast<std::uint8_t>(value));
  }
  void flush() {
    if (zeros_ == 0) return;
    bytes_.push_back(0);
    number(zeros_);
    zeros_ = 0;
  }
  std::vector<std::uint8_t>& bytes_;
  std::uint64_t zeros_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) noexcept : bytes_(bytes) {}

  std::uint64_t get() {
    if (zeros_ > 0) {
      --zeros_;
      return 0;
    }
    if (bytes_[at_] != 0) return number();
    ++at_;
    zeros_ = number() - 1;
    return 0;
  }
  bool at_end() const noexcept { return at_ == bytes_.size() && zeros_ == 0; }

 private:
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const std::uint8_t byte = bytes_[at_++];
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
  }
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  std::uint64_t zeros_ = 0;
};

// For types whose objects are mostly unused in a small world, such as paths: one byte marks an unused object.
template <class T>
inline constexpr bool kOftenUnused = std::is_same_v<T, ClientPath> || std::is_same_v<T, ServerPath>;

template <class T>
void put(Writer& out, const T& value) {
  if constexpr (kOftenUnused<T>) {
    const bool unused = value == T{};
    out.put(unused ? 0 : 1);
    if (unused) return;
  }
  if constexpr (Reflected<T>) {
    T::visit_fields(value, [&out](const char* name, const auto& field) {
      if (std::string_view(name) != "config_") put(out, field);
    });
  } else if constexpr (std::is_enum_v<T>) {
    out.put(static_cast<std::uint64_t>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    out.put(value ? 1 : 0);
  } else if constexpr (std::is_integral_v<T>) {
    out.put(folded(value));
  } else if constexpr (requires { value.bytes; }) {
    for (const auto byte : value.bytes) out.put(byte);
  } else {
    // Stores the size of growing containers; arrays have a fixed size.
    if constexpr (requires(T & any) { any.clear(); }) out.put(value.size());
    for (const auto& item : value) put(out, item);
  }
}

template <class T>
void get(Reader& in, T& value, const sim::MachineConfig& config) {
  if constexpr (kOftenUnused<T>) {
    if (in.get() == 0) {
      value = T{};
      return;
    }
  }
  if constexpr (Reflected<T>) {
    T::visit_fields(value, [&in, &config](const char* name, auto& field) {
      if (std::string_view(name) != "config_") get(in, field, config);
    });
  } else if constexpr (std::is_same_v<T, bool>) {
    value = in.get() != 0;
  } else if constexpr (std::is_enum_v<T>) {
    value = static_cast<T>(in.get());
  } else if constexpr (std::is_integral_v<T>) {
    value = unfolded<T>(in.get());
  } else if constexpr (requires { value.bytes; }) {
    for (auto& byte : value.bytes) byte = static_cast<std::uint8_t>(in.get());
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

}  // namespace

void pack(const sim::MachineWorld& world, std::vector<std::uint8_t>& bytes) {
  RTRS_ASSERT(world.violation() == nullptr);
  Writer out(bytes);
  put(out, world);
}

void unpack(std::span<const std::uint8_t> bytes, sim::MachineWorld& world) {
  Reader in(bytes);
  get(in, world, world.config());
  RTRS_ASSERT(in.at_end());
}

}  // namespace rtrs::explore
