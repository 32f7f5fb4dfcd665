// Plugin parameters of a session. Some come from "urtrs map" and apply to this session only; others come from
// the command line of urtrs-mapd and apply to all sessions.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tools/lib/control/mapping/desired_state.hpp"

namespace rtrs::mapd {

// Returns the parameters of a session as "key=value". `given` contains the parameters for all sessions. The
// credentials in `given` are not used if the session has credentials. If `given` has both TLS credentials and
// shared keys, only those for the fabric of the session are used.
std::vector<std::string> parameters_of(const mapping::SessionWish&, const std::vector<std::string>& given);

// Inverse of parameters_of(): returns the session, without devices, that a process with the command line
// `command` serves. Returns nullopt if the command line describes no session, or if the session would not be
// valid together with `given`.
std::optional<mapping::SessionWish> wish_in(const std::vector<std::string>& command,
                                            const std::vector<std::string>& given);

// Returns the identity that the session has at its server. The identity comes from the credentials of the
// session or from those for all sessions; without credentials, it is the host name. Reads the credential
// files.
std::string identity_at_server(const mapping::SessionWish&, const std::vector<std::string>& given);

// Explains why the plugin would reject the parameters; empty if it would accept them.
std::string wrong_parameters(const mapping::SessionWish&, const std::vector<std::string>& given);
// Returns an error text for a session that is invalid or did not start; `why` is the reason. If parameters in
// `given` are the cause, the text names them, because the user of "urtrs map" did not write them.
std::string told_of(const mapping::SessionWish&, const std::vector<std::string>& given, std::string why);
// Checks the parameters for all sessions. Returns an error text if no fabric accepts them.
std::string wrong_parameters(const std::vector<std::string>& given);

}  // namespace rtrs::mapd
