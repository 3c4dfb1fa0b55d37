#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "files/coding.h"
#include "files/conditions.h"
#include "files/http_date.h"
#include "http/escape.h"

// Each line is the value of a field that affects a file's answer. The conditions give a verdict, a parsed date survives
// formatting and parsing, and the chosen coding is available.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  using namespace sluice::files;
  static constexpr std::string_view names[] = {"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since",
                                               "If-Range", "Range",         "Accept-Encoding"};
  constexpr std::int64_t now = 1'800'000'000;
  const auto require = [](bool condition) {
    if (!condition) std::abort();
  };

  std::vector<http::Field> fields;
  for (std::string_view rest(reinterpret_cast<const char*>(data), size); !rest.empty();) {
    const auto end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    if (line.empty()) continue;
    const auto which = static_cast<std::uint8_t>(line[0]) % std::size(names);
    fields.push_back({names[which], line.substr(1)});
    if (const auto date = parse_http_date(line.substr(1), now)) {
      if (*date >= 0) require(parse_http_date(http_date(*date), now) == date);
    }
    std::string escaped;
    http::append_html(escaped, line);
    require(escaped.find_first_of("<>\"'") == escaped.npos);
  }
  const Conditions conditions(fields);
  for (const bool is_dated : {true, false}) {
    const Validators current{.tag = "\"v1\"", .is_dated = is_dated, .modified_s = now - 1000};
    const auto verdict = conditions.judge(current, now);
    require(!conditions.empty() || verdict == Conditions::Verdict::proceed);
    const std::string_view range = conditions.range(current, now);
    require(range.empty() || !conditions.empty());
  }
  const Coding coding = choose_coding(fields, {100, 0, 0, 50});
  require(coding == Coding::identity || coding == Coding::zstd);
  return 0;
}
