#include "gateway/mtls/policy.h"

#include <algorithm>
#include <string_view>

#include "base/ascii.h"

namespace sluice::gateway::mtls {

MtlsPolicy::MtlsPolicy(const Options& options) : admits_all_(options.subject.empty() && options.san.empty()) {
  for (const auto& subject : options.subject) subjects_.insert(subject.value);
  for (const auto& name : options.san) {
    const std::string& text = name.value;
    const auto add = [&](Certificate::Kind kind, std::string one) {
      names_[static_cast<std::size_t>(kind)].insert(std::move(one));
    };
    if (text.contains(':')) {
      add(Certificate::Kind::uri, text);
    } else if (const auto at = text.rfind('@'); at != text.npos) {
      add(Certificate::Kind::email, text.substr(0, at) + to_lower(std::string_view(text).substr(at)));
    } else if (text.starts_with("*.")) {
      below_.insert(to_lower(std::string_view(text).substr(1)));
    } else {
      add(Certificate::Kind::dns, to_lower(text));
    }
  }
}

bool MtlsPolicy::admits(const Certificate& certificate) const {
  if (admits_all_ || subjects_.contains(certificate.subject)) return true;
  return std::ranges::any_of(certificate.names, [&](const Certificate::Name& name) {
    if (names_[static_cast<std::size_t>(name.kind)].contains(name.text)) return true;
    if (name.kind != Certificate::Kind::dns) return false;
    const auto dot = name.text.find('.');
    return dot != 0 && dot != name.text.npos && below_.contains(std::string_view(name.text).substr(dot));
  });
}

core::Async<std::optional<http::Response>> MtlsPolicy::before(http::Exchange& exchange, http::Slot&) {
  const Certificate* const certificate = exchange.request.certificate;
  if (certificate == nullptr) {
    ++missing_;
    return std::optional(http::problem(403, "The client has shown no certificate on this connection."));
  }
  if (admits(*certificate)) return std::optional<http::Response>();
  ++other_names_;
  return std::optional(http::problem(403, "Clients with this certificate may not come here."));
}

Readings MtlsPolicy::readings() const {
  const auto refusals = [](std::string_view reason, std::uint64_t count) {
    return counter("sluice_mtls_refusals_total", "Requests that were refused for their client's certificate.",
                   static_cast<double>(count), label("reason", reason));
  };
  return {refusals("missing", missing_), refusals("name", other_names_)};
}

}  // namespace sluice::gateway::mtls
