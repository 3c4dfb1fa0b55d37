// Accept-Encoding. The chosen coding is one that the client accepts, and splitting the list into several fields changes
// nothing. The first byte of the input chooses the offered codings.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzzing.h"
#include "http/compress/media_types.h"
#include "http/compress/negotiate.h"

namespace {

using namespace sluice::http;
using namespace sluice::http::compress;
using sluice::fuzz::require;

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<Field> whole{{"Accept-Encoding", text}};
  const Acceptance acceptance = parse_accept_encoding(whole);
  for (const std::uint16_t quality : acceptance.codings) require(quality <= 1000, "a quality");
  require(acceptance.identity <= 1000, "identity's quality");
  require(!acceptance.identity_refused || acceptance.identity == 0, "a refusal");

  std::vector<Field> cut;
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    cut.push_back({"accept-encoding", rest.substr(0, comma)});
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  const Acceptance by_fields = parse_accept_encoding(cut);
  require(by_fields.codings == acceptance.codings && by_fields.identity == acceptance.identity &&
              by_fields.identity_refused == acceptance.identity_refused,
          "fields are not one list");

  std::vector<Coding> offered{Coding::gzip, Coding::brotli, Coding::zstd};
  std::rotate(offered.begin(), offered.begin() + data[0] % 3, offered.end());
  offered.resize(1 + data[0] / 3 % 3);
  if (const auto coding = choose(acceptance, offered)) {
    const std::uint16_t quality = acceptance.codings[static_cast<std::size_t>(*coding)];
    require(quality > 0 && quality >= acceptance.identity, "not accepted");
    require(std::ranges::find(offered, *coding) != offered.end(), "not offered");
    for (const Coding other : offered)
      require(acceptance.codings[static_cast<std::size_t>(other)] <= quality, "better");
  }

  const std::string pattern = text.substr(0, text.find(','));
  const std::vector<std::string> patterns{pattern};
  if (MediaTypes::is_pattern(pattern) && !pattern.contains('*')) {
    require(MediaTypes(patterns).matches(pattern + "; a=b"), "a type does not match itself");
  }
  (void)MediaTypes(Options{}.types).matches(text);
  return 0;
}
