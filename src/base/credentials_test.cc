#include "base/credentials.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(Credentials, ByTheirNames) {
  for (const char* name : {"Authorization",
                           "Proxy-Authorization",
                           "Cookie",
                           "token",
                           "access_token",
                           "id_token",
                           "X-CSRF-Token",
                           "secret",
                           "client_secret",
                           "password",
                           "sslpassword",
                           "PassWord",
                           "passwd",
                           "api_key",
                           "apikey",
                           "X-API-Key",
                           "session",
                           "X-Auth",
                           "X-Auth-Key",
                           "X-Access-Key",
                           "X-Jwt",
                           "Private-Key",
                           "X-Passphrase",
                           "x_pass",
                           "key",
                           "PWD",
                           "sig",
                           "code",
                           "user.password",
                           "pass%77ord",
                           "%74oken",
                           "x-api%2Dkey",
                           "By-pass-through-",
                           "sid",
                           "pw",
                           "bearer",
                           "otp",
                           "pin",
                           "accessKey",
                           "privatekey",
                           "client_assertion",
                           "SAMLResponse",
                           "ticket",
                           "Sec-WebSocket-Protocol",
                           "X-CSRF"}) {
    EXPECT_TRUE(names_credential(name)) << name;
  }
  for (const char* name : {"Author",
                           "X-Authenticated-User",
                           "Keep-Alive",
                           "monkey",
                           "keys",
                           "X-Passenger",
                           "-",
                           "",
                           "Host",
                           "X-Code",
                           "country_code",
                           "Accept",
                           "X-Bypass",
                           "spin",
                           "inside",
                           "tickets",
                           "%",
                           "%4",
                           "%zz",
                           "%7"}) {
    EXPECT_FALSE(names_credential(name)) << name;
  }
}

}  // namespace
}  // namespace sluice
