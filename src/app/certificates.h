#pragma once

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <vector>

#include "app/file_watch.h"
#include "app/tls_options.h"
#include "base/declare.h"
#include "base/time.h"
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

// The current certificates and ticket keys of a running server. Used by one thread. It only reads files; the caller
// passes the results to the cores.
class Certificates {
 public:
  static constexpr Duration look_every = 5s;  // how often tend() should be called

  // `context`: a new result of make_tls_context() for the same options.
  Certificates(const TlsOptions& options, std::vector<std::string> alpn,
               std::shared_ptr<const net::tls::ServerContext> context);

  [[nodiscard]] bool are_of(const TlsOptions& options, const std::vector<std::string>& alpn) const;
  [[nodiscard]] const std::shared_ptr<const net::tls::ServerContext>& context() const { return context_; }
  [[nodiscard]] const std::shared_ptr<const net::tls::TicketKeys>& tickets() const { return tickets_; }

  // Reads the files again. Returns false if something is wrong with them; this is logged, and everything stays as it
  // was.
  bool reload();
  // To be called every `look_every`. Rotates the ticket keys when they are due. Reads the files again if they have
  // changed, but only after they were unchanged between two calls, so that a certificate is not loaded while its key is
  // still being written. Returns true if the context or the tickets are new.
  bool tend(Instant now);

 private:
  const TlsOptions options_;
  const std::vector<std::string> alpn_;
  std::shared_ptr<const net::tls::ServerContext> context_;
  std::shared_ptr<const net::tls::TicketKeys> tickets_;
  FileWatch watch_;
  Instant rotate_at_{};  // 0: the first tend() sets it
};

}  // namespace sluice::app
