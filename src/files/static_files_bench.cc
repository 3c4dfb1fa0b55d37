#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include <benchmark/benchmark.h>
#include <stdlib.h>

#include "files/static_files.h"

namespace sluice::files {
namespace {

// A folder with a file of 1,500 bytes.
struct Folder {
  Folder() {
    char name[] = "/tmp/sluice-files-bench-XXXXXX";
    path = ::mkdtemp(name);
    std::ofstream(path / "file.bin") << std::string(1500, 'x');
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::filesystem::path path;
};

void answer(benchmark::State& state, std::vector<http::Field> fields, std::string_view path,
            std::uint32_t cache_files) {
  Folder folder;
  const auto reactor = core::make_epoll_reactor();
  core::Mailbox mailbox(*reactor);
  core::BlockingPool threads(1, 16);
  FilesOptions options;
  options.root.value = folder.path.string();
  options.cache_files = cache_files;
  StaticFiles files(options, *reactor, mailbox, threads);
  http::Exchange exchange;
  http::Request& request = exchange.request;
  request.method = http::Method::get;
  request.path = request.segments = request.target = path;
  request.path_values[0] = path.substr(1);
  request.fields = fields;
  const auto once = [&] {
    auto async = files.handle(exchange);
    if (async.ready()) return async.get().status;
    std::optional<http::Response> response;
    core::TaskGroup tasks;
    tasks.spawn([](core::Task<http::Response> task, std::optional<http::Response>& into) -> core::Task<void> {
      into.emplace(co_await std::move(task));
    }(async.take_task(), response));
    while (!response) mailbox.deliver();
    return response->status;
  };
  state.SetLabel(std::to_string(once()));
  for (auto _ : state) benchmark::DoNotOptimize(once());
}

const std::vector<http::Field> few{{"Host", "127.0.0.1:8080"}};
const std::vector<http::Field> browser{{"Host", "127.0.0.1:8080"},
                                       {"User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"},
                                       {"Accept", "*/*"},
                                       {"Accept-Encoding", "gzip, deflate, br, zstd"},
                                       {"Accept-Language", "en-US,en;q=0.9"},
                                       {"Connection", "keep-alive"},
                                       {"Referer", "http://127.0.0.1:8080/"},
                                       {"Sec-Fetch-Dest", "script"}};

void warm(benchmark::State& state) { answer(state, few, "/file.bin", 1); }
void warm_from_browser(benchmark::State& state) { answer(state, browser, "/file.bin", 1); }
void range(benchmark::State& state) { answer(state, {{"Range", "bytes=100-199"}}, "/file.bin", 1); }
void several_ranges(benchmark::State& state) { answer(state, {{"Range", "bytes=0-9,700-709"}}, "/file.bin", 1); }
void not_modified(benchmark::State& state) { answer(state, {{"If-None-Match", "*"}}, "/file.bin", 1); }
void opened_each_time(benchmark::State& state) { answer(state, few, "/file.bin", 0); }
void missing(benchmark::State& state) { answer(state, few, "/none", 1); }

BENCHMARK(warm);
BENCHMARK(warm_from_browser);
BENCHMARK(range);
BENCHMARK(several_ranges);
BENCHMARK(not_modified);
BENCHMARK(opened_each_time);
BENCHMARK(missing);

}  // namespace
}  // namespace sluice::files
