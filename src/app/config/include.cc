#include "app/config/include.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <glob.h>

#include "app/config/complain.h"
#include "app/config/paths.h"
#include "app/options.h"
#include "base/contains.h"
#include "core/whole_file.h"

namespace sluice::app::config {
namespace {

constexpr std::string_view wildcards = "*?[";

// Lists the keys of the file whose tables have names that the user chooses: [database.NAME].
struct NamedTables {
  template <class T>
  void field(std::string_view key, T Options::*, std::string_view, const Rules& = {}) {
    add(key, std::type_identity<T>());
  }
  template <class T>
  void add(std::string_view key, std::type_identity<std::vector<Named<T>>>) {
    keys.push_back(key);
  }
  template <class T>
  void add(std::string_view, std::type_identity<T>) {}

  std::vector<std::string_view> keys;
};

bool has_names(std::string_view key) {
  NamedTables tables;
  Options::declare(tables);
  return contains(tables.keys, key);
}

Entry* find(Value& table, std::string_view key) {
  const auto found =
      std::ranges::find(table.entries, key, [](const Entry& one) { return std::string_view(one.key.value); });
  return found == table.entries.end() ? nullptr : &*found;
}

// Sorted by name. A pattern without wildcards is a path, whether there is such a file or not.
std::vector<std::string> files_of(const std::string& pattern, const std::filesystem::path& folder) {
  if (pattern.find_first_of(wildcards) == pattern.npos) return {(folder / pattern).string()};
  std::string escaped;  // the folder's own name may have wildcards
  for (const char c : std::filesystem::path(pattern).is_absolute() ? std::string() : folder.string()) {
    if (wildcards.contains(c) || c == '\\') escaped += '\\';
    escaped += c;
  }
  glob_t found{};
  ::glob((std::filesystem::path(escaped) / pattern).c_str(), 0, nullptr, &found);
  std::vector<std::string> files(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return files;
}

}  // namespace

bool read_included(const Value& document, Source& source, std::vector<Diagnostic>& errors) {
  const std::size_t before = errors.size();
  const std::filesystem::path folder = std::filesystem::path(source.name()).parent_path();
  const auto include = std::ranges::find(document.entries, "include", [](const Entry& one) { return one.key.value; });
  if (include == document.entries.end()) return true;
  for (const Value& pattern : include->value.items) {
    if (pattern.kind != Value::Kind::string || pattern.broken) continue;
    for (const std::string& path : files_of(pattern.text, folder)) {
      if (contains(source.files().names, path)) continue;  // two patterns match it
      auto text = core::read_whole_file(path, largest_file);
      if (text) {
        source.include(path, std::move(*text));
      } else {
        errors.push_back({pattern.position, fmt::format("{} {}", path, text.error())});
      }
    }
  }
  return errors.size() == before;
}

void join(Value& document, Value included, const FileNames& files, std::vector<Diagnostic>& errors) {
  const Complain complain{errors};
  const auto refuse = [&](const std::string& name, const Entry& first, const Entry& second) {
    complain(second.key.position, fmt::format("\"{}\" comes twice", name), again(first.key.position, files));
  };
  for (Entry& entry : included.entries) {
    const std::string& key = entry.key.value;
    Entry* const present = find(document, key);
    if (key == "include") {
      complain(entry.key.position, "an included file cannot include others",
               fmt::format("name them in {}", files.names[0]));
    } else if (present == nullptr) {
      document.entries.push_back(std::move(entry));
    } else if (present->value.kind == Value::Kind::list && entry.value.kind == Value::Kind::list) {
      std::ranges::move(entry.value.items, std::back_inserter(present->value.items));
    } else if (has_names(key) && present->value.kind == Value::Kind::table && entry.value.kind == Value::Kind::table) {
      for (Entry& named : entry.value.entries) {
        if (const Entry* const first = find(present->value, named.key.value)) {
          refuse(key + "." + named.key.value, *first, named);
        } else {
          present->value.entries.push_back(std::move(named));
        }
      }
    } else {
      refuse(key, *present, entry);
    }
  }
}

}  // namespace sluice::app::config
