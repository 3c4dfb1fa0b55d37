#include "net/tls/session.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include "base/ascii.h"

namespace sluice::net::tls {
namespace {

constexpr std::size_t record_bytes = 16 * 1024;  // the maximum size of one record
// The bytes encrypted before each system call. With the TLS overhead they fit into one kernel packet of 64 KiB
// including headers.
constexpr std::size_t batch_bytes = 4 * record_bytes - 512;
// A peer may send only alerts, key updates and refused renegotiations, without data. These limit how many of them may
// come in a row, and how many bytes of answers to them may wait to be sent.
constexpr int most_reads_without_data = 32;
constexpr std::size_t most_unsent = 4 * batch_bytes;
constexpr std::size_t longest_subject = 200;  // of a refused certificate, in the log

bool is_address(const std::string& host) {
  unsigned char bytes[16];
  return ::inet_pton(AF_INET, host.c_str(), bytes) == 1 || ::inet_pton(AF_INET6, host.c_str(), bytes) == 1;
}

void add_names(X509* certificate, std::vector<PeerCertificate::Name>& names) {
  using Kind = PeerCertificate::Kind;
  auto* const all = static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  for (int i = 0; all != nullptr && i < sk_GENERAL_NAME_num(all); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(all, i);
    if (name->type != GEN_DNS && name->type != GEN_EMAIL && name->type != GEN_URI) continue;
    const ASN1_STRING* const value = name->d.ia5;
    std::string text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(value)),
                     static_cast<std::size_t>(ASN1_STRING_length(value)));
    if (text.contains('\0')) continue;
    if (name->type == GEN_URI) {
      names.push_back({Kind::uri, std::move(text)});
    } else if (name->type == GEN_DNS) {
      names.push_back({Kind::dns, to_lower(text)});
    } else {
      const std::size_t local = text.rfind('@') == text.npos ? 0 : text.rfind('@');
      names.push_back({Kind::email, text.substr(0, local) + to_lower(std::string_view(text).substr(local))});
    }
  }
  GENERAL_NAMES_free(all);
  ERR_clear_error();
}

SSL* new_ssl(SSL_CTX* context) {
  SSL* ssl = SSL_new(context);
  if (ssl == nullptr) throw std::bad_alloc();
  return ssl;
}

}  // namespace

// The socket as a BIO for OpenSSL.
struct Transport {
  static Session& session_of(BIO* bio) { return *static_cast<Session*>(BIO_get_data(bio)); }

  static int read(BIO* bio, char* into, int size) {
    Session& session = session_of(bio);
    BIO_clear_retry_flags(bio);
    if (session.handle_.may_read) {
      const core::Io io = session.reactor_.recv(session.handle_, into, static_cast<std::size_t>(size));
      if (io.ok() && io.bytes != 0) {
        session.received_ = true;
        return static_cast<int>(io.bytes);
      }
      if (io.ok()) session.transport_ended_ = true;
      if (!io.ok() && !io.would_block()) session.transport_error_ = io.error;
    }
    // The end is not reported to OpenSSL, which would then refuse to write; answers may still have to be sent.
    session.blocked_ = true;
    BIO_set_retry_read(bio);
    return -1;
  }

  static int write(BIO* bio, const char* bytes, int size) {
    BIO_clear_retry_flags(bio);
    session_of(bio).core_.cipher.append({bytes, static_cast<std::size_t>(size)});
    return size;
  }

  static long control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static const BIO_METHOD* method() {
    static const BIO_METHOD* const made = [] {
      BIO_METHOD* fresh = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "sluice");
      if (fresh == nullptr) throw std::bad_alloc();
      BIO_meth_set_read(fresh, &Transport::read);
      BIO_meth_set_write(fresh, &Transport::write);
      BIO_meth_set_ctrl(fresh, &Transport::control);
      return fresh;
    }();
    return made;
  }
};

void Session::FreeSsl::operator()(ssl_st* ssl) const { SSL_free(ssl); }

Session::Session(std::shared_ptr<const void> context, ssl_st* ssl, CoreState& core, core::Reactor& reactor,
                 core::Handle& handle)
    : context_(std::move(context)), ssl_(ssl), core_(core), reactor_(reactor), handle_(handle) {
  BIO* bio = BIO_new(Transport::method());
  if (bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl, bio, bio);
  SSL_set_app_data(ssl, &core_);
}

Session::Session(std::shared_ptr<const ServerContext> context, CoreState& core, core::Reactor& reactor,
                 core::Handle& handle)
    : Session(context, new_ssl(context->get()), core, reactor, handle) {
  SSL_set_accept_state(ssl_.get());
}

Session::Session(std::shared_ptr<const ClientContext> context, const std::string& host, CoreState& core,
                 core::Reactor& reactor, core::Handle& handle, Resumption* resumption)
    : Session(context, new_ssl(context->get()), core, reactor, handle) {
  SSL* const ssl = ssl_.get();
  SSL_set_connect_state(ssl);
  if (resumption != nullptr) {
    SSL_set_ex_data(ssl, resumption_index(), resumption);
    if (resumption->get() != nullptr) SSL_set_session(ssl, resumption->get());
  }
  const bool names_host = !host.empty() && !is_address(host);
  if (names_host) SSL_set_tlsext_host_name(ssl, host.c_str());
  if (context->verify() != ClientOptions::Verify::full) return;
  SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  const int set =
      names_host ? SSL_set1_host(ssl, host.c_str()) : X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host.c_str());
  // Without this check, every certificate would be accepted if the host is not a valid name.
  if (set != 1 || host.empty()) {
    ERR_clear_error();
    (void)fail(Failure::certificate, "\"" + host + "\" is no host that a certificate could be for");
  }
}

Session::~Session() {
  // OpenSSL would not resume a session if one of its connections ended without close_notify.
  if (failure_ == Failure::none && established_)
    SSL_set_shutdown(ssl_.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
}

core::Io Session::fail(Failure failure, std::string text) {
  if (failure_ == Failure::none) {
    failure_ = failure;
    failure_text_ = std::move(text);
  }
  more_ = true;  // the next read reports the failure
  return {.error = failure_ == Failure::closed ? ECONNRESET : EPROTO};
}

core::Io Session::fail_by_openssl() {
  const unsigned long error = ERR_peek_last_error();
  const int reason = ERR_GET_REASON(error);
  Failure failure = Failure::protocol;
  if (ERR_GET_LIB(error) == ERR_LIB_SSL) {
    if (reason >= SSL_AD_REASON_OFFSET) {
      failure = Failure::refused;
    } else if (reason == SSL_R_HTTP_REQUEST) {
      failure = Failure::plain_http;
    } else if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED || reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
      failure = Failure::certificate;
    }
  }
  const char* complaint = ERR_reason_error_string(error);
  std::string text = complaint != nullptr ? complaint : "unknown error";
  const long verified = SSL_get_verify_result(ssl_.get());
  if (failure == Failure::certificate && verified != X509_V_OK) {
    text += std::string(": ") + X509_verify_cert_error_string(verified);
    if (!core_.refused.empty()) text += " (" + core_.refused.substr(0, longest_subject) + ")";
  }
  core_.refused.clear();
  ERR_clear_error();
  return fail(failure, std::move(text));
}

core::Io Session::send(Buffer& bytes) {
  while (!bytes.empty()) {
    if (!handle_.may_write) return {.error = EAGAIN};
    const iovec part{bytes.data(), bytes.size()};
    const core::Io io = reactor_.send(handle_, {&part, 1});
    if (!io.ok()) return io;
    bytes.consume(io.bytes);
  }
  return {};
}

core::Io Session::flush() {
  if (!unsent_.empty()) {
    const core::Io io = send(unsent_);
    if (!io.ok()) {
      if (io.would_block()) unsent_.append(core_.cipher.view());
      core_.cipher.clear();
      return io;
    }
    unsent_.release();
  }
  const core::Io io = send(core_.cipher);
  if (io.would_block()) unsent_.append(core_.cipher.view());
  core_.cipher.clear();
  return io;
}

Session::Step Session::handshake() {
  if (failure_ != Failure::none) return Step::failed;
  if (!established_) {
    blocked_ = false;
    const int result = SSL_do_handshake(ssl_.get());
    if (result == 1) {
      established_ = true;
      more_ = SSL_has_pending(ssl_.get()) != 0;
      if (SSL_is_server(ssl_.get()) == 1 && has_peer_certificate()) {
        auto certificate = std::make_unique<PeerCertificate>();
        certificate->subject = peer_subject();
        add_names(SSL_get0_peer_certificate(ssl_.get()), certificate->names);
        peer_certificate_ = std::move(certificate);
      }
    } else if (!blocked_ || SSL_want(ssl_.get()) != SSL_READING) {
      (void)fail_by_openssl();
      (void)flush();  // sends the alert
      return Step::failed;
    } else if (transport_ended_ || transport_error_ != 0) {
      (void)fail(Failure::closed, "the connection was closed");
      core_.cipher.clear();
      return Step::failed;
    }
  }
  const core::Io io = flush();
  if (io.would_block()) return Step::want_write;
  if (!io.ok()) {
    (void)fail(Failure::closed, "the connection was closed");
    return Step::failed;
  }
  return established_ ? Step::done : Step::want_read;
}

core::Io Session::read(char* into, std::size_t size) {
  std::size_t got = 0;
  core::Io result;
  while (got < size) {
    if (failure_ != Failure::none) {
      result = fail(failure_, {});
      break;
    }
    std::size_t more = 0;
    blocked_ = false;
    if (SSL_read_ex(ssl_.get(), into + got, size - got, &more) == 1) [[likely]] {
      got += more;
      reads_without_data_ = 0;
      // Asking again would make OpenSSL allocate its buffer and find nothing.
      more_ = SSL_has_pending(ssl_.get()) != 0;
      if (!more_ && !handle_.may_read) break;
      continue;
    }
    // A fatal alert also sets the shutdown flag, but leaves OpenSSL outside its established state.
    if ((SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN) != 0 && SSL_in_init(ssl_.get()) == 0) {
      more_ = true;
      break;
    }
    if (blocked_) {
      more_ = false;
      result = {.error = EAGAIN};
      if (transport_error_ != 0) {
        result = {.error = transport_error_};
        more_ = true;
      } else if (transport_ended_) {
        result = fail(Failure::closed, "the connection was closed without a goodbye");
      }
      break;
    }
    // Records without data have been processed.
    if (SSL_want(ssl_.get()) == SSL_READING && ++reads_without_data_ <= most_reads_without_data) continue;
    result = fail_by_openssl();
    break;
  }
  if (!core_.cipher.empty()) [[unlikely]] {  // an alert
    (void)flush();
    if (unsent_.size() > most_unsent) result = fail(Failure::protocol, "the peer does not listen");
  }
  if (got != 0) return {.bytes = got};
  return result;
}

bool Session::encrypt(const char* bytes, std::size_t size) {
  std::size_t written = 0;
  // The transport accepts everything, so the result is success or a fatal error.
  if (SSL_write_ex(ssl_.get(), bytes, size, &written) == 1) [[likely]]
    return true;
  (void)fail_by_openssl();
  return false;
}

core::Io Session::write(std::span<iovec>& parts) {
  if (!handle_.may_write) return {.error = EAGAIN};
  if (!unsent_.empty()) {
    if (const core::Io io = flush(); !io.ok()) return io;
  }
  while (!parts.empty()) {
    for (std::size_t batch = 0; batch < batch_bytes && !parts.empty();) {
      const char* bytes = static_cast<const char*>(parts[0].iov_base);
      std::size_t size = std::min(parts[0].iov_len, batch_bytes - batch);
      if (size < record_bytes && parts.size() > 1) {
        // Several parts are combined into one record.
        Buffer& plain = core_.plain;
        plain.clear();
        char* const into = plain.reserve(record_bytes);
        size = 0;
        while (!parts.empty() && size < record_bytes) {
          const std::size_t taken = std::min(parts[0].iov_len, record_bytes - size);
          if (taken != 0) std::memcpy(into + size, parts[0].iov_base, taken);
          size += taken;
          parts[0].iov_base = static_cast<char*>(parts[0].iov_base) + taken;
          parts[0].iov_len -= taken;
          if (parts[0].iov_len == 0) parts = parts.subspan(1);
        }
        bytes = into;
      } else {
        if (size > record_bytes) size -= size % record_bytes;
        parts[0].iov_base = static_cast<char*>(parts[0].iov_base) + size;
        parts[0].iov_len -= size;
        if (parts[0].iov_len == 0) parts = parts.subspan(1);
      }
      if (size != 0 && !encrypt(bytes, size)) {
        (void)flush();
        return {.error = EPROTO};
      }
      batch += size;
    }
    if (const core::Io io = flush(); !io.ok()) return io;
  }
  return {};
}

core::Io Session::send_file(std::string_view& head, int file, std::uint64_t& offset, std::uint64_t& size) {
  if (!handle_.may_write) return {.error = EAGAIN};
  if (!unsent_.empty()) {
    if (const core::Io io = flush(); !io.ok()) return io;
  }
  Buffer& plain = core_.plain;
  plain.clear();
  while (!head.empty() || size != 0) {
    const std::size_t before = std::min(head.size(), batch_bytes);
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(size, batch_bytes - before));
    char* const into = plain.reserve(before + wanted);
    if (before != 0) std::memcpy(into, head.data(), before);
    const ssize_t got = wanted != 0 ? ::pread(file, into + before, wanted, static_cast<off_t>(offset)) : 0;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return {.error = errno};
    if (got == 0 && wanted != 0) return {.error = EPIPE};  // the file has become shorter
    if (!encrypt(into, before + static_cast<std::size_t>(got))) {
      (void)flush();
      return {.error = EPROTO};
    }
    head.remove_prefix(before);
    offset += static_cast<std::uint64_t>(got);
    size -= static_cast<std::uint64_t>(got);
    if (const core::Io io = flush(); !io.ok()) return io;
  }
  return {};
}

core::Io Session::end() {
  if (!std::exchange(ended_, true) && established_ && failure_ != Failure::protocol) {
    if (SSL_shutdown(ssl_.get()) < 0) ERR_clear_error();
  }
  return flush();
}

std::string_view Session::protocol() const {
  const unsigned char* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_.get(), &name, &size);
  return {reinterpret_cast<const char*>(name), size};
}

std::string_view Session::version() const { return SSL_get_version(ssl_.get()); }

bool Session::resumed() const { return SSL_session_reused(ssl_.get()) == 1; }

bool Session::has_peer_certificate() const {
  return SSL_get0_peer_certificate(ssl_.get()) != nullptr && SSL_get_verify_result(ssl_.get()) == X509_V_OK;
}

std::string Session::peer_subject() const {
  X509* const certificate = SSL_get0_peer_certificate(ssl_.get());
  if (certificate == nullptr) return {};
  return text_of(X509_get_subject_name(certificate), false);
}

std::string Session::server_end_point() const {
  X509* const certificate = SSL_get0_peer_certificate(ssl_.get());
  int hash = NID_undef;
  if (certificate == nullptr || X509_get_signature_info(certificate, &hash, nullptr, nullptr, nullptr) != 1) {
    ERR_clear_error();
    return {};
  }
  if (hash == NID_md5 || hash == NID_sha1) hash = NID_sha256;
  const EVP_MD* const algorithm = EVP_get_digestbynid(hash);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (algorithm == nullptr || X509_digest(certificate, algorithm, digest, &size) != 1) {
    ERR_clear_error();
    return {};
  }
  return {reinterpret_cast<const char*>(digest), size};
}

}  // namespace sluice::net::tls
