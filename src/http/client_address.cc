#include "http/client_address.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "base/ascii.h"
#include "core/address.h"

namespace sluice::http {
namespace {

constexpr std::size_t most_proxies = 64;

// The attribute of a request whose client a proxy has named by an IPv4-mapped address.
struct Ipv4Client {
  std::string text;
};

// Calls `each` with the elements of all fields with this name, the last one first, until it returns false.
template <class Each>
void for_each_from_last(const Request& request, std::string_view name, Each each) {
  for (std::size_t i = request.fields.size(); i-- != 0;) {
    if (!same_name(request.fields[i].name, name)) continue;
    std::string_view list = request.fields[i].value;
    for (;;) {
      const auto comma = list.rfind(',');
      if (!each(trim_blanks(comma == list.npos ? list : list.substr(comma + 1)))) return;
      if (comma == list.npos) break;
      list = list.substr(0, comma);
    }
  }
}

bool is_port(std::string_view text) {
  return !text.empty() && text.size() <= 5 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Returns the address in "10.0.0.1", "10.0.0.1:80", "::1", "[::1]" or "[::1]:80". Empty if the element has another
// form.
std::string_view address_of(std::string_view element) {
  if (element.starts_with('[')) {
    const auto end = element.find(']');
    if (end == element.npos) return {};
    const std::string_view rest = element.substr(end + 1);
    if (!rest.empty() && (rest[0] != ':' || !is_port(rest.substr(1)))) return {};
    element = element.substr(1, end - 1);
    return element.contains(':') ? element : std::string_view{};
  }
  const auto colon = element.find(':');
  if (colon == element.npos || element.find(':', colon + 1) != element.npos) return element;
  return is_port(element.substr(colon + 1)) ? element.substr(0, colon) : std::string_view{};
}

}  // namespace

void set_forwarded_client(Exchange& exchange, const TrustedProxies& proxies) {
  Request& request = exchange.request;
  request.from_proxy = true;
  std::size_t passed = 0;
  for_each_from_last(request, proxies.client_field, [&](std::string_view element) {
    const std::string_view address = address_of(element);
    const auto ip = core::Ip::parse(address);
    if (!ip) return false;
    request.peer = address;
    return proxies.addresses.contains(*ip) && ++passed < most_proxies;
  });
  if (request.peer.contains(':')) {
    const auto address = core::Address::from_ip(request.peer, 0);
    if (address && address->family() == AF_INET) request.peer = exchange.attributes.set(Ipv4Client{address->ip()}).text;
  }
  for_each_from_last(request, "x-forwarded-proto", [&](std::string_view scheme) {
    if (same_name(scheme, "https") || same_name(scheme, "wss")) request.secure = true;
    if (same_name(scheme, "http") || same_name(scheme, "ws")) request.secure = false;
    return false;
  });
}

}  // namespace sluice::http
