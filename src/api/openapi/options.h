#pragma once

#include <string>
#include <vector>

#include "base/declare.h"

namespace sluice::api::openapi {

// [openapi]
struct Options {
  Located<std::string> path{"/openapi.json"};
  Located<std::string> title{"API"};
  Located<std::string> version{"1"};
  Located<std::string> description;
  std::vector<Located<std::string>> servers;
  std::vector<Located<std::string>> use;
  Position position;

  // What a JSON document cannot hold is found when the file is read.
  static std::string check_text(std::string_view text) { return text.empty() ? "must not be empty" : ""; }

  static std::string check_server(std::string_view text) {
    const bool url = text.starts_with("https://") || text.starts_with("http://") || text.starts_with('/');
    return url && !text.contains(' ') ? "" : "must be a URL, or a path that begins with /";
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("path", &Options::path, "Where the description is served, as JSON.", {.check = check_text});
    v.field("title", &Options::title, "What the API is called.", {.check = check_text});
    v.field("version", &Options::version, "The version of the API, in its owner's own words.", {.check = check_text});
    v.field("description", &Options::description, "What the API is for; Markdown.");
    v.field(
        "servers", &Options::servers,
        "The URLs at which clients reach the API, such as `https://api.example.com`. Without it `/`: the server that "
        "the description comes from.",
        {.check = check_server});
    v.field("use", &Options::use,
            "The names of the policies ([policy.NAME]) that a request for the description must pass, in this order.");
    v.position(&Options::position);
  }
};

}  // namespace sluice::api::openapi
