#include "app/config/tls_context.h"

#include <gtest/gtest.h>

#include "net/tls/test_certificates.h"

namespace sluice::app {
namespace {

using net::tls::CertificateFiles;
using net::tls::testing::Authority;

TlsOptions options_for(const CertificateFiles& files) {
  TlsOptions options;
  options.cert = {files.certificate, {3, 8}};
  options.key = {files.key, {4, 7}};
  return options;
}

TEST(TlsContext, EveryErrorHasItsPlace) {
  const Authority authority;
  const CertificateFiles files = authority.issue("served");
  const TlsOptions options = options_for(files);
  const auto other = authority.issue("other");
  TlsOptions wrong = options;
  wrong.certificates.push_back({{other.certificate, {7, 8}}, {files.key, {8, 7}}});
  auto made = make_tls_context(wrong, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().position, (Position{8, 7}));
  wrong = options;
  wrong.cert.value += ".none";
  made = make_tls_context(wrong, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().position, (Position{3, 8}));
  wrong = options;
  wrong.client_auth = {ClientAuth::require};
  wrong.client_ca = {files.key, {9, 13}};
  made = make_tls_context(wrong, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().position, (Position{9, 13}));
}

TEST(TlsContext, WhatExpiresIsTold) {
  const Authority authority;
  std::vector<std::string> warnings;
  ASSERT_TRUE(make_tls_context(options_for(authority.issue("soon", {.until_s = 24 * 3600})), {}, &warnings));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("soon.pem expires on 20"), std::string::npos);
}

}  // namespace
}  // namespace sluice::app
