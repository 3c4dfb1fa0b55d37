#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <sys/uio.h>

#include "base/buffer.h"
#include "core/reactor.h"
#include "core/slab.h"
#include "net/tls/context.h"

struct ssl_st;
struct bio_st;

namespace sluice::net::tls {

// Why a handshake, or what came after it, has failed.
enum class Failure : std::uint8_t {
  none,
  closed,       // the peer has gone
  plain_http,   // the peer speaks HTTP without TLS
  protocol,     // what the peer sends is no TLS, or there is no version, cipher or ALPN protocol in common
  certificate,  // the peer's certificate is missing or not trusted
  refused,      // the peer has sent an alert: it does not like our certificate, say
};

// One connection's TLS (RFC 5246, RFC 8446) over its reactor's socket. Every call is an attempt, as the reactor's own
// are: it returns at once, with EAGAIN where it would have to wait for the handle. What comes is read from the socket
// straight into OpenSSL's buffer; what goes gathers in the core's, and leaves in one system call for several records.
//
// The end of the peer's stream is 0 bytes only where the peer has said so (close_notify); a connection that just ends
// is ECONNRESET. Bytes that TLS does not allow are EPROTO.
class Session : public core::SlabAllocated {
 public:
  // All but the context outlive the session.
  Session(std::shared_ptr<const ServerContext> context, CoreState& core, core::Reactor& reactor, core::Handle& handle);
  // `host`: a name, or an address, that the certificate must be for if the context says so.
  Session(std::shared_ptr<const ClientContext> context, const std::string& host, CoreState& core,
          core::Reactor& reactor, core::Handle& handle);
  Session(const Session&) = delete;
  ~Session();

  enum class Step : std::uint8_t { done, want_read, want_write, failed };
  [[nodiscard]] Step handshake();
  [[nodiscard]] bool has_received() const { return received_; }  // anything at all

  // Reading is worth an attempt although the handle may not say so.
  [[nodiscard]] bool has_more() const { return more_; }
  [[nodiscard]] core::Io read(char* into, std::size_t size);
  // Success: all of it is with the kernel. The parts, or the range, move on as they are taken.
  [[nodiscard]] core::Io write(std::span<iovec>& parts);
  [[nodiscard]] core::Io send_file(std::string_view& head, int file, std::uint64_t& offset, std::uint64_t& size);
  // Something is encrypted and not with the kernel yet: write() goes on with it, also without parts.
  [[nodiscard]] bool has_unsent() const { return !unsent_.empty(); }
  // Says that nothing follows (close_notify). Success: it is with the kernel.
  [[nodiscard]] core::Io end();

  [[nodiscard]] Failure failure() const { return failure_; }
  [[nodiscard]] const std::string& failure_text() const { return failure_text_; }  // for logs

  // Once established.
  [[nodiscard]] std::string_view protocol() const;  // chosen by ALPN; empty: none
  [[nodiscard]] std::string_view version() const;   // "TLSv1.3"
  [[nodiscard]] bool resumed() const;
  [[nodiscard]] bool has_peer_certificate() const;  // and it was verified
  // Of the peer's certificate, as RFC 2253 writes it: "CN=example.org"; empty: it has shown none.
  [[nodiscard]] std::string peer_subject() const;
  // The channel binding tls-server-end-point (RFC 5929, 4.1) of the client's side: a hash of the server's certificate.
  // Empty where the certificate's signature names no hash (Ed25519).
  [[nodiscard]] std::string server_end_point() const;

 private:
  friend struct Transport;
  struct FreeSsl {
    void operator()(ssl_st* ssl) const;
  };

  Session(std::shared_ptr<const void> context, ssl_st* ssl, CoreState& core, core::Reactor& reactor,
          core::Handle& handle);
  [[nodiscard]] bool encrypt(const char* bytes, std::size_t size);
  // Sends what is left of earlier attempts, then the core's buffer; keeps what the socket does not take.
  [[nodiscard]] core::Io flush();
  [[nodiscard]] core::Io send(Buffer& bytes);
  core::Io fail(Failure failure, std::string text);
  core::Io fail_by_openssl();

  std::shared_ptr<const void> context_;
  std::unique_ptr<ssl_st, FreeSsl> ssl_;
  CoreState& core_;
  core::Reactor& reactor_;
  core::Handle& handle_;
  Buffer unsent_;  // records that the socket has not taken
  std::string failure_text_;
  int reads_without_data_ = 0;    // in a row
  int transport_error_ = 0;       // the errno of a recv
  bool transport_ended_ = false;  // recv has given the end
  bool blocked_ = false;          // the socket had nothing, within this attempt
  bool received_ = false;
  bool established_ = false;
  bool more_ = false;
  bool ended_ = false;  // close_notify was written
  Failure failure_ = Failure::none;
};

}  // namespace sluice::net::tls
