// Arguments of `urtrs export add`.
#pragma once
#include <string>

namespace rtrs::admin {

// Makes a relative file name in `word` absolute with `folder`, because urtrsd has a different working
// directory. `word` is NAME=SOURCE with options. Memory, URIs and invalid words are returned unchanged.
std::string with_absolute_source(const std::string& word, const std::string& folder);

}  // namespace rtrs::admin
