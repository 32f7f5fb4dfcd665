// Converts a device name to text. Names are arbitrary bytes of the user or a peer; texts of a trace are
// UTF-8.
#pragma once
#include <string_view>

#include "core/base/inline_blob.hpp"
#include "core/wire/messages.hpp"

namespace rtrs::trace {

// One byte more than a valid name, so that the record shows that a name is too long. An escaped byte takes
// four characters.
inline constexpr std::size_t kMaxNameText = 4 * (wire::kMaxNameBytes + 1);
using NameText = InlineText<kMaxNameText>;

// Doubles backslashes. In a name that is not UTF-8, every byte of 0x80 or above becomes \xHH.
NameText name_text(std::string_view name) noexcept;

}  // namespace rtrs::trace
