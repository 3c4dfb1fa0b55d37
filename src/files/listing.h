#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>

#include "files/file.h"

namespace sluice::files {

// What is in a folder, as a page or as JSON:
//
//   {"path":"/docs/","entries":[{"name":"a.txt","href":"a.txt","type":"file","size":4,
//    "modified":"2026-01-31T12:00:00Z"},{"name":"img","href":"img/","type":"folder", ...}],"complete":true}
//
// Folders come first, both are sorted by name. What could not be had is not shown: links that lead out, devices; nor
// are names that begin with a dot.
enum class ListingFormat : std::uint8_t { html, json };

// The most that is shown of one folder; a listing says when there is more.
inline constexpr std::size_t most_listed = 4096;

// Reads the folder, so it waits for the disk. `folder` is its path beneath the root, empty or ending in '/'; `shown` is
// the path that the client knows it by. Gives a file in memory: `known`, where nothing has changed. An error is an
// errno.
[[nodiscard]] std::expected<std::shared_ptr<const File>, int> list_folder(const Root& root, const std::string& folder,
                                                                          std::string_view shown, ListingFormat format,
                                                                          const std::shared_ptr<const File>& known);

}  // namespace sluice::files
