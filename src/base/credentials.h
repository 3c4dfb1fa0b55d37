#pragma once

#include <string>
#include <string_view>

namespace sluice {

// Whether a header, parameter or field with this name holds a credential. The values of such fields must not be logged.
// These names count as credentials:
//   - those that contain accesskey, api-key, api_key, apikey, assertion, authorization, cookie, credential, csrf,
//     passwd, password, privatekey, saml, secret, session, signature, token or websocket-protocol;
//   - those with one of the words auth, bearer, jwt, key, otp, pass, passcode, passphrase, pin, pw, pwd, sid and
//     ticket, delimited by characters other than a-z and 0-9;
//   - "code" and "sig".
// `name` is a result of comparable_name().
[[nodiscard]] bool names_credential(std::string_view name);

// Converts to lower case and resolves percent escapes: "pass%77ord" becomes "password".
[[nodiscard]] std::string comparable_name(std::string_view name);

}  // namespace sluice
