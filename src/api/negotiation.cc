#include "api/negotiation.h"

#include <string>

#include "http/accept.h"

namespace sluice::api {
namespace {

constexpr std::array all_formats{sql::Format::json, sql::Format::csv, sql::Format::ndjson, sql::Format::csj};

// The possible formats of an answer with the media types in Accept. The first wins among equally preferred ones.
struct Variant {
  sql::Format format;
  sql::Header header;
  std::string_view type;
  std::string_view subtype;
  std::span<const http::Field> parameters;
};
constexpr std::array<http::Field, 2> with_header{{{"charset", "utf-8"}, {"header", "present"}}};
constexpr std::array<http::Field, 2> without_header{{{"charset", "utf-8"}, {"header", "absent"}}};
constexpr auto no_header_line = std::span(with_header).first(1);
constexpr std::array<Variant, 6> variants{{
    {sql::Format::json, sql::Header::present, "application", "json", no_header_line},
    {sql::Format::csv, sql::Header::present, "text", "csv", with_header},
    {sql::Format::ndjson, sql::Header::present, "application", "x-ndjson", no_header_line},
    {sql::Format::csj, sql::Header::present, "application", "csj", with_header},
    {sql::Format::csv, sql::Header::absent, "text", "csv", without_header},
    {sql::Format::csj, sql::Header::absent, "application", "csj", without_header},
}};

}  // namespace

std::optional<Preference> preference_of(const http::Request& request, sql::FormatSet formats) {
  Preference preference;
  preference.request = &request;
  if (const std::string_view te = request.field("te"); !te.empty())
    preference.trailers = http::lists_token(te, "trailers");
  if (!request.extension.empty()) {
    preference.format = *sql::format_of_extension(request.extension.substr(1));
    if (!formats.has(preference.format)) return std::nullopt;
    return preference;
  }
  preference.negotiated = true;
  const std::string_view accept = request.field("accept");
  if ((accept.empty() || accept == "*/*") && formats.has(preference.format)) return preference;
  std::uint16_t best = 0;
  for (const Variant& variant : variants) {
    if (!formats.has(variant.format)) continue;
    const auto quality = http::quality_of(request.fields, variant.type, variant.subtype, variant.parameters);
    if (quality <= best) continue;
    best = quality;
    preference.format = variant.format;
    preference.header = variant.header;
    if (best == 1000) break;
  }
  if (best == 0) return std::nullopt;
  return preference;
}

http::Response not_acceptable(sql::FormatSet formats) {
  std::string names;
  for (const Variant& variant : variants) {
    if (variant.header == sql::Header::absent || !formats.has(variant.format)) continue;
    names += (names.empty() ? "" : ", ") + std::string(variant.type) + "/" + std::string(variant.subtype);
  }
  http::Response refused = http::problem(406, "The resource is available as " + names + ".");
  refused.fields.add_trusted("Vary", "Accept");
  return refused;
}

Layouts make_layouts(std::span<const sql::Column> columns, bool object) {
  Layouts layouts;
  for (const sql::Format format : all_formats) {
    layouts[static_cast<std::size_t>(format)] =
        std::make_unique<const sql::Layout>(format, columns, sql::EncodeOptions{.object = object});
  }
  return layouts;
}

}  // namespace sluice::api
