#pragma once

#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "app/config/tls_options.h"
#include "base/declare.h"
#include "net/tls/context.h"

namespace sluice::app {

// An error in the files of [server.tls]. `position`: the key that names the file.
struct CertificateProblem {
  Position position;
  std::string text;
};

// Reads the files. `alpn`: the protocols to offer, in order of preference. `warnings`: if not null, receives problems
// that do not prevent serving.
[[nodiscard]] std::expected<std::shared_ptr<const net::tls::ServerContext>, CertificateProblem> make_tls_context(
    const TlsOptions& options, const std::vector<std::string>& alpn, std::vector<std::string>* warnings = nullptr);

// The files that make_tls_context() reads.
[[nodiscard]] std::vector<std::string> files_of(const TlsOptions& options);

}  // namespace sluice::app
