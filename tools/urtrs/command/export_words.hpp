// Arguments of `urtrs export add`.
#pragma once
#include <string>

namespace rtrs::admin {

// `word`: NAME=SOURCE with options. Makes a relative file name absolute with `folder`, because urtrsd has
// another working directory. Memory, URIs and invalid words are returned unchanged.
std::string with_absolute_source(const std::string& word, const std::string& folder);

}  // namespace rtrs::admin
