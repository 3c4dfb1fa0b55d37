#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/declare.h"

namespace sluice::files {

// [[files]]
struct FilesOptions {
  Located<std::string> path;
  Located<std::string> root;  // once loaded, usable from the working directory
  std::vector<std::string> index = {"index.html"};
  std::optional<Located<std::string>> cache_control;
  Position position;

  static std::string check_name(std::string_view text) {
    if (text.empty() || text.find('/') != text.npos || text == "." || text == "..") return "must be the name of a file";
    return {};
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("path", &FilesOptions::path, "The files are served at this path and below it.", {.required = true});
    v.field("root", &FilesOptions::root, "The folder that is served, from the folder of the configuration file.",
            {.required = true});
    v.field("index", &FilesOptions::index, "What answers for a folder: the first that exists. `[]`: nothing, 404.",
            {.check = check_name});
    v.field("cache_control", &FilesOptions::cache_control, "The Cache-Control of successful answers.");
    v.position(&FilesOptions::position);
  }
};

}  // namespace sluice::files
