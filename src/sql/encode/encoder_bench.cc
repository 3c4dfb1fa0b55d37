#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <benchmark/benchmark.h>

#include "sql/encode/encoder.h"

namespace {

using namespace sluice;
using sql::Block;
using sql::Column;
using sql::Field;
using sql::Form;
using sql::Format;

std::shared_ptr<const sql::Type> type(Form form) {
  auto result = std::make_shared<sql::Type>();
  result->form = form;
  return result;
}

// Rows in the wire format: a four-byte length before each value.
class Rows {
 public:
  explicit Rows(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::string_view value) {
    wire_.append(4, '\0');
    offsets_.push_back(wire_.size());
    sizes_.push_back(static_cast<std::uint32_t>(value.size()));
    wire_.append(value);
  }
  [[nodiscard]] Block block() {
    fields_.clear();
    for (std::size_t i = 0; i < sizes_.size(); ++i) fields_.push_back({wire_.data() + offsets_[i], sizes_[i]});
    return {.columns = columns_, .fields = fields_, .rows = fields_.size() / columns_.size()};
  }
  [[nodiscard]] const std::vector<Column>& columns() const { return columns_; }

 private:
  std::vector<Column> columns_;
  std::string wire_;
  std::vector<std::size_t> offsets_;
  std::vector<std::uint32_t> sizes_;
  std::vector<Field> fields_;
};

// 500 rows of pgbench_accounts, about as many as one 64 KiB read contains.
Rows accounts() {
  Rows rows({{"aid", type(Form::number)},
             {"bid", type(Form::number)},
             {"abalance", type(Form::number)},
             {"filler", type(Form::text)}});
  std::uint32_t random = 7;
  for (int row = 0; row < 500; ++row) {
    random = random * 1664525 + 1013904223;
    rows.add(std::to_string(random % 2'000'000 + 1));
    rows.add(std::to_string(random % 20 + 1));
    rows.add("0");
    rows.add(std::string(84, ' '));
  }
  return rows;
}

Rows films() {
  Rows rows({{"id", type(Form::number)},
             {"slug", type(Form::text)},
             {"adult", type(Form::boolean)},
             {"name_en", type(Form::text)},
             {"popularity", type(Form::number)},
             {"released", type(Form::timestamp_tz)},
             {"blob", type(Form::json)}});
  std::uint32_t random = 7;
  for (int row = 0; row < 500; ++row) {
    random = random * 1664525 + 1013904223;
    const std::string id = std::to_string(random % 402'343);
    rows.add(id);
    rows.add("film-number-" + id);
    rows.add(random % 2 != 0 ? "t" : "f");
    rows.add("The \"Return\" of Number " + id);
    rows.add(std::to_string(random % 1000) + "." + std::to_string(random % 997));
    rows.add("2026-11-21 18:48:34.123456+00");
    rows.add(R"({"genre": ["drama", "comedy"], "votes": )" + id +
             R"(, "overview": "A film that nobody has seen yet."})");
  }
  return rows;
}

Rows arrays() {
  auto text_array = std::make_shared<sql::Type>();
  text_array->form = Form::array;
  text_array->element = type(Form::text);
  Rows rows({{"id", type(Form::number)}, {"tags", text_array}});
  for (int row = 0; row < 500; ++row) {
    rows.add(std::to_string(row));
    rows.add(R"({drama,comedy,"science fiction",NULL,"said \"no\""})");
  }
  return rows;
}

template <class Make>
void encode(benchmark::State& state, Make make, Format format) {
  Rows rows = make();
  const Block block = rows.block();
  Buffer out(1 << 20);
  sql::Encoder encoder(format, rows.columns());
  for (auto _ : state) {
    out.clear();
    encoder.rows(block, out);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  const auto count = static_cast<double>(state.iterations()) * static_cast<double>(block.rows);
  state.counters["row"] = benchmark::Counter(count, benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * out.size()));
}

BENCHMARK_CAPTURE(encode, accounts_csv, accounts, Format::csv);
BENCHMARK_CAPTURE(encode, accounts_csj, accounts, Format::csj);
BENCHMARK_CAPTURE(encode, accounts_json, accounts, Format::json);
BENCHMARK_CAPTURE(encode, accounts_ndjson, accounts, Format::ndjson);
BENCHMARK_CAPTURE(encode, films_csv, films, Format::csv);
BENCHMARK_CAPTURE(encode, films_json, films, Format::json);
BENCHMARK_CAPTURE(encode, films_ndjson, films, Format::ndjson);
BENCHMARK_CAPTURE(encode, arrays_json, arrays, Format::json);

// The fixed cost of a request that returns one row.
void point(benchmark::State& state) {
  Rows rows = accounts();
  Block block = rows.block();
  block.rows = 1;
  const sql::Layout layout(Format::json, rows.columns(), {.object = true});
  Buffer out(4096);
  for (auto _ : state) {
    out.clear();
    sql::Encoder encoder(layout);
    encoder.begin(out);
    encoder.rows(block, out);
    encoder.end(out);
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
}
BENCHMARK(point);

}  // namespace
