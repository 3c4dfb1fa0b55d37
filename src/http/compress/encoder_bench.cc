#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include <benchmark/benchmark.h>

#include "http/compress/encoder.h"

namespace sluice::http::compress {
namespace {

// Rows like those of an endpoint: repeated names, with varying words, numbers and times.
std::string rows(std::size_t size) {
  constexpr const char* words[] = {"silent", "harbor", "winter", "river",  "glass", "paper", "night",  "garden",
                                   "stone",  "letter", "summer", "bridge", "ocean", "train", "island", "window"};
  std::mt19937 random(1);
  std::string text = "[";
  for (int id = 1; text.size() < size; ++id) {
    const auto word = [&] { return std::string(words[random() % std::size(words)]); };
    text += "{\"id\":" + std::to_string(id) + ",\"slug\":\"the-" + word() + "-" + word() + "-" + std::to_string(id) +
            "\",\"name\":\"The " + word() + " " + word() + "\",\"budget\":" + std::to_string(random() % 100000000) +
            ",\"score\":" + std::to_string(static_cast<double>(random() % 1000) / 100) + ",\"released\":\"20" +
            std::to_string(10 + random() % 15) + "-0" + std::to_string(1 + random() % 9) + "-1" +
            std::to_string(random() % 10) + "T18:48:34.5\",\"adult\":" + (random() % 9 == 0 ? "true" : "false") + "},";
  }
  text.resize(size);
  return text;
}

void label(benchmark::State& state, std::size_t in, std::size_t out) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(in));
  state.counters["ratio"] = static_cast<double>(in) / static_cast<double>(out);
}

Options options_at(Coding coding, std::int64_t level, std::int64_t window) {
  Options options;
  (coding == Coding::gzip     ? options.gzip_level
   : coding == Coding::brotli ? options.brotli_quality
                              : options.zstd_level) = static_cast<std::uint32_t>(level);
  options.window = {static_cast<std::uint64_t>(window) << 10};
  return options;
}

// Compresses 4 MiB in pieces of 16 KiB. Arguments: level, and window in KiB.
void stream(benchmark::State& state, Coding coding) {
  EncoderPool pool(options_at(coding, state.range(0), state.range(1)));
  const std::string text = rows(4 << 20);
  Buffer out;
  std::size_t size = 0;
  std::size_t memory = 0;
  for (auto _ : state) {
    size = 0;
    auto encoder = pool.lend(coding, std::nullopt);
    for (std::size_t at = 0; at < text.size(); at += 16384) {
      (void)encoder->write(std::string_view(text).substr(at, 16384), Encoder::Step::go_on, out);
      size += out.size();
      out.clear();
    }
    (void)encoder->write({}, Encoder::Step::finish, out);
    size += out.size();
    out.clear();
    memory = encoder->memory();
  }
  label(state, text.size(), size);
  state.counters["KiB"] = static_cast<double>(memory >> 10);
}
BENCHMARK_CAPTURE(stream, gzip, Coding::gzip)->ArgsProduct({{1, 3, 4, 5, 6, 9}, {128}})->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(stream, brotli, Coding::brotli)
    ->ArgsProduct({{1, 2, 3, 4, 5, 6, 9}, {128}})
    ->Args({4, 64})
    ->Args({4, 1024})
    ->Args({5, 64})
    ->Args({5, 1024})
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(stream, zstd, Coding::zstd)
    ->ArgsProduct({{1, 2, 3, 5, 7, 9, 12}, {128}})
    ->Args({3, 64})
    ->Args({3, 1024})
    ->Args({3, 2048})
    ->Unit(benchmark::kMillisecond);

// Compresses a small response at once. Arguments: bytes, and level.
void whole(benchmark::State& state, Coding coding) {
  EncoderPool pool(options_at(coding, state.range(1), 128));
  const std::string text = rows(static_cast<std::size_t>(state.range(0)));
  Buffer out;
  std::size_t size = 0;
  for (auto _ : state) {
    (void)pool.compress(coding, text, out);
    size = out.size();
    out.clear();
  }
  label(state, text.size(), size);
}
BENCHMARK_CAPTURE(whole, gzip, Coding::gzip)
    ->ArgsProduct({{1024, 8192, 61440}, {1, 3, 4, 5, 6, 9}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(whole, brotli, Coding::brotli)
    ->ArgsProduct({{1024, 8192, 61440}, {1, 4, 5}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(whole, zstd, Coding::zstd)
    ->ArgsProduct({{1024, 8192, 61440}, {1, 3, 5}})
    ->Unit(benchmark::kMicrosecond);

// The baseline without reuse of encoders.
void whole_with_a_new_encoder(benchmark::State& state, Coding coding) {
  const Options options;
  const std::string text = rows(8192);
  Buffer out;
  for (auto _ : state) {
    const auto encoder = make_encoder(coding, options);
    (void)encoder->begin(text.size());
    (void)encoder->write(text, Encoder::Step::finish, out);
    out.clear();
  }
}
BENCHMARK_CAPTURE(whole_with_a_new_encoder, gzip, Coding::gzip)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(whole_with_a_new_encoder, brotli, Coding::brotli)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(whole_with_a_new_encoder, zstd, Coding::zstd)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace sluice::http::compress
