#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "api/body/form_data.h"
#include "base/assert.h"

// Parses forms, for tests and fuzz targets.
namespace sluice::api {

// The result as one text: "[name|file name|type]data" for each part, then "." or "!fault". `next_piece()` returns the
// next piece of the body, empty at its end.
template <class NextPiece>
std::string read_form_data(FormDataReader& reader, NextPiece next_piece) {
  std::string out;
  std::size_t fed = 0;
  std::size_t given = 0;
  for (;;) {
    switch (reader.next()) {
      case FormDataReader::Next::part: {
        const FormDataPart& part = reader.part();
        out += "[" + part.name + "|" + part.file_name.value_or("-") + "|" + part.media_type + "]";
        break;
      }
      case FormDataReader::Next::data:
        given += reader.data().size();
        SLUICE_ASSERT(!reader.data().empty() && given <= fed);
        out += reader.data();
        break;
      case FormDataReader::Next::need_more: {
        const std::string_view piece = next_piece();
        fed += piece.size();
        if (piece.empty()) {
          reader.finish();
        } else {
          reader.feed(piece);
        }
        break;
      }
      case FormDataReader::Next::end:
        return out + ".";
      case FormDataReader::Next::broken:
        return out + "!" + reader.fault();
    }
  }
}

// The same for a body in pieces of `step` bytes.
inline std::string read_form_data(std::string_view body, std::size_t step, std::string_view boundary,
                                  const FormDataLimits& limits = {}) {
  FormDataReader reader(boundary, limits);
  return read_form_data(reader, [&] {
    const std::string_view piece = body.substr(0, step);
    body.remove_prefix(piece.size());
    return piece;
  });
}

}  // namespace sluice::api
