#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "api/body/row_reader.h"

namespace sluice::api {

// A reader's results for a body, one line for each next(): the values of a row, with "x" for a string and - for a
// missing one; bad and broken with LINE:ROW POINTER: REASON; at the end whether the body was a single object.
inline std::string said_of(BodyFormat format, const Shape& shape, const RowLimits& limits,
                           const std::vector<std::string_view>& pieces) {
  const auto reader = RowReader::make(format, shape, limits);
  std::string said;
  std::size_t fed = 0;
  for (;;) {
    const RowReader::Next next = reader->next();
    switch (next) {
      case RowReader::Next::need_more: {
        if (fed == pieces.size()) {
          reader->finish();
          break;
        }
        // The piece is copied to memory of exactly its size, which is freed afterwards. The sanitizer then finds a view
        // that the reader keeps, and a read past the end.
        const std::string_view piece = pieces[fed++];
        const auto copy = std::make_unique<char[]>(piece.size());
        piece.copy(copy.get(), piece.size());
        reader->feed({copy.get(), piece.size()});
        break;
      }
      case RowReader::Next::row:
        for (const Value& value : reader->row()) {
          const bool string = value.kind == Value::Kind::string;
          if (value.kind == Value::Kind::missing) said += "-";
          if (value.kind == Value::Kind::null) said += "null";
          if (string) said += '"';
          said += value.text;
          if (string) said += '"';
          said += ' ';
        }
        said.resize(said.size() - (said.ends_with(' ') ? 1 : 0));
        said += '\n';
        break;
      case RowReader::Next::bad_row:
      case RowReader::Next::broken: {
        const RowFault& fault = reader->fault();
        said += next == RowReader::Next::broken ? "broken " : "bad ";
        said += std::to_string(fault.line) + ':' + std::to_string(fault.row) + ' ' + fault.pointer +
                (fault.pointer.empty() ? "" : ": ") + fault.reason + '\n';
        if (next == RowReader::Next::bad_row) break;
        EXPECT_EQ(reader->next(), RowReader::Next::broken);
        return said;
      }
      case RowReader::Next::end:
        EXPECT_EQ(reader->next(), RowReader::Next::end);
        return said + (reader->single() ? "end of one" : "end");
    }
  }
}

// The same, after checking that it does not depend on how the body is cut: whole, in two pieces cut at every byte (at
// some bytes of a long body), and byte by byte.
inline std::string said(BodyFormat format, const std::vector<std::string>& names, std::string_view body,
                        const RowLimits& limits = {}, bool allow_unknown = false) {
  const Shape shape{names, allow_unknown};
  std::string whole = said_of(format, shape, limits, {body});
  for (std::size_t cut = 0; cut <= body.size(); cut += 1 + body.size() / 500) {
    EXPECT_EQ(said_of(format, shape, limits, {body.substr(0, cut), body.substr(cut)}), whole)
        << body.substr(0, 1000) << "\ncut at " << cut;
  }
  std::vector<std::string_view> bytes;
  for (std::size_t i = 0; i < body.size(); ++i) bytes.push_back(body.substr(i, 1));
  EXPECT_EQ(said_of(format, shape, limits, bytes), whole) << body.substr(0, 1000) << "\nbyte by byte";
  return whole;
}

}  // namespace sluice::api
