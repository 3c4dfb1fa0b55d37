// The parsers of `sluice test`: test files, JSON, tables, and a server's responses. Parsed values are printed and must
// parse to the same; a response must not depend on how its bytes are split. The first byte chooses the parser.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "app/suite/diff.h"
#include "app/suite/expectation.h"
#include "app/suite/file.h"
#include "app/suite/json.h"
#include "app/suite/response.h"
#include "app/suite/variables.h"
#include "base/utf8.h"
#include "fuzzing.h"
#include "sql/sqlite/json_text.h"

namespace {

using namespace sluice::app;
using namespace sluice::app::suite;
using sluice::fuzz::require;

// If members share a name, find() returns the last one, so such an object does not equal its own copy.
bool has_one_of_each(const Json& value) {
  for (const auto& [name, member] : value.members) {
    if (value.find(name) != &member || !has_one_of_each(member)) return false;
  }
  return std::ranges::all_of(value.items, has_one_of_each);
}

void json(std::string_view text) {
  const auto value = parse_json(text);
  if (!value) return require(value.error().offset.value_or(0) <= text.size() && !value.error().message.empty());
  require(sluice::is_utf8(text) && sluice::sql::sqlite::is_json(text));
  const std::string printed = print_json(*value);
  const auto again = parse_json(printed);
  require(again && print_json(*again) == printed);
  if (has_one_of_each(*value)) require(compare(*value, *again, Match::exact, Order::same, "body").empty());
  require(parse_json(print_json_lines(*value)).has_value());
}

void table(std::string_view text) {
  const auto rows = parse_table(text);
  if (!rows) return require(rows.error().offset.value_or(0) <= text.size());
  require(rows->kind == Json::Kind::array);
  (void)print_table(*rows, *rows);
}

// The result of reading all bytes in pieces of this size.
std::string answer(std::string_view bytes, std::size_t piece) {
  ResponseReader reader("GET");
  auto state = ResponseReader::State::more;
  while (state == ResponseReader::State::more && !bytes.empty()) {
    state = reader.feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
  }
  if (state == ResponseReader::State::done && !bytes.empty()) state = reader.feed(bytes);
  if (state == ResponseReader::State::more) state = reader.end();
  require(state != ResponseReader::State::more);
  if (state == ResponseReader::State::broken) {
    require(!reader.problem().empty());
    return "broken";
  }
  std::string text = std::to_string(reader.answer().status) + "\n";
  for (const auto& [name, value] : reader.answer().fields) text += name + ": " + value + "\n";
  return text + reader.answer().body;
}

void file(std::string text) {
  const auto suite = parse_suite(config::Source("fuzz.sluicetest", std::move(text)));
  if (!suite) return require(suite.error().text().starts_with("fuzz.sluicetest:"));
  require(!suite->steps.empty());
  for (const Step& step : suite->steps)
    require(step.is_request() != step.options.sql.has_value() && !step.name.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 6) {
    case 0:
      json(text);
      break;
    case 1:
      table(text);
      break;
    case 2: {
      const std::string whole = answer(text, text.size() + 1);
      require(answer(text, 1) == whole && answer(text, 7) == whole);
      break;
    }
    case 3:
      file(text);
      break;
    case 4:
      if (const auto pieces = split_variables(text)) {
        for (const Piece& piece : *pieces) require(piece.offset < text.size());
      }
      break;
    default: {
      const std::size_t half = text.size() / 2;
      const std::string one = text.substr(0, half);
      const std::string other = text.substr(half);
      if (one == other) require(diff_lines(one, other).empty());
      (void)diff_lines(one, other);
      (void)same_number("1" + std::string(half % 40, '0'), "1");
      break;
    }
  }
  return 0;
}
