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

// [store.NAME]
struct StoreOptions {
  Located<std::string> path;  // once loaded, usable from the working directory
  Located<ByteSize> limit{10_MiB};
  std::vector<Located<std::string>> types;
  std::uint32_t uploads = 64;
  std::uint32_t cache_files = 1024;
  ByteSize cache_memory = 64_MiB;
  Located<std::string> used;
  Located<std::string> database;  // once loaded, the name of one that exists, where there is a `used`
  Duration grace = 24h;

  static std::string check_type(std::string_view text);

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("path", &StoreOptions::path,
            "The folder of the files, from the folder of the configuration file. It is made where it is missing, and "
            "nothing else belongs into it.",
            {.required = true});
    v.field("limit", &StoreOptions::limit, "The longest file: 413 beyond it, whatever `body_limit` says.",
            {.min = 1_B, .max = 1024_GiB});
    v.field(
        "types", &StoreOptions::types,
        "The media types that are taken: `image/png`, `image/*`; others are answered 415, and so is a file whose first "
        "bytes are not those of the type that it is sent as. Without it all are taken, and none is looked at.",
        {.check = check_type});
    v.field("uploads", &StoreOptions::uploads,
            "Files that each core receives at the same time, each with up to 256 KiB in memory: 503 beyond it.",
            {.min = 1, .max = 100'000});
    v.field("cache_files", &StoreOptions::cache_files, "As for [[files]].", {.max = 1'000'000});
    v.field("cache_memory", &StoreOptions::cache_memory, "As for [[files]].", {.max = 64_GiB});
    v.field("used", &StoreOptions::used,
            "The statement that selects the hashes in use, all of them, for `sluice store gc`, which deletes the other "
            "files.");
    v.field("database", &StoreOptions::database, "The database of `used`. Where there is only one, it is the default.");
    v.field(
        "grace", &StoreOptions::grace,
        "How long `sluice store gc` keeps a file that nothing uses since it was sent the last time. It must be longer "
        "than any request takes.",
        {.min = 1min, .max = 24h * 3650});
  }
};

}  // namespace sluice::files
