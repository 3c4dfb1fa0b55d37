#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>

#include "net/tls/context.h"

// For tests: a certificate authority with a temporary folder, which its destructor removes.
namespace sluice::net::tls::testing {

class Authority {
 public:
  struct Profile {
    std::vector<std::string> names = {"localhost"};  // "127.0.0.1" and the like become addresses
    bool rsa = false;
    long from_s = -3600;
    long until_s = 30L * 24 * 3600;
  };

  // `issuer`: signs the authority's own certificate; null: it is self-signed.
  explicit Authority(const Authority* issuer = nullptr) {
    std::string pattern = (std::filesystem::temp_directory_path() / "sluice-tls-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    folder_ = pattern;
    key_ = EVP_EC_gen("P-256");
    const std::string name = "CA of " + folder_.filename().string();
    certificate_ = issuer != nullptr ? issuer->make(key_, name, {.names = {}}, true, false)
                                     : make(key_, name, {.names = {}}, true, true);
    write(file(), [this](std::FILE* out) { PEM_write_X509(out, certificate_); });
  }
  Authority(const Authority&) = delete;
  ~Authority() {
    X509_free(certificate_);
    EVP_PKEY_free(key_);
    std::filesystem::remove_all(folder_);
  }

  [[nodiscard]] std::string file() const { return path("ca.pem"); }
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }

  // A certificate with its key, in the files NAME.pem and NAME.key.
  CertificateFiles issue(const std::string& name, const Profile& profile) const {
    EVP_PKEY* key = profile.rsa ? EVP_RSA_gen(2048) : EVP_EC_gen("P-256");
    X509* certificate = make(key, profile.names.empty() ? name : profile.names[0], profile, false, false);
    CertificateFiles files{path(name + ".pem"), path(name + ".key")};
    write(files.certificate, [&](std::FILE* out) {
      PEM_write_X509(out, certificate);
      PEM_write_X509(out, certificate_);
    });
    write(files.key, [&](std::FILE* out) { PEM_write_PrivateKey(out, key, nullptr, nullptr, 0, nullptr, nullptr); });
    X509_free(certificate);
    EVP_PKEY_free(key);
    return files;
  }
  CertificateFiles issue(const std::string& name) const { return issue(name, Profile{}); }

  // A list that revokes the first certificates of these files, PEM.
  [[nodiscard]] std::string revocation_list(const std::vector<std::string>& files, long until_s = 3600,
                                            long from_s = -2 * 3600) const {
    X509_CRL* const list = X509_CRL_new();
    X509_CRL_set_version(list, X509_CRL_VERSION_2);
    X509_CRL_set_issuer_name(list, X509_get_subject_name(certificate_));
    ASN1_TIME* const time = X509_gmtime_adj(nullptr, from_s);
    X509_CRL_set1_lastUpdate(list, time);
    for (const std::string& path : files) {
      std::FILE* const in = std::fopen(path.c_str(), "r");
      if (in == nullptr) throw std::runtime_error(path);
      X509* const certificate = PEM_read_X509(in, nullptr, nullptr, nullptr);
      std::fclose(in);
      X509_REVOKED* const entry = X509_REVOKED_new();
      X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(certificate));
      X509_REVOKED_set_revocationDate(entry, time);
      X509_CRL_add0_revoked(list, entry);
      X509_free(certificate);
    }
    X509_gmtime_adj(time, until_s);
    X509_CRL_set1_nextUpdate(list, time);
    ASN1_TIME_free(time);
    X509_CRL_sort(list);
    X509_CRL_sign(list, key_, EVP_sha256());
    BIO* const memory = BIO_new(BIO_s_mem());
    PEM_write_bio_X509_CRL(memory, list);
    const char* bytes = nullptr;
    const long size = BIO_get_mem_data(memory, &bytes);
    std::string text(bytes, static_cast<std::size_t>(size));
    BIO_free(memory);
    X509_CRL_free(list);
    return text;
  }

  void write_text(const std::string& name, std::string_view text) const {
    write(path(name), [&](std::FILE* out) { std::fwrite(text.data(), 1, text.size(), out); });
  }

 private:
  template <class Writer>
  static void write(const std::string& path, Writer writer) {
    std::FILE* out = std::fopen(path.c_str(), "w");
    if (out == nullptr) throw std::runtime_error(path);
    writer(out);
    std::fclose(out);
  }

  X509* make(EVP_PKEY* key, const std::string& common_name, const Profile& profile, bool authority,
             bool self_signed) const {
    X509* made = X509_new();
    X509_set_version(made, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(made), profile.from_s);
    X509_gmtime_adj(X509_getm_notAfter(made), profile.until_s);
    X509_set_pubkey(made, key);
    X509_NAME* subject = X509_get_subject_name(made);
    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(common_name.data()),
                               static_cast<int>(common_name.size()), -1, 0);
    X509_set_issuer_name(made, self_signed ? subject : X509_get_subject_name(certificate_));
    add(made, NID_basic_constraints, authority ? "critical,CA:TRUE" : "CA:FALSE");
    std::string names;
    for (const std::string& name : profile.names) {
      const bool address = name.find_first_not_of("0123456789.") == name.npos || name.find(':') != name.npos;
      names += (names.empty() ? "" : ",") + std::string(address ? "IP:" : "DNS:") + name;
    }
    if (!names.empty()) add(made, NID_subject_alt_name, names);
    X509_sign(made, key_, EVP_sha256());
    return made;
  }
  static void add(X509* certificate, int kind, const std::string& value) {
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
    if (extension == nullptr) throw std::runtime_error(value);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }

  std::filesystem::path folder_;
  EVP_PKEY* key_ = nullptr;
  X509* certificate_ = nullptr;
  mutable long serial_ = 0;
};

}  // namespace sluice::net::tls::testing
