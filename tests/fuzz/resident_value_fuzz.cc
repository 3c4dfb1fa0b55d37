// Any bytes, each line a value of a resident table. Keys of decimals sort like the numbers; rows, arrays and JSON are
// parsed without a read past their end; each element of an array finds its row; packed values come out unchanged.

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/resident/elements.h"
#include "api/resident/row_text.h"
#include "api/resident/row_writer.h"
#include "api/resident/rows_for_tests.h"
#include "api/resident/value.h"
#include "fuzzing.h"

namespace {

using namespace sluice;
using namespace sluice::api::resident;
using sluice::fuzz::require;

// Compares the order of the keys with that of strtold(), which rounds: two equal results say nothing about the order.
void check_order(const std::string& a, const std::string& b) {
  std::string left;
  std::string right;
  if (!append_decimal_key(a, left) || !append_decimal_key(b, right)) return;
  const auto is_finite = [](const std::string& text) { return text.find_first_of("NI") == text.npos; };
  if (!is_finite(a) || !is_finite(b)) return;
  const long double x = std::strtold(a.c_str(), nullptr);
  const long double y = std::strtold(b.c_str(), nullptr);
  if (x < y) require(left < right);
  if (x > y) require(left > right);
  if (left == right) require(x == y || std::isinf(x));
}

void check_keys(std::string_view text) {
  std::string scratch;
  for (const Kind kind : {Kind::integer, Kind::number, Kind::boolean, Kind::date, Kind::timestamp, Kind::timestamp_tz,
                          Kind::text, Kind::uuid, Kind::dynamic}) {
    Key key;
    const bool made = make_key(kind, text, scratch, key);
    require(made || (kind != Kind::text && kind != Kind::dynamic));
    if (kind == Kind::uuid && made) {
      // The canonical form of a canonical form is itself.
      require(key.bytes.size() == 36);
      const std::string canonical(key.bytes);
      require(make_key(kind, canonical, scratch, key) && key.bytes == canonical);
    }
    if (kind == Kind::number && made) require(key.bytes.size() <= text.size() + 4);
    // A date equals the timestamp of its midnight, if the range of timestamps includes it.
    if (kind == Kind::date && made) {
      Key midnight;
      if (make_key(Kind::timestamp, text, scratch, midnight) && key.number != 0 && key.number != UINT64_MAX) {
        constexpr std::uint64_t zero = std::uint64_t{1} << 63;
        require(midnight.number - zero == (key.number - zero) * 86'400'000'000);
      }
    }
    using Spelling = ValueType::Spelling;
    for (const Spelling spelling : {Spelling::plain, Spelling::padded, Spelling::time, Spelling::macaddr,
                                    Spelling::macaddr8, Spelling::numeric, Spelling::boolean}) {
      (void)make_asked_key({.kind = kind, .spelling = spelling}, text, scratch, key);
    }
  }
}

void check_texts(std::string_view text) {
  static const RowText row(
      {{column_of("a", sql::Form::number), column_of("b", sql::Form::text), column_of("c", sql::Form::json)}});
  std::string_view values[3];
  row.cut(text, values);
  std::size_t together = 0;
  for (const std::string_view value : values) together += value.size();
  require(together <= text.size());
  cut_csv(text, values);
  require(value_size(text) <= text.size());
  std::string unescaped;
  append_unescaped(text, unescaped);
  require(unescaped.size() <= text.size());
  std::string scratch;
  std::size_t elements = 0;
  (void)each_json_element(text, scratch, [&](std::string_view element) {
    require(element.size() <= text.size());
    return ++elements <= text.size();
  });
  require(elements <= text.size());
}

// Each value is one row of an array column.
void check_index(const std::vector<std::string>& arrays) {
  TestRows rows({array_of("a", sql::Form::text)});
  for (const std::string& array : arrays) {
    std::string scratch;
    if (each_array_element(array, ',', scratch, [](std::string_view) { return true; })) rows.row({array});
  }
  Index index(*ValueType::of(rows.columns[0]));
  std::string scratch;
  const sql::Block block = rows.block();
  for (std::size_t i = 0; i < block.rows; ++i) {
    (void)each_array_element(block.fields[i].view(), ',', scratch,
                             [&](std::string_view text) { return index.add({.number = 0, .bytes = text}); });
    index.end_row();
  }
  index.build();
  for (std::uint32_t row = 0; row < block.rows; ++row) {
    require(each_array_element(block.fields[row].view(), ',', scratch, [&](std::string_view text) {
      const std::uint32_t id = index.find({.number = 0, .bytes = text});
      if (id == Dictionary::none) return false;
      const Postings found = index.rows_of(id);
      return std::find(found.begin(), found.end(), row) != found.end();
    }));
  }
}

void check_packed(const std::vector<std::string>& values) {
  TestRows rows({column_of("a", sql::Form::text), sqlite_column("b", "")});
  for (const std::string& value : values) {
    rows.row({value, TestValue(value, value.size() % 2 == 0 ? sql::Form::text : sql::Form::number)});
  }
  PackedRows packed(rows.columns);
  const sql::Block block = rows.block();
  for (std::size_t i = 0; i < block.rows; ++i) packed.append(block.row(i));
  packed.trim();
  PackedRows::Reader reader(packed);
  for (std::uint32_t i = 0; i < block.rows; ++i) {
    const auto fields = reader.row(i);
    for (std::size_t k = 0; k < fields.size(); ++k) {
      const sql::Field& wanted = block.row(i)[k];
      require(fields[k].view() == wanted.view() && !fields[k].is_null());
      require(k == 0 || fields[k].form == wanted.form);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> lines;
  for (std::string_view rest = all;;) {
    const std::size_t end = rest.find('\n');
    lines.emplace_back(rest.substr(0, end));
    if (end == rest.npos) break;
    rest.remove_prefix(end + 1);
  }
  for (const std::string& line : lines) check_keys(line);
  for (std::size_t i = 1; i < lines.size(); ++i) check_order(lines[i - 1], lines[i]);
  // Memory of exactly the text's size, so that the address sanitizer finds a read past the end.
  const auto memory = std::make_unique<char[]>(size);
  if (size != 0) std::memcpy(memory.get(), data, size);
  check_texts({memory.get(), size});
  check_index(lines);
  check_packed(lines);
  return 0;
}
