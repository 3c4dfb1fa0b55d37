// The input of policies: `Authorization: Basic`, keys in header fields, query strings and cookies, and templates of
// fields. A key that was removed must not be found again, and no value may contain a line end.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzzing.h"
#include "gateway/basic/credentials.h"
#include "gateway/basic/password.h"
#include "gateway/place.h"
#include "gateway/template.h"
#include "http/claims.h"
#include "http/identity.h"

namespace {

using namespace sluice;
using namespace sluice::gateway;
using sluice::fuzz::require;
using In = Place::In;
using Count = FoundCredential::Count;

void look_for_key(In in, std::string_view text) {
  const Place place{.in = in, .name = "key"};
  const std::string target = "/path?" + std::string(text);
  const std::vector<http::Field> fields = {{"Cookie", text}, {"Key", text}, {"A", text}};
  ChangedRequests changes;  // outlives the exchange
  http::Exchange exchange;
  http::Request& request = exchange.request;
  request.target = target;
  request.query = std::string_view(target).substr(6);
  request.fields = fields;
  std::string scratch;
  const auto found = find_credential(place, request, scratch);
  if (found.count != Count::none) hide_credential(place, false, exchange, changes);
  require(find_credential(place, request, scratch).count == Count::none, "a key is left");
  require(request.target.ends_with(request.query), "the query string is another one");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  std::string decoded;
  if (const auto basic = basic::parse_credentials(text, decoded)) {
    require(!basic->user.empty() && !basic->user.contains(':'), "a user");
    require(decoded.size() == basic->user.size() + 1 + basic->password.size(), "something is lost");
  }
  (void)basic::check_hash(text);
  for (const In in : {In::header, In::query, In::cookie}) look_for_key(in, text);
  http::Exchange exchange;
  exchange.request.peer = "1.2.3.4";
  auto claims = http::Claims::parse(text);
  if (claims == nullptr) claims = http::Claims::parse(R"({"sub":"a\nb","x":"y"})");
  exchange.attributes.set(http::Identity{.claims = std::move(claims)});
  for (const std::string& tried : {text, std::string("{claim.sub}")}) {
    const auto value = Template::parse(tried);
    std::string out;
    if (value && value->append(out, exchange))
      require(out.find_first_of(std::string_view("\r\n\0", 3)) == out.npos, "a line ends");
  }
  return 0;
}
