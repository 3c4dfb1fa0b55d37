#include "net/tls/context.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <ctime>
#include <iterator>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <unistd.h>

#include "base/ascii.h"
#include "base/free.h"
#include "base/log.h"
#include "core/whole_file.h"

namespace sluice::net::tls {
namespace {

using Bio = std::unique_ptr<BIO, Free<BIO_free>>;
using Certificate = std::unique_ptr<X509, Free<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Free<EVP_PKEY_free>>;
struct FreeChain {
  void operator()(STACK_OF(X509) * chain) const { sk_X509_pop_free(chain, X509_free); }
};
using Chain = std::unique_ptr<STACK_OF(X509), FreeChain>;
struct FreeInfos {
  void operator()(STACK_OF(X509_INFO) * infos) const { sk_X509_INFO_pop_free(infos, X509_INFO_free); }
};
using Infos = std::unique_ptr<STACK_OF(X509_INFO), FreeInfos>;
struct FreeNames {
  void operator()(GENERAL_NAMES* names) const { GENERAL_NAMES_free(names); }
};
using Names = std::unique_ptr<GENERAL_NAMES, FreeNames>;

// Mozilla's "intermediate" without finite-field Diffie-Hellman.
constexpr const char* tls12_ciphers =
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"
    "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
constexpr const char* tls13_ciphers = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr const char* groups = "X25519:P-256:P-384";

// The last error of OpenSSL; clears its error queue.
std::string last_complaint() {
  const unsigned long error = ERR_peek_last_error();
  const char* reason = error != 0 ? ERR_reason_error_string(error) : nullptr;
  std::string text = reason != nullptr ? reason : "unknown error";
  ERR_clear_error();
  return text;
}

// Used instead of OpenSSL's prompt on the terminal.
int no_passphrase(char*, int, int, void*) { return -1; }

std::expected<std::string, std::string> read_file(const std::string& path) {
  constexpr std::size_t largest_file = 16 << 20;
  auto text = core::read_whole_file(path, largest_file);
  if (!text) return std::unexpected(path + " " + text.error());
  return text;
}

Bio memory_of(std::string_view text) {
  Bio memory(BIO_new(BIO_s_secmem()));
  const auto size = static_cast<int>(text.size());
  if (!memory || (size != 0 && BIO_write(memory.get(), text.data(), size) != size)) throw std::bad_alloc();
  BIO_set_mem_eof_return(memory.get(), 0);
  return memory;
}

std::expected<Bio, std::string> open_file(const std::string& path) {
  auto text = read_file(path);
  if (!text) return std::unexpected(std::move(text.error()));
  Bio memory = memory_of(*text);
  OPENSSL_cleanse(text->data(), text->size());
  return memory;
}

struct CertificateChain {
  Certificate leaf;
  Chain rest;
};

std::expected<CertificateChain, std::string> read_certificates(const std::string& path) {
  auto file = open_file(path);
  if (!file) return std::unexpected(file.error());
  CertificateChain read{Certificate(PEM_read_bio_X509_AUX(file->get(), nullptr, no_passphrase, nullptr)),
                        Chain(sk_X509_new_null())};
  if (!read.leaf) {
    ERR_clear_error();
    return std::unexpected(path + " holds no PEM certificate");
  }
  while (X509* next = PEM_read_bio_X509(file->get(), nullptr, no_passphrase, nullptr)) {
    if (sk_X509_push(read.rest.get(), next) == 0) throw std::bad_alloc();
  }
  const bool ended = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  if (!ended) return std::unexpected(path + " holds a broken certificate: " + last_complaint());
  ERR_clear_error();
  return read;
}

std::expected<PrivateKey, std::string> read_key(const std::string& path) {
  auto file = open_file(path);
  if (!file) return std::unexpected(file.error());
  PrivateKey key(PEM_read_bio_PrivateKey(file->get(), nullptr, no_passphrase, nullptr));
  if (key) return key;
  const unsigned long error = ERR_peek_error();
  const bool has_passphrase = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_BAD_PASSWORD_READ ||
                              ERR_GET_REASON(error) == PEM_R_BAD_PASSWORD_READ;
  ERR_clear_error();
  return std::unexpected(path +
                         (has_passphrase ? " holds a key that needs a passphrase" : " holds no PEM private key"));
}

// The host names of a certificate, in lower case and sorted.
std::vector<std::string> names_of(X509* certificate) {
  std::vector<std::string> names;
  const Names alternatives(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; alternatives && i < sk_GENERAL_NAME_num(alternatives.get()); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(alternatives.get(), i);
    if (name->type != GEN_DNS) continue;
    const ASN1_STRING* text = name->d.dNSName;
    const std::string_view view(reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
                                static_cast<std::size_t>(ASN1_STRING_length(text)));
    if (view.find('\0') == view.npos) names.push_back(to_lower(view));
  }
  if (!alternatives) {
    char common_name[256];
    const int size =
        X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, common_name, sizeof common_name);
    if (size > 0) names.push_back(to_lower({common_name, static_cast<std::size_t>(size)}));
  }
  ERR_clear_error();
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string date_of(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) == 0) return "an unknown date";
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

// The end of the certificate's validity; Unix time.
std::int64_t end_of(const X509* certificate) {
  std::tm parts{};
  return ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &parts) == 1 ? timegm(&parts) : 0;
}

Expiry expiry_of(const std::string& file, const CertificateChain& read) {
  std::int64_t first = end_of(read.leaf.get());
  for (int i = 0; i < sk_X509_num(read.rest.get()); ++i) {
    first = std::min(first, end_of(sk_X509_value(read.rest.get(), i)));
  }
  return {file, first};
}

// Problems of a certificate that can be served nevertheless.
std::vector<std::string> oddities(const std::string& path, const CertificateChain& read) {
  std::vector<std::string> found;
  const ASN1_TIME* end = X509_get0_notAfter(read.leaf.get());
  const ASN1_TIME* begin = X509_get0_notBefore(read.leaf.get());
  if (X509_cmp_current_time(end) < 0) {
    found.push_back(path + " has expired on " + date_of(end));
  } else {
    std::time_t soon = std::time(nullptr) + 7 * 24 * 60 * 60;
    if (X509_cmp_time(end, &soon) < 0) found.push_back(path + " expires on " + date_of(end));
  }
  if (X509_cmp_current_time(begin) > 0) found.push_back(path + " is not valid before " + date_of(begin));
  X509* below = read.leaf.get();
  for (int i = 0; i < sk_X509_num(read.rest.get()); ++i) {
    X509* issuer = sk_X509_value(read.rest.get(), i);
    if (X509_check_issued(issuer, below) != X509_V_OK) {
      found.push_back(path + " holds a chain in disorder: certificate " + std::to_string(i + 2) +
                      " has not issued the one before it");
      break;
    }
    below = issuer;
  }
  ERR_clear_error();
  return found;
}

std::string wire_format(const std::vector<std::string>& protocols) {
  std::string wire;
  for (const std::string& protocol : protocols) {
    if (protocol.empty() || protocol.size() > 255) throw std::invalid_argument("not an ALPN protocol");
    wire += static_cast<char>(protocol.size());
    wire += protocol;
  }
  return wire;
}

// The common settings of servers and clients.
void configure(SSL_CTX* context) {
  SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  // Idle connections hold no buffers. A record without data ends a read, to distinguish a peer that sends only such
  // records from a silent one.
  SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_read_ahead(context, 1);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  if (SSL_CTX_set_cipher_list(context, tls12_ciphers) != 1 || SSL_CTX_set_ciphersuites(context, tls13_ciphers) != 1 ||
      SSL_CTX_set1_groups_list(context, groups) != 1) {
    throw std::runtime_error("OpenSSL knows no modern ciphers: " + last_complaint());
  }
}

SSL_CTX* new_context(const SSL_METHOD* method) {
  SSL_CTX* context = SSL_CTX_new(method);
  if (context == nullptr) throw std::runtime_error("OpenSSL: " + last_complaint());
  return context;
}

// The index at which an SSL_CTX stores its Revocation.
int revocation_index() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

// Whether an error at the chain's last certificate says only that no valid list is about that certificate. It is
// trusted because the file has it, and the list of its own issuer may be missing.
bool is_about_anchor(X509_STORE_CTX* store, int error) {
  if (X509_STORE_CTX_get_error_depth(store) != sk_X509_num(X509_STORE_CTX_get0_chain(store)) - 1) return false;
  return error == X509_V_ERR_UNABLE_TO_GET_CRL || error == X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER;
}

// Called by OpenSSL for each certificate of a chain. Returns whether the verification goes on.
int judge_certificate(int is_good, X509_STORE_CTX* store) {
  if (is_good == 1) return 1;
  auto* const ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()));
  auto& revocation = *static_cast<Revocation*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), revocation_index()));
  const int error = X509_STORE_CTX_get_error(store);
  bool accepts = is_about_anchor(store, error);
  if (!accepts && revocation.crl == Crl::soft) {
    const bool is_missing = error == X509_V_ERR_UNABLE_TO_GET_CRL;
    const bool is_expired = error == X509_V_ERR_CRL_HAS_EXPIRED || error == X509_V_ERR_CRL_NOT_YET_VALID;
    accepts = is_missing || is_expired;
    if (accepts && !(is_missing ? revocation.told_missing : revocation.told_expired).exchange(true)) {
      const X509_CRL* const list = X509_STORE_CTX_get0_current_crl(store);
      const X509* const certificate = X509_STORE_CTX_get_current_cert(store);
      const std::string issuer =
          text_of(is_missing || list == nullptr ? X509_get_issuer_name(certificate) : X509_CRL_get_issuer(list), true);
      log_error("tls: " + revocation.file +
                (is_missing ? " holds no revocation list of " + issuer + "; its certificates are accepted"
                            : " holds a revocation list of " + issuer + " that is not valid now; it still applies") +
                " (crl = \"soft\")");
    }
  }
  if (accepts) {
    X509_STORE_CTX_set_error(store, X509_V_OK);
  } else if (const X509* const certificate = X509_STORE_CTX_get_current_cert(store)) {
    static_cast<CoreState*>(SSL_get_app_data(ssl))->refused = text_of(X509_get_subject_name(certificate), true);
  }
  return accepts ? 1 : 0;
}

void verify_peers(SSL_CTX* context, int mode, Revocation& revocation) {
  SSL_CTX_set_ex_data(context, revocation_index(), &revocation);
  SSL_CTX_set_verify(context, mode, judge_certificate);
}

struct Trusted {
  std::vector<std::string> warnings;
  Expiry expiry;
};

// Makes the context trust the certificates of a PEM file and check its revocation lists. `names`: it also sends the
// names of these CAs to peers. The error says what is wrong with the file.
std::expected<Trusted, std::string> trust(SSL_CTX* context, std::string_view pem, Revocation& revocation, bool names) {
  const Bio memory = memory_of(pem);
  const Infos infos(PEM_X509_INFO_read_bio(memory.get(), nullptr, no_passphrase, nullptr));
  X509_STORE* const store = SSL_CTX_get_cert_store(context);
  std::vector<X509*> certificates;
  std::vector<X509_CRL*> lists;
  for (int i = 0; infos && i < sk_X509_INFO_num(infos.get()); ++i) {
    const X509_INFO* const info = sk_X509_INFO_value(infos.get(), i);
    if (info->x509 != nullptr) certificates.push_back(info->x509);
    if (info->crl != nullptr) lists.push_back(info->crl);
  }
  std::vector<std::string> warnings;
  for (X509_CRL* const list : lists) {
    if (X509_STORE_add_crl(store, list) != 1) throw std::bad_alloc();
    const ASN1_TIME* const end = X509_CRL_get0_nextUpdate(list);
    if (end == nullptr || X509_cmp_current_time(end) >= 0) continue;
    warnings.push_back(revocation.file + " holds a revocation list of " + text_of(X509_CRL_get_issuer(list), true) +
                       " that has expired on " + date_of(end));
    revocation.told_expired = true;
  }
  const auto is_revoked = [&](X509* certificate) {
    return std::ranges::any_of(lists, [&](X509_CRL* list) {
      X509_REVOKED* entry = nullptr;
      return X509_NAME_cmp(X509_CRL_get_issuer(list), X509_get_issuer_name(certificate)) == 0 &&
             X509_CRL_get0_by_cert(list, &entry, certificate) == 1;
    });
  };
  bool has_some = false;
  bool is_partial = false;
  for (X509* const certificate : certificates) {
    // Otherwise the chain would end at it, and its issuer's list would not be read.
    if (is_revoked(certificate)) {
      warnings.push_back(revocation.file + " revokes " + text_of(X509_get_subject_name(certificate), true) +
                         ", which is therefore not trusted");
      continue;
    }
    if (X509_STORE_add_cert(store, certificate) != 1) continue;
    if (names && SSL_CTX_add_client_CA(context, certificate) != 1) throw std::bad_alloc();
    has_some = true;
    const auto issues = [&](X509* issuer) { return X509_check_issued(issuer, certificate) == X509_V_OK; };
    is_partial |= !issues(certificate) && std::ranges::none_of(certificates, issues);
  }
  ERR_clear_error();
  if (!has_some) return std::unexpected(revocation.file + " holds no PEM certificates");
  if (lists.empty() && revocation.crl == Crl::hard) {
    return std::unexpected(revocation.file + " holds no revocation list, which crl = \"hard\" needs");
  }
  unsigned long flags = 0;
  if (!lists.empty()) flags |= X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL;
  // Trusts certificates whose issuer is not in the file. If all issuers are, chains go on to the root, so that every
  // list is read.
  if (is_partial) flags |= X509_V_FLAG_PARTIAL_CHAIN;
  X509_STORE_set_flags(store, flags);
  std::vector<std::int64_t> ends;
  std::ranges::transform(certificates, std::back_inserter(ends), end_of);
  return Trusted{std::move(warnings), {revocation.file, std::ranges::min(ends)}};
}

// SHA-256, as bytes.
std::string hash_of(std::string_view text) {
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), hash, &size, EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
  return {reinterpret_cast<const char*>(hash), size};
}

// Trusts the system's CA certificates: those that SSL_CERT_FILE and SSL_CERT_DIR name, those of the OpenSSL that this
// program was built with, or else the bundle of Debian, Red Hat, SUSE or Alpine: a program that has OpenSSL inside runs
// where OpenSSL's own folder is another one.
bool trust_system(SSL_CTX* context) {
  const bool is_named = std::getenv(X509_get_default_cert_file_env()) || std::getenv(X509_get_default_cert_dir_env());
  if (!is_named && ::access(X509_get_default_cert_dir(), R_OK) != 0 &&
      ::access(X509_get_default_cert_file(), R_OK) != 0) {
    for (const char* bundle : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                               "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"}) {
      if (::access(bundle, R_OK) == 0) return SSL_CTX_load_verify_file(context, bundle) == 1;
    }
  }
  return SSL_CTX_set_default_verify_paths(context) == 1;
}

}  // namespace

TicketKeys::Key::~Key() {
  OPENSSL_cleanse(cipher.data(), cipher.size());
  OPENSSL_cleanse(mac.data(), mac.size());
}

TicketKeys::TicketKeys() : cipher_(EVP_CIPHER_fetch(nullptr, "AES-256-CBC", nullptr)) {
  if (cipher_ == nullptr) throw std::runtime_error("OpenSSL has no AES-256-CBC: " + last_complaint());
}

TicketKeys::~TicketKeys() { EVP_CIPHER_free(cipher_); }

void TicketKeys::add_fresh() {
  const auto key = std::make_shared<Key>();
  if (RAND_bytes(key->name.data(), static_cast<int>(key->name.size())) != 1 ||
      RAND_priv_bytes(key->cipher.data(), static_cast<int>(key->cipher.size())) != 1 ||
      RAND_priv_bytes(key->mac.data(), static_cast<int>(key->mac.size())) != 1) {
    throw std::runtime_error("OpenSSL has no random bytes: " + last_complaint());
  }
  keys_.push_back(key);
}

std::shared_ptr<const TicketKeys> TicketKeys::make() {
  const std::shared_ptr<TicketKeys> made(new TicketKeys());
  made->add_fresh();
  return made;
}

std::shared_ptr<const TicketKeys> TicketKeys::rotated() const {
  const std::shared_ptr<TicketKeys> made(new TicketKeys());
  made->add_fresh();
  made->keys_.insert(made->keys_.end(), keys_.begin(),
                     keys_.begin() + static_cast<std::ptrdiff_t>(std::min(keys_.size(), most - 1)));
  return made;
}

// Callbacks for OpenSSL's handshake. The application data of an SSL_CTX is its ServerContext, of an SSL its CoreState.
struct ServerCallbacks {
  static const ServerContext& context_of(SSL* ssl) {
    return *static_cast<const ServerContext*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  }

  static int choose_certificate(SSL* ssl, int*, void*) {
    const char* host = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    if (host == nullptr) return SSL_TLSEXT_ERR_NOACK;
    SSL_CTX* found = context_of(ssl).find(host);
    if (found == nullptr) return SSL_TLSEXT_ERR_NOACK;
    if (found != SSL_get_SSL_CTX(ssl)) SSL_set_SSL_CTX(ssl, found);
    return SSL_TLSEXT_ERR_OK;
  }

  static int choose_protocol(SSL* ssl, const unsigned char** chosen, unsigned char* chosen_size,
                             const unsigned char* offered, unsigned int offered_size, void*) {
    const std::string& ours = context_of(ssl).alpn_;
    unsigned char* found = nullptr;
    // RFC 7301, 3.2: if no protocol is in common, the handshake fails.
    if (SSL_select_next_proto(&found, chosen_size, reinterpret_cast<const unsigned char*>(ours.data()),
                              static_cast<unsigned>(ours.size()), offered, offered_size) != OPENSSL_NPN_NEGOTIATED) {
      return SSL_TLSEXT_ERR_ALERT_FATAL;
    }
    *chosen = found;
    return SSL_TLSEXT_ERR_OK;
  }

  // 0: key not found, so a full handshake; 1: success; 2: success, and the client should get a new ticket.
  static int seal_ticket(SSL* ssl, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher, EVP_MAC_CTX* mac,
                         int sealing) {
    // The core's current keys, which may have been rotated since the session began. They stay valid during this call.
    const TicketKeys* tickets = static_cast<const CoreState*>(SSL_get_app_data(ssl))->tickets.get();
    if (tickets == nullptr) return 0;
    const TicketKeys::Key& current = *tickets->keys().front();
    const TicketKeys::Key* key = &current;
    if (sealing != 0) {
      std::memcpy(name, key->name.data(), key->name.size());
      if (RAND_bytes(iv, EVP_CIPHER_get_iv_length(tickets->cipher())) != 1) return -1;
    } else {
      const auto found = std::ranges::find_if(
          tickets->keys(), [&](const auto& one) { return std::memcmp(one->name.data(), name, one->name.size()) == 0; });
      if (found == tickets->keys().end()) return 0;
      key = found->get();
    }
    OSSL_PARAM parameters[] = {OSSL_PARAM_construct_octet_string(
                                   OSSL_MAC_PARAM_KEY, const_cast<unsigned char*>(key->mac.data()), key->mac.size()),
                               OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, const_cast<char*>("SHA256"), 0),
                               OSSL_PARAM_construct_end()};
    if (EVP_MAC_CTX_set_params(mac, parameters) != 1) return -1;
    if (EVP_CipherInit_ex2(cipher, tickets->cipher(), key->cipher.data(), iv, sealing, nullptr) != 1) return -1;
    // TLS 1.3 clients use a ticket only once.
    return sealing == 0 && (key != &current || SSL_version(ssl) == TLS1_3_VERSION) ? 2 : 1;
  }
};

std::expected<std::shared_ptr<const ServerContext>, Problem> ServerContext::make(const ServerOptions& options) {
  using File = Problem::File;
  const std::shared_ptr<ServerContext> made(new ServerContext());
  made->alpn_ = wire_format(options.alpn);

  // A ticket proves that its client was accepted. It must not be valid for a context with another client CA.
  std::string client_ca;
  if (options.client_certificate != ClientCertificate::off) {
    auto text = read_file(options.client_ca);
    if (!text) return std::unexpected(Problem{0, File::ca, std::move(text.error())});
    client_ca = std::move(*text);
  }
  made->revocation_.crl = options.crl;
  made->revocation_.file = options.client_ca;
  const std::string id = hash_of("sluice" + std::to_string(static_cast<int>(options.client_certificate)) +
                                 std::to_string(static_cast<int>(options.crl)) + client_ca);

  struct Group {
    std::vector<std::string> names;
    std::vector<int> key_types;
    SSL_CTX* context;
  };
  std::vector<Group> groups_of_names;
  for (std::size_t i = 0; i < options.certificates.size(); ++i) {
    const CertificateFiles& files = options.certificates[i];
    auto certificate = read_certificates(files.certificate);
    if (!certificate) return std::unexpected(Problem{i, File::certificate, certificate.error()});
    auto key = read_key(files.key);
    if (!key) return std::unexpected(Problem{i, File::key, key.error()});
    if (X509_check_private_key(certificate->leaf.get(), key->get()) != 1) {
      ERR_clear_error();
      return std::unexpected(Problem{i, File::key, files.key + " is not the key of " + files.certificate});
    }
    for (std::string& text : oddities(files.certificate, *certificate)) {
      made->warnings_.push_back({i, File::certificate, std::move(text)});
    }
    made->own_expiries_.push_back(expiry_of(files.certificate, *certificate));

    std::vector<std::string> names = names_of(certificate->leaf.get());
    const int key_type = EVP_PKEY_get_base_id(key->get());
    auto group = std::ranges::find_if(groups_of_names, [&](const Group& one) {
      return one.names == names && std::ranges::find(one.key_types, key_type) == one.key_types.end();
    });
    if (group == groups_of_names.end()) {
      SSL_CTX* context = new_context(TLS_server_method());
      made->contexts_.push_back(context);
      for (const std::string& name : names) made->names_.emplace(name, context);  // the first one counts
      group = groups_of_names.insert(group, {std::move(names), {}, context});
      configure(context);
      SSL_CTX_set_app_data(context, made.get());
      // Phones without AES instructions list ChaCha20 first, and get it.
      SSL_CTX_set_options(context, SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA);
      SSL_CTX_set_min_proto_version(context, options.tls12 ? TLS1_2_VERSION : TLS1_3_VERSION);
      SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
      SSL_CTX_set_session_id_context(context, reinterpret_cast<const unsigned char*>(id.data()),
                                     std::min<unsigned>(static_cast<unsigned>(id.size()), SSL_MAX_SID_CTX_LENGTH));
      SSL_CTX_set_tlsext_servername_callback(context, ServerCallbacks::choose_certificate);
      if (!options.alpn.empty()) SSL_CTX_set_alpn_select_cb(context, ServerCallbacks::choose_protocol, nullptr);
      SSL_CTX_set_timeout(context, TicketKeys::lifetime_s);
      SSL_CTX_set_tlsext_ticket_key_evp_cb(context, ServerCallbacks::seal_ticket);
      if (options.client_certificate != ClientCertificate::off) {
        auto trusted = trust(context, client_ca, made->revocation_, true);
        if (!trusted) return std::unexpected(Problem{0, File::ca, std::move(trusted.error())});
        if (made->contexts_.size() == 1) {
          for (std::string& text : trusted->warnings) made->warnings_.push_back({0, File::ca, std::move(text)});
          made->ca_expiries_.push_back(std::move(trusted->expiry));
        }
        const bool required = options.client_certificate == ClientCertificate::require;
        verify_peers(context, SSL_VERIFY_PEER | (required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), made->revocation_);
      }
    }
    if (SSL_CTX_use_cert_and_key(group->context, certificate->leaf.get(), key->get(), certificate->rest.get(), 1) !=
        1) {
      return std::unexpected(Problem{i, File::certificate, files.certificate + " cannot be used: " + last_complaint()});
    }
    group->key_types.push_back(key_type);
  }
  return made;
}

ServerContext::~ServerContext() {
  for (SSL_CTX* context : contexts_) SSL_CTX_free(context);
}

ssl_ctx_st* ServerContext::find(std::string_view host) const {
  std::string name = to_lower(host);
  if (name.ends_with('.')) name.pop_back();
  const auto look_up = [this](const std::string& text) -> SSL_CTX* {
    const auto found = names_.find(text);
    return found != names_.end() ? found->second : nullptr;
  };
  if (SSL_CTX* exact = look_up(name)) return exact;
  const auto dot = name.find('.');
  if (dot == name.npos || dot == 0) return nullptr;
  return look_up("*" + name.substr(dot));
}

Resumption::~Resumption() { set(nullptr); }

void Resumption::set(SSL_SESSION* session) {
  SSL_SESSION_free(session_);
  session_ = session;
}

int resumption_index() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

std::string text_of(const X509_NAME* name, bool ascii) {
  std::string text;
  const Bio memory(BIO_new(BIO_s_mem()));
  if (!memory) throw std::bad_alloc();
  constexpr unsigned long escapes_msb = ASN1_STRFLGS_ESC_MSB;
  X509_NAME_print_ex(memory.get(), name, 0, ascii ? XN_FLAG_RFC2253 : XN_FLAG_RFC2253 & ~escapes_msb);
  const char* bytes = nullptr;
  const long size = BIO_get_mem_data(memory.get(), &bytes);
  if (size > 0) text.assign(bytes, static_cast<std::size_t>(size));
  return text;
}

std::expected<std::shared_ptr<const ClientContext>, Problem> ClientContext::make(const ClientOptions& options) {
  using File = Problem::File;
  const auto failed = [](File file, std::string text) { return std::unexpected(Problem{0, file, std::move(text)}); };
  const std::shared_ptr<ClientContext> made(new ClientContext());
  SSL_CTX* context = made->context_ = new_context(TLS_client_method());
  made->verify_ = options.verify;
  made->revocation_.crl = options.crl;
  made->revocation_.file = options.ca_file;
  configure(context);
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
  SSL_CTX_sess_set_new_cb(context, [](SSL* ssl, SSL_SESSION* session) {
    auto* const keeper = static_cast<Resumption*>(SSL_get_ex_data(ssl, resumption_index()));
    if (keeper != nullptr) keeper->set(session);
    return keeper != nullptr ? 1 : 0;
  });
  std::string contents =
      std::to_string(static_cast<int>(options.verify)) + std::to_string(static_cast<int>(options.crl));
  for (const std::string* path : {&options.ca_file, &options.certificate, &options.key}) {
    // A file that cannot be read is reported below.
    if (!path->empty()) contents += '\0' + read_file(*path).value_or("");
  }
  made->fingerprint_ = hash_of(contents);
  OPENSSL_cleanse(contents.data(), contents.size());
  if (options.verify != ClientOptions::Verify::none) {
    if (!options.ca_file.empty()) {
      const auto text = read_file(options.ca_file);
      if (!text) return failed(File::ca, text.error());
      auto trusted = trust(context, *text, made->revocation_, false);
      if (!trusted) return failed(File::ca, std::move(trusted.error()));
      made->warnings_ = std::move(trusted->warnings);
      made->ca_expiries_.push_back(std::move(trusted->expiry));
    } else if (!trust_system(context)) {
      ERR_clear_error();
      return failed(File::ca, "the system's trusted certificates cannot be read");
    }
    verify_peers(context, SSL_VERIFY_PEER, made->revocation_);
  }
  if (!options.certificate.empty()) {
    auto certificate = read_certificates(options.certificate);
    if (!certificate) return failed(File::certificate, certificate.error());
    made->own_expiries_.push_back(expiry_of(options.certificate, *certificate));
    auto key = read_key(options.key);
    if (!key) return failed(File::key, key.error());
    if (SSL_CTX_use_cert_and_key(context, certificate->leaf.get(), key->get(), certificate->rest.get(), 1) != 1) {
      ERR_clear_error();
      return failed(File::key, options.key + " is not the key of " + options.certificate);
    }
  }
  if (!options.alpn.empty()) {
    const std::string wire = wire_format(options.alpn);
    if (SSL_CTX_set_alpn_protos(context, reinterpret_cast<const unsigned char*>(wire.data()),
                                static_cast<unsigned>(wire.size())) != 0) {
      throw std::bad_alloc();
    }
  }
  return made;
}

ClientContext::~ClientContext() { SSL_CTX_free(context_); }

}  // namespace sluice::net::tls
