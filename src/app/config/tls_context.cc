#include "app/config/tls_context.h"

#include <utility>

namespace sluice::app {

std::vector<std::string> files_of(const TlsOptions& options) {
  std::vector<std::string> paths;
  for (const CertificateOptions& one : options.all_certificates()) {
    paths.insert(paths.end(), {one.cert.value, one.key.value});
  }
  if (!options.client_ca.value.empty()) paths.push_back(options.client_ca.value);
  return paths;
}

std::expected<std::shared_ptr<const net::tls::ServerContext>, CertificateProblem> make_tls_context(
    const TlsOptions& options, const std::vector<std::string>& alpn, std::vector<std::string>* warnings) {
  net::tls::ServerOptions wanted;
  const auto certificates = options.all_certificates();
  for (const CertificateOptions& one : certificates) wanted.certificates.push_back({one.cert, one.key});
  switch (options.client_auth.value) {
    case ClientAuth::off:
      wanted.client_certificate = net::tls::ClientCertificate::off;
      break;
    case ClientAuth::optional:
      wanted.client_certificate = net::tls::ClientCertificate::optional;
      break;
    case ClientAuth::require:
      wanted.client_certificate = net::tls::ClientCertificate::require;
      break;
  }
  wanted.client_ca = options.client_ca;
  wanted.crl = options.crl.value;
  wanted.tls12 = options.min_version == TlsVersion::tls12;
  wanted.alpn = alpn;

  auto made = net::tls::ServerContext::make(wanted);
  if (!made) {
    using File = net::tls::Problem::File;
    const net::tls::Problem& problem = made.error();
    Position position = options.position;
    if (problem.file == File::certificate) position = certificates[problem.certificate].cert.position;
    if (problem.file == File::key) position = certificates[problem.certificate].key.position;
    if (problem.file == File::ca) position = options.client_ca.position;
    return std::unexpected(CertificateProblem{position, problem.text});
  }
  if (warnings != nullptr) {
    for (const auto& warning : (*made)->warnings()) warnings->push_back(warning.text);
  }
  return std::move(*made);
}

}  // namespace sluice::app
