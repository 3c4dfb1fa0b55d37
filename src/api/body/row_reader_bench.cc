#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "api/body/row_reader.h"

namespace {

using namespace sluice;
using api::BodyFormat;
using api::RowReader;
using api::Shape;

struct Body {
  Shape shape;
  std::vector<std::vector<std::string>> rows;  // as JSON
};

std::string csv_of(const std::string& json) {
  if (json == "null") return "";
  if (!json.starts_with('"') && !json.starts_with('{')) return json;
  std::string text = "\"";
  const bool string = json.starts_with('"');
  for (std::size_t i = string ? 1 : 0; i < json.size() - (string ? 1 : 0); ++i) {
    if (string && json[i] == '\\') ++i;
    if (json[i] == '"') text += '"';
    text += json[i];
  }
  return text + '"';
}

std::string write(const Body& body, BodyFormat format) {
  std::string out;
  const auto& names = body.shape.names;
  const bool lines = format == BodyFormat::csv || format == BodyFormat::csj;
  for (std::size_t i = 0; lines && i < names.size(); ++i) {
    out += (i == 0 ? "" : ",") + (format == BodyFormat::csv ? names[i] : '"' + names[i] + '"');
  }
  if (lines) out += '\n';
  if (format == BodyFormat::json) out += '[';
  for (std::size_t row = 0; row < body.rows.size(); ++row) {
    if (format == BodyFormat::json && row != 0) out += ",\n";
    for (std::size_t i = 0; i < names.size(); ++i) {
      const std::string& value = body.rows[row][i];
      out += lines ? (i == 0 ? "" : ",") : (i == 0 ? "{" : ",");
      if (!lines) out += '"' + names[i] + "\":";
      out += format == BodyFormat::csv ? csv_of(value) : value;
    }
    if (!lines) out += '}';
    if (format != BodyFormat::json) out += '\n';
  }
  if (format == BodyFormat::json) out += "]\n";
  return out;
}

// Rows of pgbench_accounts.
Body accounts() {
  Body body{{{"aid", "bid", "abalance", "filler"}}, {}};
  std::uint32_t random = 7;
  for (int row = 0; row < 5000; ++row) {
    random = random * 1664525 + 1013904223;
    body.rows.push_back({std::to_string(random % 2'000'000 + 1), std::to_string(random % 20 + 1), "0",
                         '"' + std::string(84, ' ') + '"'});
  }
  return body;
}

Body films() {
  Body body{{{"id", "slug", "adult", "name_en", "popularity", "released", "blob"}}, {}};
  std::uint32_t random = 7;
  for (int row = 0; row < 5000; ++row) {
    random = random * 1664525 + 1013904223;
    const std::string id = std::to_string(random % 402'343);
    body.rows.push_back(
        {id, "\"film-number-" + id + '"', random % 2 != 0 ? "true" : "false",
         R"("The \"Return\" of Number )" + id + '"', std::to_string(random % 1000) + "." + std::to_string(random % 997),
         "\"2026-11-21T18:48:34.123456+00:00\"",
         R"({"genre": ["drama", "comedy"], "votes": )" + id + R"(, "overview": "A film that nobody has seen yet."})"});
  }
  return body;
}

// Rows with two short values, as in a PUT of a set.
Body tags() {
  Body body{{{"film", "tag"}}, {}};
  for (int row = 0; row < 5000; ++row) {
    body.rows.push_back({std::to_string(row), "\"tag-" + std::to_string(row % 100) + '"'});
  }
  return body;
}

// Names with characters that are not ASCII.
Body names() {
  Body body{{{"id", "name"}}, {}};
  for (int row = 0; row < 5000; ++row) {
    body.rows.push_back(
        {std::to_string(row), "\"Die f\u00fcnf Br\u00fcder \u2013 \u65e5\u672c\u8a9e " + std::to_string(row) + '"'});
  }
  return body;
}

// In pieces of 64 KiB, about the size of one read.
template <class Make>
void read(benchmark::State& state, Make make, BodyFormat format) {
  const Body source = make();
  const std::string body = write(source, format);
  std::size_t rows = 0;
  for (auto _ : state) {
    const auto reader = RowReader::make(format, source.shape);
    std::string_view rest = body;
    for (RowReader::Next next{}; (next = reader->next()) != RowReader::Next::end;) {
      if (next == RowReader::Next::row) {
        ++rows;
        benchmark::DoNotOptimize(reader->row().data());
        continue;
      }
      if (next != RowReader::Next::need_more) return state.SkipWithError("a row is refused");
      if (rest.empty()) reader->finish();
      if (!rest.empty()) reader->feed(rest.substr(0, 65536));
      rest.remove_prefix(std::min<std::size_t>(65536, rest.size()));
    }
  }
  state.counters["row"] =
      benchmark::Counter(static_cast<double>(rows), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.SetBytesProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * body.size()));
}

BENCHMARK_CAPTURE(read, accounts_json, accounts, BodyFormat::json);
BENCHMARK_CAPTURE(read, accounts_ndjson, accounts, BodyFormat::ndjson);
BENCHMARK_CAPTURE(read, accounts_csv, accounts, BodyFormat::csv);
BENCHMARK_CAPTURE(read, accounts_csj, accounts, BodyFormat::csj);
BENCHMARK_CAPTURE(read, films_json, films, BodyFormat::json);
BENCHMARK_CAPTURE(read, films_ndjson, films, BodyFormat::ndjson);
BENCHMARK_CAPTURE(read, films_csv, films, BodyFormat::csv);
BENCHMARK_CAPTURE(read, films_csj, films, BodyFormat::csj);
BENCHMARK_CAPTURE(read, tags_json, tags, BodyFormat::json);
BENCHMARK_CAPTURE(read, tags_ndjson, tags, BodyFormat::ndjson);
BENCHMARK_CAPTURE(read, tags_csv, tags, BodyFormat::csv);
BENCHMARK_CAPTURE(read, tags_csj, tags, BodyFormat::csj);
BENCHMARK_CAPTURE(read, names_json, names, BodyFormat::json);
BENCHMARK_CAPTURE(read, names_csv, names, BodyFormat::csv);

// The cost of a form: one row, with a new reader each time.
void form(benchmark::State& state) {
  const Shape shape{{"id", "slug", "name_en", "released"}};
  const std::string body =
      "id=4711&slug=film-number-4711&name_en=The+%22Return%22+of+Number+4711&released=2026-11-21T18%3A48%3A34Z";
  for (auto _ : state) {
    const auto reader = RowReader::make(BodyFormat::form, shape);
    reader->feed(body);
    benchmark::DoNotOptimize(reader->next());
    reader->finish();
    benchmark::DoNotOptimize(reader->next());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(static_cast<std::size_t>(state.iterations()) * body.size()));
}
BENCHMARK(form);

}  // namespace
