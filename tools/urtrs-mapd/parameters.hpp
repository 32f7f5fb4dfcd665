// Plugin parameters of a session: from "urtrs map" for this session, and from the command line of urtrs-mapd
// for all sessions.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "tools/lib/control/mapping/desired_state.hpp"

namespace rtrs::mapd {

// Returns the parameters as "key=value". `given`: parameters for all sessions. If the session has its own
// credentials, those in `given` are not used. If `given` has both TLS credentials and shared keys, only the
// kind for the fabric of the session is used.
std::vector<std::string> parameters_of(const mapping::SessionWish&, const std::vector<std::string>& given);

// Inverse of parameters_of(): the session, without devices, of a process that was started with `command`.
// nullopt if the command does not contain it, or if it is not valid together with `given`.
std::optional<mapping::SessionWish> wish_in(const std::vector<std::string>& command,
                                            const std::vector<std::string>& given);

// Identity of the session at its server, from its own credentials or those for all sessions; the host name if
// there are none. Reads the credential files.
std::string identity_at_server(const mapping::SessionWish&, const std::vector<std::string>& given);

// Returns a sentence that says why the plugin rejects the parameters; empty if it accepts them.
std::string wrong_parameters(const mapping::SessionWish&, const std::vector<std::string>& given);
// Error text for a session that is invalid or did not start because of `why`. If parameters in `given` caused
// the error, the text names them, because the user of "urtrs map" did not write them.
std::string told_of(const mapping::SessionWish&, const std::vector<std::string>& given, std::string why);
// Checks parameters for all sessions: returns an error text if no fabric accepts them.
std::string wrong_parameters(const std::vector<std::string>& given);

}  // namespace rtrs::mapd
