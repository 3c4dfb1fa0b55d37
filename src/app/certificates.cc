#include "app/certificates.h"

#include <utility>

#include "base/log.h"

namespace sluice::app {

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
  wanted.tls12 = options.min_version == TlsVersion::tls12;
  wanted.alpn = alpn;

  auto made = net::tls::ServerContext::make(wanted);
  if (!made) {
    using File = net::tls::Problem::File;
    const net::tls::Problem& problem = made.error();
    Position position = options.position;
    if (problem.file == File::certificate) position = certificates[problem.certificate].cert.position;
    if (problem.file == File::key) position = certificates[problem.certificate].key.position;
    if (problem.file == File::client_ca) position = options.client_ca.position;
    return std::unexpected(CertificateProblem{position, problem.text});
  }
  if (warnings != nullptr) {
    for (const auto& warning : (*made)->warnings()) warnings->push_back(warning.text);
  }
  return std::move(*made);
}

Certificates::Certificates(const TlsOptions& options, std::vector<std::string> alpn,
                           std::shared_ptr<const net::tls::ServerContext> context)
    : options_(options), alpn_(std::move(alpn)), context_(std::move(context)), tickets_(net::tls::TicketKeys::make()) {
  read_ = seen_ = look();
}

bool Certificates::reload() {
  read_ = seen_ = look();  // first: what changes while they are read will be seen
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
  auto current = look();
  const bool stands_still = current == seen_;
  const bool changed = current != read_;
  seen_ = std::move(current);
  if (changed && stands_still && reload()) fresh = true;
  return fresh;
}

std::vector<Certificates::Stamp> Certificates::look() const {
  std::vector<Stamp> stamps;
  const auto add = [&](const std::string& path) {
    struct stat status{};
    Stamp stamp;
    if (::stat(path.c_str(), &status) == 0) {
      stamp = {status.st_dev, status.st_ino, status.st_size,
               std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
    }
    stamps.push_back(stamp);
  };
  for (const CertificateOptions& one : options_.all_certificates()) {
    add(one.cert);
    add(one.key);
  }
  if (!options_.client_ca.value.empty()) add(options_.client_ca);
  return stamps;
}

}  // namespace sluice::app
