#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "http/request.h"
#include "http/response.h"
#include "sql/encode/encoder.h"

namespace sluice::api {

// What the client wants of an answer with rows.
struct Wish {
  sql::Format format = sql::Format::json;
  sql::Header header = sql::Header::present;
  bool negotiated = false;                 // by Accept, so that caches must know
  bool trailers = false;                   // the client takes them
  const http::Request* request = nullptr;  // whose wish it is; lasts until it has been answered
};

// By the path's extension, or by Accept. `formats`: what there is. Nothing: the client takes none of them, which
// not_acceptable() says.
[[nodiscard]] std::optional<Wish> wish_of(const http::Request& request, sql::FormatSet formats = {});
[[nodiscard]] http::Response not_acceptable(sql::FormatSet formats = {});

// How the rows of a statement are written, by sql::Format.
using Layouts = std::array<std::unique_ptr<const sql::Layout>, 4>;
[[nodiscard]] Layouts make_layouts(std::span<const sql::Column> columns, bool object);

}  // namespace sluice::api
