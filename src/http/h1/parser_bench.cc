#include <string_view>

#include <benchmark/benchmark.h>

#include "http/h1/parser.h"

namespace sluice::http::h1 {
namespace {

constexpr std::string_view wrk_request = "GET /films/alien HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

constexpr std::string_view browser_request =
    "GET /films.csv?lang=en&limit=100 HTTP/1.1\r\n"
    "Host: films.example.com\r\n"
    "Connection: keep-alive\r\n"
    "sec-ch-ua: \"Chromium\";v=\"130\", \"Not?A_Brand\";v=\"99\"\r\n"
    "sec-ch-ua-mobile: ?0\r\n"
    "Upgrade-Insecure-Requests: 1\r\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 "
    "Safari/537.36\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n"
    "Sec-Fetch-Site: same-origin\r\n"
    "Sec-Fetch-Mode: navigate\r\n"
    "Accept-Encoding: gzip, deflate, br, zstd\r\n"
    "Accept-Language: en-US,en;q=0.9,de;q=0.8\r\n"
    "Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n\r\n";

void parse(benchmark::State& state, std::string_view request) {
  Request into;
  RequestParser parser(into);
  for (auto _ : state) {
    parser.reset();
    const Parsed parsed = parser.parse(request);
    if (parsed.state != Parsed::State::done) state.SkipWithError("not a request");
    benchmark::DoNotOptimize(parser.request().path.data());
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * request.size()));
}

BENCHMARK_CAPTURE(parse, wrk, wrk_request);
BENCHMARK_CAPTURE(parse, browser, browser_request);

}  // namespace
}  // namespace sluice::http::h1
