#include "files/listing.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <tuple>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "http/escape.h"

namespace sluice::files {
namespace {

struct Listed {
  std::string name;
  bool is_folder = false;
  std::int64_t size = 0;
  std::int64_t modified_s = 0;
};

struct Folder {
  std::vector<Listed> entries;
  bool is_complete = true;
};

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

std::expected<Folder, int> read_folder(const Root& root, const std::string& path) {
  auto opened = root.open_beneath(path, Patience::any);
  if (!opened) return std::unexpected(opened.error());
  const std::unique_ptr<DIR, CloseFolder> stream(::fdopendir(opened->get()));
  if (!stream) return std::unexpected(errno);  // ENOTDIR among others
  const int fd = opened->release();            // now owned by the stream

  Folder folder;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) {
      if (errno != 0) return std::unexpected(errno);
      break;
    }
    const std::string name = entry->d_name;
    if (name.starts_with('.')) continue;
    struct stat status{};
    if (::fstatat(fd, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;  // removed meanwhile
    if (S_ISLNK(status.st_mode)) {
      // Describes the target of the link, if it can be opened.
      const auto target = root.open_beneath(path + name, Patience::any);
      if (!target || ::fstat(target->get(), &status) != 0) continue;
    }
    if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) continue;
    if (folder.entries.size() == most_listed) {
      folder.is_complete = false;
      break;
    }
    folder.entries.push_back({.name = name,
                              .is_folder = S_ISDIR(status.st_mode),
                              .size = status.st_size,
                              .modified_s = status.st_mtim.tv_sec});
  }
  std::ranges::sort(folder.entries, {},
                    [](const Listed& one) { return std::tuple(!one.is_folder, std::string_view(one.name)); });
  return folder;
}

std::string time_text(std::int64_t second, const char* format) {
  const std::time_t time = second;
  tm parts{};
  char text[64];
  if (::gmtime_r(&time, &parts) == nullptr) return {};
  return {text, std::strftime(text, sizeof text, format, &parts)};
}

std::string json_of(const Folder& folder, std::string_view shown) {
  std::string out = "{\"path\":";
  http::append_json(out, shown);
  out += ",\"entries\":[";
  bool first = true;
  for (const Listed& entry : folder.entries) {
    out += first ? "\n{\"name\":" : ",\n{\"name\":";
    first = false;
    http::append_json(out, entry.name);
    out += ",\"href\":\"";
    http::append_url_path(out, entry.name);
    out += entry.is_folder ? "/\",\"type\":\"folder\"" : "\",\"type\":\"file\"";
    if (!entry.is_folder) out += ",\"size\":" + std::to_string(entry.size);
    out += ",\"modified\":\"" + time_text(entry.modified_s, "%Y-%m-%dT%H:%M:%SZ") + "\"}";
  }
  out += folder.is_complete ? "],\"complete\":true}\n" : "],\"complete\":false}\n";
  return out;
}

std::string html_of(const Folder& folder, std::string_view shown) {
  std::string title;
  http::append_html(title, shown);
  std::string out =
      "<!doctype html>\n<html><head><meta charset=\"utf-8\"><title>" + title +
      "</title>\n<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<style>body{font:16px/1.5 sans-serif;margin:2em}td{padding-right:2em}td:nth-child(2){text-align:right}"
      "</style></head>\n<body><h1>" +
      title + "</h1>\n<table>\n";
  if (shown != "/") out += "<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n";
  for (const Listed& entry : folder.entries) {
    out += "<tr><td><a href=\"";
    http::append_url_path(out, entry.name);
    out += entry.is_folder ? "/\">" : "\">";
    http::append_html(out, entry.name);
    out += entry.is_folder ? "/</a></td><td></td><td>" : "</a></td><td>" + std::to_string(entry.size) + "</td><td>";
    out += time_text(entry.modified_s, "%Y-%m-%d %H:%M:%S") + "</td></tr>\n";
  }
  out += "</table>\n";
  if (!folder.is_complete) out += "<p>There is more: only " + std::to_string(most_listed) + " entries are shown.</p>\n";
  out += "</body></html>\n";
  return out;
}

}  // namespace

std::expected<std::shared_ptr<const File>, int> list_folder(const Root& root, const std::string& folder,
                                                            std::string_view shown, ListingFormat format,
                                                            const std::shared_ptr<const File>& known) {
  const auto read = read_folder(root, folder);
  if (!read) return std::unexpected(read.error());
  auto file = std::make_shared<File>();
  file->bytes = format == ListingFormat::json ? json_of(*read, shown) : html_of(*read, shown);
  if (known && known->bytes == file->bytes) return known;
  file->size = file->bytes.size();
  file->media_type = format == ListingFormat::json ? "application/json" : "text/html; charset=utf-8";
  // The modification time of the folder does not change when a file in it grows.
  file->tag = tag_of_content(file->bytes);
  return file;
}

}  // namespace sluice::files
