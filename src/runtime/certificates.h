#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "net/tls/context.h"
#include "runtime/file_watch.h"

namespace sluice::runtime {

// The current certificates and ticket keys of a running server. Used by one thread. It only reads files; the caller
// passes the results to the cores.
class Certificates {
 public:
  using Context = std::shared_ptr<const net::tls::ServerContext>;
  // Reads the files. The error is for the log.
  using Make = std::function<std::expected<Context, std::string>()>;
  static constexpr Duration look_every = 5s;  // how often tend() should be called

  // `context`: a new result of `make`, which reads `files`.
  Certificates(std::vector<std::string> files, Make make, Context context);

  [[nodiscard]] const Context& context() const { return context_; }
  [[nodiscard]] const std::shared_ptr<const net::tls::TicketKeys>& tickets() const { return tickets_; }

  // Reads the files again. Returns false if something is wrong with them; this is logged, and everything stays as it
  // was.
  bool reload();
  // To be called every `look_every`. Rotates the ticket keys when they are due. Reads the files again if they have
  // changed, but only after they were unchanged between two calls, so that a certificate is not loaded while its key is
  // still being written. Returns true if the context or the tickets are new.
  bool tend(Instant now);
  // As tend() now, or as reload() if `told`.
  bool tend(bool told);

 private:
  const Make make_;
  Context context_;
  std::shared_ptr<const net::tls::TicketKeys> tickets_;
  FileWatch watch_;
  Instant rotate_at_{};  // 0: the first tend() sets it
};

}  // namespace sluice::runtime
