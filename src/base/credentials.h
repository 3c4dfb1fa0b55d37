#pragma once

#include <string>
#include <string_view>

namespace sluice {

// Whether a header, a parameter or a field of this name holds a credential, so that its value belongs in no log.
// These names do:
//   - those that contain authorization, cookie, token, secret, password, passwd, apikey, api-key, api_key, session,
//     signature or credential;
//   - those with one of the words auth, jwt, key, pass, passphrase, passcode and pwd between hyphens, underscores and
//     dots;
//   - "code" and "sig".
// `name` is compared as comparable_name() has it.
[[nodiscard]] bool names_credential(std::string_view name);

// In lower case, with percent escapes resolved: whoever reads "pass%77ord" reads "password".
[[nodiscard]] std::string comparable_name(std::string_view name);

}  // namespace sluice
