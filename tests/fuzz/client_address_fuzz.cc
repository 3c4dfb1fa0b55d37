// X-Forwarded-For, and addresses and prefixes of the configuration. The client is the peer or an address from the
// field, and splitting the list into several fields changes nothing.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ascii.h"
#include "core/ip_ranges.h"
#include "fuzzing.h"
#include "http/client_address.h"

namespace {

using namespace sluice;
using sluice::fuzz::require;

std::string client(const std::vector<http::Field>& fields, const http::TrustedProxies& proxies) {
  http::Exchange exchange;
  http::Request& request = exchange.request;
  request.fields = fields;
  http::set_client(exchange, "10.0.0.1", false, &proxies);
  require(request.from_proxy, "the peer is trusted");
  require(core::Ip::parse(request.peer).has_value(), "the client has no address");
  return std::string(request.peer);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  http::TrustedProxies proxies;
  require(proxies.addresses.add("10.0.0.0/8"), "a prefix");
  std::vector<http::Field> cut;
  for (std::string_view rest = text;;) {
    const auto comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    cut.push_back({"x-forwarded-for", part});
    require(core::IpRanges::check(part).empty() == proxies.addresses.add(part), "checked in another way");
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
  }
  proxies.addresses.seal();
  const std::string whole = client({{"X-Forwarded-For", text}, {"X-Forwarded-Proto", text}}, proxies);
  require(whole == client(cut, proxies), "fields are not one list");
  // An IPv4 address may be written as an IPv4-mapped address.
  const bool is_mapped = !whole.contains(':') && to_lower(text).contains("ffff:");
  require(whole == "10.0.0.1" || text.contains(whole) || is_mapped, "an address from nowhere");
  return 0;
}
