#pragma once

#include <expected>
#include <string_view>
#include <vector>

#include "app/prepare/kind.h"
#include "base/declare.h"
#include "files/options.h"

namespace sluice::app {

// The kind of route [[files]], and its tables.
struct FilesTables {
  static constexpr std::string_view name = "[[files]]";
  static constexpr Nouns nouns = {"folder of files", "folders of files"};
  std::vector<files::FilesOptions> files;

  template <class Visitor>
  static void declare(Visitor& v) {
    v.field("files", &FilesTables::files, "A folder of files that is served.");
  }
  static void resolve(Options& options, const config::Paths& paths);
  static void check(config::Checks& checks);
  static std::vector<Shape> shapes(const files::FilesOptions& options);
  static std::expected<void, Away> prepare(Preparation& preparation);
};

}  // namespace sluice::app
