#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "http/request.h"
#include "http/response.h"
#include "sql/encode/encoder.h"

namespace sluice::api {

// The result of content negotiation for an answer with rows.
struct Preference {
  sql::Format format = sql::Format::json;
  sql::Header header = sql::Header::present;
  bool negotiated = false;                 // the format depends on Accept, so the answer needs Vary
  bool trailers = false;                   // the client accepts trailers
  const http::Request* request = nullptr;  // the negotiated request; lives until it has been answered
};

// Chooses the format by the path's extension, or else by Accept. `formats`: the available formats. Returns nullopt if
// the client accepts none of them; the caller then answers with not_acceptable().
[[nodiscard]] std::optional<Preference> preference_of(const http::Request& request, sql::FormatSet formats = {});
[[nodiscard]] http::Response not_acceptable(sql::FormatSet formats = {});

// The layouts of a statement's rows, by sql::Format.
using Layouts = std::array<std::unique_ptr<const sql::Layout>, 4>;
[[nodiscard]] Layouts make_layouts(std::span<const sql::Column> columns, bool object);

}  // namespace sluice::api
