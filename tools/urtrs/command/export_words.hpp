// What `urtrs export add` sends of its words.
#pragma once
#include <string>

namespace rtrs::admin {

// NAME=SOURCE with its options. A file that is relative to `folder` has its whole path then, because urtrsd
// works in another folder; memory and URIs stay as they are, and so does what is no such word.
std::string with_absolute_source(const std::string& word, const std::string& folder);

}  // namespace rtrs::admin
