#pragma once

#include <string>
#include <string_view>

namespace sluice {

// Whether a header, a parameter or a field of this name holds a credential, so that its value belongs in no log.
// These names do:
//   - those that contain accesskey, api-key, api_key, apikey, assertion, authorization, cookie, credential, csrf,
//     passwd, password, privatekey, saml, secret, session, signature, token or websocket-protocol;
//   - those with one of the words auth, bearer, jwt, key, otp, pass, passcode, passphrase, pin, pw, pwd, sid and ticket
//     between characters other than a-z and 0-9;
//   - "code" and "sig".
// `name` is compared as comparable_name() has it.
[[nodiscard]] bool names_credential(std::string_view name);

// In lower case, with percent escapes resolved: "pass%77ord" becomes "password".
[[nodiscard]] std::string comparable_name(std::string_view name);

}  // namespace sluice
