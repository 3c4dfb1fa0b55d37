#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/declare.h"

namespace sluice::api::openapi {

// [openapi]
struct Options {
  Located<std::string> path{"/openapi.json"};
  std::optional<Located<std::string>> explorer;
  Located<std::string> title{"API"};
  Located<std::string> version{"1"};
  Located<std::string> description;
  std::vector<Located<std::string>> servers;
  std::vector<Located<std::string>> use;
  Located<bool> is_public;
  bool access_log = true;
  Position position;

  // Text that JSON cannot hold is refused earlier, when the file is read.
  static std::string check_text(std::string_view text) { return text.empty() ? "must not be empty" : ""; }

  static std::string check_server(std::string_view text) {
    const bool url = text.starts_with("https://") || text.starts_with("http://") || text.starts_with('/');
    return url && !text.contains(' ') ? "" : "must be a URL, or a path that begins with /";
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("path", &Options::path, "The path that serves the description, as JSON.", {.check = check_text});
    v.field("explorer", &Options::explorer,
            "The path of a web page that shows the endpoints and sends requests to them, such as `/explore`. Without "
            "the key there is no page.",
            {.check = check_text});
    v.field("title", &Options::title, "The name of the API.", {.check = check_text});
    v.field("version", &Options::version, "The version of the API. Any text is allowed.", {.check = check_text});
    v.field("description", &Options::description, "The purpose of the API, in Markdown.");
    v.field("servers", &Options::servers,
            "The URLs at which clients reach the API, such as `https://api.example.com`. Without it, `/`: the server "
            "that serves the description.",
            {.check = check_server});
    v.field("use", &Options::use,
            "The names of the policies ([policy.NAME]) that apply to a request for the description, in this order.");
    v.field("public", &Options::is_public, "`true`: the policies of [defaults] do not apply here.");
    v.field("access_log", &Options::access_log, "`false`: the access log has no lines for these requests.");
    v.position(&Options::position);
  }
};

}  // namespace sluice::api::openapi
