#include "files/media_type.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/ascii.h"

namespace sluice::files {
namespace {

struct Type {
  std::string_view extension;
  std::string_view media_type;
};

// Sorted by extension. The types are from IANA's registry or, if not registered, as browsers and servers use them.
constexpr auto types = std::to_array<Type>({
    {"7z", "application/x-7z-compressed"},
    {"aac", "audio/aac"},
    {"apk", "application/vnd.android.package-archive"},
    {"apng", "image/apng"},
    {"atom", "application/atom+xml"},
    {"avi", "video/x-msvideo"},
    {"avif", "image/avif"},
    {"bin", "application/octet-stream"},
    {"bmp", "image/bmp"},
    {"br", "application/x-brotli"},
    {"bz2", "application/x-bzip2"},
    {"c", "text/x-c; charset=utf-8"},
    {"cjs", "text/javascript; charset=utf-8"},
    {"conf", "text/plain; charset=utf-8"},
    {"cpp", "text/x-c; charset=utf-8"},
    {"csj", "application/csj"},
    {"css", "text/css; charset=utf-8"},
    {"csv", "text/csv; charset=utf-8"},
    {"deb", "application/vnd.debian.binary-package"},
    {"dmg", "application/x-apple-diskimage"},
    {"doc", "application/msword"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"eot", "application/vnd.ms-fontobject"},
    {"epub", "application/epub+zip"},
    {"flac", "audio/flac"},
    {"flv", "video/x-flv"},
    {"geojson", "application/geo+json"},
    {"gif", "image/gif"},
    {"glb", "model/gltf-binary"},
    {"gltf", "model/gltf+json"},
    {"gpx", "application/gpx+xml"},
    {"gz", "application/gzip"},
    {"h", "text/x-c; charset=utf-8"},
    {"heic", "image/heic"},
    {"heif", "image/heif"},
    {"htm", "text/html; charset=utf-8"},
    {"html", "text/html; charset=utf-8"},
    {"ico", "image/x-icon"},
    {"ics", "text/calendar; charset=utf-8"},
    {"ini", "text/plain; charset=utf-8"},
    {"iso", "application/x-iso9660-image"},
    {"jar", "application/java-archive"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript; charset=utf-8"},
    {"json", "application/json"},
    {"json5", "application/json5"},
    {"jsonld", "application/ld+json"},
    {"jxl", "image/jxl"},
    {"kml", "application/vnd.google-earth.kml+xml"},
    {"kmz", "application/vnd.google-earth.kmz"},
    {"log", "text/plain; charset=utf-8"},
    {"m3u8", "application/vnd.apple.mpegurl"},
    {"m4a", "audio/mp4"},
    {"m4s", "video/iso.segment"},
    {"m4v", "video/x-m4v"},
    {"map", "application/json"},
    {"markdown", "text/markdown; charset=utf-8"},
    {"md", "text/markdown; charset=utf-8"},
    {"mid", "audio/midi"},
    {"midi", "audio/midi"},
    {"mjs", "text/javascript; charset=utf-8"},
    {"mka", "audio/x-matroska"},
    {"mkv", "video/x-matroska"},
    {"mov", "video/quicktime"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"mpd", "application/dash+xml"},
    {"mpeg", "video/mpeg"},
    {"mpg", "video/mpeg"},
    {"msi", "application/x-msi"},
    {"ndjson", "application/x-ndjson"},
    {"odp", "application/vnd.oasis.opendocument.presentation"},
    {"ods", "application/vnd.oasis.opendocument.spreadsheet"},
    {"odt", "application/vnd.oasis.opendocument.text"},
    {"oga", "audio/ogg"},
    {"ogg", "audio/ogg"},
    {"ogv", "video/ogg"},
    {"opus", "audio/ogg"},
    {"otf", "font/otf"},
    {"parquet", "application/vnd.apache.parquet"},
    {"pdf", "application/pdf"},
    {"pem", "application/x-pem-file"},
    {"png", "image/png"},
    {"ppt", "application/vnd.ms-powerpoint"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"ps", "application/postscript"},
    {"py", "text/x-python; charset=utf-8"},
    {"rar", "application/vnd.rar"},
    {"rpm", "application/x-rpm"},
    {"rss", "application/rss+xml"},
    {"rtf", "application/rtf"},
    {"sh", "application/x-sh"},
    {"sql", "application/sql"},
    {"sqlite", "application/vnd.sqlite3"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"text", "text/plain; charset=utf-8"},
    {"tgz", "application/gzip"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"toml", "application/toml"},
    {"torrent", "application/x-bittorrent"},
    {"ts", "video/mp2t"},
    {"tsv", "text/tab-separated-values; charset=utf-8"},
    {"ttc", "font/collection"},
    {"ttf", "font/ttf"},
    {"txt", "text/plain; charset=utf-8"},
    {"vcf", "text/vcard; charset=utf-8"},
    {"vtt", "text/vtt; charset=utf-8"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"weba", "audio/webm"},
    {"webm", "video/webm"},
    {"webmanifest", "application/manifest+json"},
    {"webp", "image/webp"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"xhtml", "application/xhtml+xml"},
    {"xls", "application/vnd.ms-excel"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"xsl", "application/xml"},
    {"xz", "application/x-xz"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
});
static_assert(std::ranges::is_sorted(types, {}, &Type::extension));

constexpr std::size_t longest_extension = 16;

}  // namespace

std::string_view media_type_of(std::string_view name) {
  constexpr std::string_view unknown = "application/octet-stream";
  name = name.substr(name.rfind('/') + 1);
  const auto dot = name.rfind('.');
  if (dot == std::string_view::npos || name.size() - dot - 1 > longest_extension) return unknown;
  const std::string extension = to_lower(name.substr(dot + 1));
  const auto found = std::ranges::lower_bound(types, std::string_view(extension), {}, &Type::extension);
  return found != types.end() && found->extension == extension ? found->media_type : unknown;
}

}  // namespace sluice::files
