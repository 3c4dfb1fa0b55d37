// Reads rows from any bytes, in every format. The results must not depend on how the body is split. Every value must be
// text that a database accepts, numbers and JSON must be valid, and the position of an error must lie in the body. The
// first byte chooses the format and the limits, the second seeds the pieces' sizes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "api/body/row_reader.h"
#include "fuzzing.h"
#include "sql/sqlite/json_text.h"

namespace {

using namespace sluice;
using api::BodyFormat;
using api::RowFault;
using api::RowLimits;
using api::RowReader;
using api::Shape;
using api::Value;
using sluice::fuzz::Pieces;
using sluice::fuzz::require;

// Well-formed UTF-8 (Unicode, table 3-7) without NUL.
bool is_text(std::string_view bytes) {
  for (std::size_t at = 0; at < bytes.size();) {
    const auto byte = [&](std::size_t i) {
      return at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0u;
    };
    const auto tail = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
    const unsigned lead = byte(0);
    if (lead == 0) return false;
    if (lead < 0x80) {
      at += 1;
    } else if (lead >= 0xc2 && lead < 0xe0 && tail(1)) {
      at += 2;
    } else if (lead >= 0xe0 && lead < 0xf0 && tail(1) && tail(2) && !(lead == 0xe0 && byte(1) < 0xa0) &&
               !(lead == 0xed && byte(1) >= 0xa0)) {
      at += 3;
    } else if (lead >= 0xf0 && lead < 0xf5 && tail(1) && tail(2) && tail(3) && !(lead == 0xf0 && byte(1) < 0x90) &&
               !(lead == 0xf4 && byte(1) >= 0x90)) {
      at += 4;
    } else {
      return false;
    }
  }
  return true;
}

void check(const Value& value) {
  std::string text(value.text);
  if (!value.json.empty()) std::ranges::replace(text, '\0', '0');  // a JSON string may contain NUL
  require(is_text(text), "a value is no text");
  switch (value.kind) {
    case Value::Kind::missing:
    case Value::Kind::null:
      require(value.text.empty(), "nothing has a text");
      break;
    case Value::Kind::string:
      break;
    case Value::Kind::number:
      require(sql::sqlite::is_json(value.text) && std::string_view("-0123456789").find(value.text[0]) < 11,
              "no number");
      break;
    case Value::Kind::boolean:
      require(value.text == "true" || value.text == "false", "no boolean");
      break;
    case Value::Kind::json:
      require(sql::sqlite::is_json(value.text) && (value.text[0] == '{' || value.text[0] == '['), "no JSON");
      break;
  }
}

// All results of the reader, as text. `pieces` splits the body; null: the reader gets it whole.
std::string read(std::string_view body, BodyFormat format, const Shape& shape, const RowLimits& limits,
                 Pieces* pieces) {
  const auto reader = RowReader::make(format, shape, limits);
  std::string said;
  std::uint64_t rows = 0;
  const auto lines = 1 + static_cast<std::uint64_t>(std::count(body.begin(), body.end(), '\n'));
  for (;;) {
    const RowReader::Next next = reader->next();
    if (next == RowReader::Next::need_more) {
      if (body.empty()) {
        reader->finish();
        continue;
      }
      const std::size_t size = std::min(pieces != nullptr ? pieces->next() : body.size(), body.size());
      // A copy of exactly these bytes, freed after the call, so that the address sanitizer finds views that are kept.
      const auto copy = std::make_unique<char[]>(size);
      body.copy(copy.get(), size);
      reader->feed({copy.get(), size});
      body.remove_prefix(size);
      continue;
    }
    said += std::to_string(static_cast<int>(next)) + ' ';
    if (next == RowReader::Next::row) {
      require(reader->row().size() == shape.names.size(), "a row of another size");
      for (const Value& value : reader->row()) {
        check(value);
        said += std::to_string(static_cast<int>(value.kind)) + ' ' + std::string(value.text) + '\n';
      }
      ++rows;
      continue;
    }
    if (next == RowReader::Next::end) return said + (reader->single() ? "one" : "");
    const RowFault& fault = reader->fault();
    require(fault.line >= 1 && fault.line <= lines, "a fault outside of the body");
    require(fault.row == rows, "a fault in another row");
    require(!fault.reason.empty() && is_text(fault.reason) && is_text(fault.pointer), "a fault without text");
    said += std::to_string(fault.line) + ' ' + fault.pointer + ' ' + fault.reason + '\n';
    if (next == RowReader::Next::broken) return said;
    ++rows;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const auto format = static_cast<BodyFormat>(data[0] % 5);
  const Shape shape{{"a", "b", "c.d", "c.e", "a.x", "f"}, (data[0] & 0x20) != 0};
  const Shape whole{{"", "a", "a", "c.d"}};
  RowLimits limits;
  if ((data[0] & 0x40) != 0) limits = {.row_bytes = 40, .depth = 3, .columns = 4};
  const Shape& chosen = (data[0] & 0x80) != 0 ? whole : shape;
  const std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
  Pieces pieces(data[1]);
  require(read(body, format, chosen, limits, nullptr) == read(body, format, chosen, limits, &pieces),
          "whole and in pieces, a body reads differently");
  return 0;
}
