// The PROXY protocol's header. The parser asks for no bytes beyond it, and a header cut at any byte is incomplete.

#include <cstdint>
#include <string_view>

#include "core/address.h"
#include "core/ip_ranges.h"
#include "fuzzing.h"
#include "http/proxy_header.h"

using sluice::fuzz::require;
using sluice::http::ProxyHeader;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  std::size_t taken = 0;
  ProxyHeader header = ProxyHeader::parse({});
  while (header.state == ProxyHeader::State::need_more && taken + header.wanted <= input.size()) {
    require(header.wanted != 0 && header.client.empty(), "nothing is wanted");
    taken += header.wanted;
    require(taken <= 4096, "a header without end");
    header = ProxyHeader::parse(input.substr(0, taken));
  }
  if (header.state != ProxyHeader::State::complete) return 0;
  require(header.client.empty() || sluice::core::Ip::parse(header.client).has_value(), "a client without an address");
  for (std::size_t cut = 0; cut < taken; ++cut) {
    const ProxyHeader part = ProxyHeader::parse(input.substr(0, cut));
    require(part.state == ProxyHeader::State::need_more && cut + part.wanted <= taken, "it asks for too much");
  }
  return 0;
}
