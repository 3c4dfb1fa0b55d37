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
#include "net/tls/peer_certificate.h"

struct ssl_st;
struct bio_st;

namespace sluice::net::tls {

// Why a handshake, or the connection after it, failed.
enum class Failure : std::uint8_t {
  none,
  closed,       // the peer has closed the connection
  plain_http,   // the peer speaks HTTP without TLS
  protocol,     // the peer does not send TLS, or there is no common version, cipher or ALPN protocol
  certificate,  // the peer's certificate is missing or not trusted
  refused,      // the peer has sent an alert, for example because it rejects our certificate
};

// The TLS layer of one connection (RFC 5246, RFC 8446) over its reactor's socket. Every call is an attempt, like the
// reactor's: it returns at once, with EAGAIN if it would have to wait for the handle. Received bytes go from the socket
// straight into OpenSSL's buffer. Bytes to send are collected in the core's buffer, and one system call sends several
// records.
//
// A read returns 0 bytes only if the peer has sent close_notify. A connection that ends without it is ECONNRESET. Bytes
// that TLS does not allow are EPROTO.
class Session : public core::SlabAllocated {
 public:
  // All arguments but the context must outlive the session.
  Session(std::shared_ptr<const ServerContext> context, CoreState& core, core::Reactor& reactor, core::Handle& handle);
  // `host`: the name or address that the certificate must match if the context requires it. `resumption`: for `host`;
  // null: every handshake is a full one.
  Session(std::shared_ptr<const ClientContext> context, const std::string& host, CoreState& core,
          core::Reactor& reactor, core::Handle& handle, Resumption* resumption = nullptr);
  Session(const Session&) = delete;
  ~Session();

  enum class Step : std::uint8_t { done, want_read, want_write, failed };
  [[nodiscard]] Step handshake();
  [[nodiscard]] bool has_received() const { return received_; }  // any bytes from the peer

  // A read may succeed even if the handle's may_read is not set.
  [[nodiscard]] bool has_more() const { return more_; }
  [[nodiscard]] core::Io read(char* into, std::size_t size);
  // Success: the kernel has accepted all bytes. `parts`, or the range, advances as bytes are accepted.
  [[nodiscard]] core::Io write(std::span<iovec>& parts);
  [[nodiscard]] core::Io send_file(std::string_view& head, int file, std::uint64_t& offset, std::uint64_t& size);
  // Encrypted bytes wait to be sent. write() sends them, even without parts.
  [[nodiscard]] bool has_unsent() const { return !unsent_.empty(); }
  // Sends close_notify. Success: the kernel has accepted it.
  [[nodiscard]] core::Io end();

  [[nodiscard]] Failure failure() const { return failure_; }
  [[nodiscard]] const std::string& failure_text() const { return failure_text_; }  // for logs

  // Valid once established.
  [[nodiscard]] std::string_view protocol() const;  // chosen by ALPN; empty: none
  [[nodiscard]] std::string_view version() const;   // "TLSv1.3"
  [[nodiscard]] bool resumed() const;
  [[nodiscard]] bool has_peer_certificate() const;  // a verified one
  // The subject of the peer's certificate in RFC 2253 format, in UTF-8: "CN=example.org"; empty if it has sent none.
  [[nodiscard]] std::string peer_subject() const;
  // The verified certificate of a client, for servers. Null: the client has shown none.
  [[nodiscard]] const PeerCertificate* peer_certificate() const { return peer_certificate_.get(); }
  // The channel binding tls-server-end-point (RFC 5929, 4.1) for the client: a hash of the server's certificate. Empty
  // if the certificate's signature has no hash algorithm (Ed25519).
  [[nodiscard]] std::string server_end_point() const;

 private:
  friend struct Transport;
  struct FreeSsl {
    void operator()(ssl_st* ssl) const;
  };

  Session(std::shared_ptr<const void> context, ssl_st* ssl, CoreState& core, core::Reactor& reactor,
          core::Handle& handle);
  [[nodiscard]] bool encrypt(const char* bytes, std::size_t size);
  // Sends bytes left from earlier attempts, then the core's buffer; keeps what the socket does not accept.
  [[nodiscard]] core::Io flush();
  [[nodiscard]] core::Io send(Buffer& bytes);
  core::Io fail(Failure failure, std::string text);
  core::Io fail_by_openssl();

  std::shared_ptr<const void> context_;
  std::unique_ptr<ssl_st, FreeSsl> ssl_;
  CoreState& core_;
  core::Reactor& reactor_;
  core::Handle& handle_;
  Buffer unsent_;  // records that the socket has not accepted
  std::string failure_text_;
  std::unique_ptr<const PeerCertificate> peer_certificate_;
  int reads_without_data_ = 0;    // in a row
  int transport_error_ = 0;       // the errno of a recv
  bool transport_ended_ = false;  // recv has returned the end
  bool blocked_ = false;          // the socket had no bytes during this attempt
  bool received_ = false;
  bool established_ = false;
  bool more_ = false;
  bool ended_ = false;  // close_notify was written
  Failure failure_ = Failure::none;
};

}  // namespace sluice::net::tls
