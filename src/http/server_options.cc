#include "http/server_options.h"

namespace sluice::http {

std::vector<std::string> alpn_protocols(bool http1, bool http2) {
  std::vector<std::string> offered;
  if (http2) offered.emplace_back("h2");
  if (http1) offered.emplace_back("http/1.1");
  return offered;
}

}  // namespace sluice::http
