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

// What is wrong with the files of [server.tls], and which of its keys names the culprit.
struct CertificateProblem {
  Position position;
  std::string text;
};

// Reads the files. `alpn`: the protocols on offer, the preferred first. `warnings`: where not null, what works and may
// still be a mistake.
[[nodiscard]] std::expected<std::shared_ptr<const net::tls::ServerContext>, CertificateProblem> make_tls_context(
    const TlsOptions& options, const std::vector<std::string>& alpn, std::vector<std::string>* warnings = nullptr);

// The certificates and ticket keys that a running server uses, and their successors. It belongs to the thread that
// tends it, and only reads files: whoever asks hands the results to the cores.
class Certificates {
 public:
  static constexpr Duration look_every = 5s;  // how often tend() should be called

  // `context`: what make_tls_context() has made of the same options just before.
  Certificates(const TlsOptions& options, std::vector<std::string> alpn,
               std::shared_ptr<const net::tls::ServerContext> context);

  [[nodiscard]] bool are_of(const TlsOptions& options, const std::vector<std::string>& alpn) const;
  [[nodiscard]] const std::shared_ptr<const net::tls::ServerContext>& context() const { return context_; }
  [[nodiscard]] const std::shared_ptr<const net::tls::TicketKeys>& tickets() const { return tickets_; }

  // Reads the files again. False: something is wrong with them, which is logged, and all stays as it was.
  bool reload();
  // Once in a while: changes the ticket keys when it is time, and reads the files again when they have changed and then
  // stood still from one call to the next, so that nobody meets a certificate whose key is still being written. True:
  // there is something new.
  bool tend(Instant now);

 private:
  const TlsOptions options_;
  const std::vector<std::string> alpn_;
  std::shared_ptr<const net::tls::ServerContext> context_;
  std::shared_ptr<const net::tls::TicketKeys> tickets_;
  FileWatch watch_;
  Instant rotate_at_{};  // 0: the first tend() says what time it is
};

}  // namespace sluice::app
