#pragma once

#include <string>
#include <vector>

#include "base/declare.h"

namespace sluice::app {

// [[frames]]
struct FramesOptions {
  std::vector<Located<std::string>> listen;
  Located<bool> tls;
  Located<std::string> service;
  Located<bool> token;
  std::vector<Located<std::string>> use;
  Located<bool> is_public;
  bool access_log = true;
  Position position;

  template <class Visitor>
  static void declare(Visitor& v) {
    using Self = FramesOptions;
    v.field("listen", &Self::listen,
            "The addresses where clients connect, such as `127.0.0.1:9000`, `*:9000` and `unix:/run/chat.sock`.",
            {.required = true});
    v.field("tls", &Self::tls, "`true`: TLS with the certificates of [server.tls].");
    v.field("service", &Self::service,
            "The C++ service that handles frames, by the name under which the program has added it.",
            {.required = true});
    v.field("token", &Self::token,
            "`true`: a client's first frame must be a token, which the policies take from `Authorization: Bearer`.");
    v.field("use", &Self::use,
            "The names of the policies ([policy.NAME]) that decide about a client before its session begins, in this "
            "order. They see a request `GET /`.");
    v.field("public", &Self::is_public, "`true`: the policies of [defaults] do not apply here.");
    v.field("access_log", &Self::access_log, "`false`: the access log has no lines for these clients.");
    v.position(&Self::position);
  }
};

}  // namespace sluice::app
