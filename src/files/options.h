#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/declare.h"
#include "base/host.h"

namespace sluice::files {

// [[files]]
struct FilesOptions {
  Located<std::string> path;
  Located<std::string> host;
  Located<std::string> root;  // after loading: relative to the working directory
  std::vector<std::string> index = {"index.html"};
  bool dotfiles = false;
  bool listing = false;
  std::optional<Located<std::string>> fallback;
  bool precompressed = false;
  std::optional<Located<std::string>> cache_control;
  std::uint32_t cache_files = 1024;
  ByteSize cache_memory = 64_MiB;
  std::vector<Located<std::string>> use;
  Located<bool> is_public;
  bool access_log = true;
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
    v.field("host", &FilesOptions::host, host_meaning, {.check = check_host});
    v.field("root", &FilesOptions::root,
            "The folder that is served. A relative path starts at the folder of the configuration file.",
            {.required = true});
    v.field("index", &FilesOptions::index,
            "The files that answer for a folder; the first one that exists is used. `[]`: none.",
            {.check = check_name});
    v.field("dotfiles", &FilesOptions::dotfiles,
            "Whether files and folders with a name that begins with a dot are served. `false`: they answer 404, except "
            "for the folder `.well-known` of the root.");
    v.field("listing", &FilesOptions::listing,
            "Whether a folder without an index file answers with a list of its contents, as a page or, if Accept "
            "asks for it, as JSON. Names that begin with a dot are not listed. `false`: such a folder answers 404.");
    v.field("fallback", &FilesOptions::fallback,
            "A file below the root, `index.html` for most single-page apps. It is sent with 200 in place of a 404 if "
            "Accept includes `text/html`. If Accept is only `*/*`, it is sent only for paths whose last segment has "
            "no dot, and not in the folder of an endpoint, table or route unless that is `/`. Below their paths it is "
            "never sent.",
            {.check = check_inner_path});
    v.field("precompressed", &FilesOptions::precompressed,
            "Whether clients that accept the coding get the `.br`, `.zst` or `.gz` file that lies beside a file, "
            "unless it is older than that file.");
    v.field("cache_control", &FilesOptions::cache_control, "The Cache-Control field of successful answers.");
    v.field("cache_files", &FilesOptions::cache_files,
            "How many files each core keeps in memory (up to 64 KiB each) or open (larger ones). Each is checked for "
            "changes at most once a second. `0`: none.",
            {.max = 1'000'000});
    v.field("cache_memory", &FilesOptions::cache_memory,
            "How much memory the files that each core keeps in memory may take together.", {.max = 64_GiB});
    v.field("use", &FilesOptions::use,
            "The names of the policies ([policy.NAME]) that apply to a request, in this order, whatever its method.");
    v.field("public", &FilesOptions::is_public, "`true`: the policies of [defaults] do not apply here.");
    v.field("access_log", &FilesOptions::access_log, "`false`: the access log has no lines for these requests.");
    v.position(&FilesOptions::position);
  }
};

// [store.NAME]
struct StoreOptions {
  Located<std::string> path;  // after loading: relative to the working directory
  Located<ByteSize> limit{10_MiB};
  std::vector<Located<std::string>> types;
  std::uint32_t uploads = 64;
  std::uint32_t cache_files = 1024;
  ByteSize cache_memory = 64_MiB;
  Located<std::string> used;
  Located<std::string> database;  // after loading: if `used` is set, the name of an existing database
  Duration grace = 24h;

  static std::string check_type(std::string_view text);

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("path", &StoreOptions::path,
            "The folder for the files. A relative path starts at the folder of the configuration file. The folder is "
            "created if it is missing. It must hold nothing else.",
            {.required = true});
    v.field("limit", &StoreOptions::limit,
            "The longest file. A longer one is answered 413. `body_limit` does not apply to files of a store.",
            {.min = 1_B, .max = 1024_GiB});
    v.field("types", &StoreOptions::types,
            "The media types that are accepted: `image/png`, `image/*`. Files of other types are answered 415, as "
            "are files whose first bytes do not match the type that they are sent as. Without it, all types are "
            "accepted and the bytes are not checked.",
            {.check = check_type});
    v.field("uploads", &StoreOptions::uploads,
            "How many files each core receives at the same time, with up to 256 KiB of memory for each. Further ones "
            "are answered 503.",
            {.min = 1, .max = 100'000});
    v.field("cache_files", &StoreOptions::cache_files, "As for [[files]].", {.max = 1'000'000});
    v.field("cache_memory", &StoreOptions::cache_memory, "As for [[files]].", {.max = 64_GiB});
    v.field("used", &StoreOptions::used,
            "The statement that selects the hashes of all files in use. `sluice store gc` deletes the other files.");
    v.field("database", &StoreOptions::database,
            "The database of `used`. If there is only one database, it is the default.");
    v.field("grace", &StoreOptions::grace,
            "How long `sluice store gc` keeps an unused file after it was last uploaded. It must be longer than any "
            "request takes.",
            {.min = 1min, .max = 24h * 3650});
  }
};

}  // namespace sluice::files
