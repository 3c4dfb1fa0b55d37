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
  bool listing = false;
  std::optional<Located<std::string>> fallback;
  bool precompressed = false;
  std::optional<Located<std::string>> cache_control;
  std::uint32_t cache_files = 1024;
  ByteSize cache_memory = 64_MiB;
  std::vector<Located<std::string>> use;
  Position position;

  static std::string check_name(std::string_view text) {
    if (text.empty() || text.find('/') != text.npos || text == "." || text == "..") return "must be the name of a file";
    return {};
  }
  static std::string check_inner_path(std::string_view text) {
    const std::string with_ends = "/" + std::string(text) + "/";
    for (const char* wrong : {"//", "/./", "/../"}) {
      if (with_ends.find(wrong) != with_ends.npos) return "must be the path of a file below the root";
    }
    return {};
  }

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("path", &FilesOptions::path, "The files are served at this path and below it.", {.required = true});
    v.field("root", &FilesOptions::root, "The folder that is served, from the folder of the configuration file.",
            {.required = true});
    v.field("index", &FilesOptions::index, "What answers for a folder: the first that exists. `[]`: nothing.",
            {.check = check_name});
    v.field("listing", &FilesOptions::listing,
            "A folder without an index answers with what is in it, as a page or, by Accept, as JSON. Names that begin "
            "with a dot are left out. `false`: 404.");
    v.field(
        "fallback", &FilesOptions::fallback,
        "A file below the root, `index.html` for most single-page apps: it answers 200 in place of 404 where Accept "
        "takes `text/html`. Where Accept only says `*/*`, paths that end in a name with a dot stay 404.",
        {.check = check_inner_path});
    v.field("precompressed", &FilesOptions::precompressed,
            "A file's `.br`, `.zst` or `.gz` beside it is sent to clients that accept it, unless it is older than the "
            "file.");
    v.field("cache_control", &FilesOptions::cache_control, "The Cache-Control of successful answers.");
    v.field(
        "cache_files", &FilesOptions::cache_files,
        "Files that each core keeps in memory (up to 64 KiB each) or open (larger ones). Each is looked at for change "
        "at most once a second. `0`: none.",
        {.max = 1'000'000});
    v.field("cache_memory", &FilesOptions::cache_memory,
            "What the files that a core keeps in memory may take together.", {.max = 64_GiB});
    v.field("use", &FilesOptions::use,
            "The names of the policies ([policy.NAME]) that a request must pass, in this order, whatever its method.");
    v.position(&FilesOptions::position);
  }
};

}  // namespace sluice::files
