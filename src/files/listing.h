#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>

#include "files/file.h"

namespace sluice::files {

// The content of a folder, as an HTML page or as JSON:
//
//   {"path":"/docs/","entries":[{"name":"a.txt","href":"a.txt","type":"file","size":4,
//    "modified":"2026-01-31T12:00:00Z"},{"name":"img","href":"img/","type":"folder", ...}],"complete":true}
//
// Folders come first, then files, each sorted by name. The listing omits names that begin with a dot, and entries that
// cannot be served, such as devices and links that lead outside the root.
enum class ListingFormat : std::uint8_t { html, json };

// The maximum number of entries in a listing. A listing says whether it is complete.
inline constexpr std::size_t most_listed = 4096;

// Reads the folder, so it waits for the disk. `folder` is its path beneath the root, empty or ending in '/'. `shown` is
// the path as the client knows it. Returns a file in memory, or `known` if nothing has changed. Errors are errnos.
[[nodiscard]] std::expected<std::shared_ptr<const File>, int> list_folder(const Root& root, const std::string& folder,
                                                                          std::string_view shown, ListingFormat format,
                                                                          const std::shared_ptr<const File>& known);

}  // namespace sluice::files
