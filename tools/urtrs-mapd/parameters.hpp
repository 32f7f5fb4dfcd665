// The parameters of the plugin for a session: what "urtrs map" said of it, and what urtrs-mapd was given for
// all.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tools/lib/control/mapping/wishes.hpp"

namespace rtrs::mapd {

// "key=value" each. `given`: for all sessions. A session with credentials of its own has none of theirs; and
// where they have both those of TLS and shared keys, it has those that are of its fabric.
std::vector<std::string> parameters_of(const mapping::SessionWish&, const std::vector<std::string>& given);

// The way back: the session, without devices, of a process that was started with `command`. Nothing: that
// says it not, or no session can be so with what is `given` now.
std::optional<mapping::SessionWish> wish_in(const std::vector<std::string>& command,
                                            const std::vector<std::string>& given);

// Identity that the session shows to its server, by its own credentials or those for all; the host name if it
// has none. Reads the files of the credentials.
std::string shown_as(const mapping::SessionWish&, const std::vector<std::string>& given);

// Nothing, or what the plugin will not take, as a sentence.
std::string wrong_parameters(const mapping::SessionWish&, const std::vector<std::string>& given);
// What to tell of a session that cannot be or did not start, `why`: where that is for something that is
// `given` to urtrs-mapd, this is named, because who maps the session has not said it.
std::string told_of(const mapping::SessionWish&, const std::vector<std::string>& given, std::string why);
// Of those for all: what no session can have.
std::string wrong_parameters(const std::vector<std::string>& given);

}  // namespace rtrs::mapd
