#include "app/certificates.h"

#include <utility>

#include "app/config/difference.h"
#include "base/log.h"

namespace sluice::app {
namespace {

std::vector<std::string> files_of(const TlsOptions& options) {
  std::vector<std::string> paths;
  for (const CertificateOptions& one : options.all_certificates()) {
    paths.insert(paths.end(), {one.cert.value, one.key.value});
  }
  if (!options.client_ca.value.empty()) paths.push_back(options.client_ca.value);
  return paths;
}

}  // namespace

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

Certificates::Certificates(const TlsOptions& options, std::vector<std::string> alpn,
                           std::shared_ptr<const net::tls::ServerContext> context)
    : options_(options),
      alpn_(std::move(alpn)),
      context_(std::move(context)),
      tickets_(net::tls::TicketKeys::make()),
      watch_(files_of(options)) {}

bool Certificates::are_of(const TlsOptions& options, const std::vector<std::string>& alpn) const {
  return config::first_difference(options_, options).empty() && alpn_ == alpn;
}

bool Certificates::reload() {
  watch_.reading();
  std::vector<std::string> warnings;
  auto made = make_tls_context(options_, alpn_, &warnings);
  if (!made) {
    log_error("certificates: " + made.error().text + "; those from before stay in use");
    return false;
  }
  for (const std::string& warning : warnings) log_error("certificates: " + warning);
  log_error("certificates: read again");
  context_ = std::move(*made);
  return true;
}

bool Certificates::tend(Instant now) {
  bool fresh = false;
  const auto rotation = std::chrono::seconds(net::tls::TicketKeys::rotation_s);
  if (rotate_at_ == Instant{}) rotate_at_ = now + rotation;
  if (now >= rotate_at_) {
    tickets_ = tickets_->rotated();
    rotate_at_ = now + rotation;
    fresh = true;
  }
  if (watch_.changed() && reload()) fresh = true;
  return fresh;
}

}  // namespace sluice::app
