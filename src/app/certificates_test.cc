#include "app/certificates.h"

#include <filesystem>

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

void replace(const CertificateFiles& from, const CertificateFiles& to) {
  std::filesystem::rename(from.certificate, to.certificate);
  std::filesystem::rename(from.key, to.key);
}

class CertificatesTest : public testing::Test {
 protected:
  Authority authority;
  CertificateFiles files = authority.issue("served");
  TlsOptions options = options_for(files);
  Certificates certificates{options, {}, *make_tls_context(options, {})};
  Instant now{1h};
};

TEST_F(CertificatesTest, NothingChangesByItself) {
  const auto context = certificates.context();
  const auto tickets = certificates.tickets();
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(certificates.tend(now += Certificates::look_every));
  EXPECT_EQ(certificates.context(), context);
  EXPECT_EQ(certificates.tickets(), tickets);
}

TEST_F(CertificatesTest, FilesThatHaveChangedAndStandStillAreReadOnce) {
  const auto context = certificates.context();
  replace(authority.issue("new"), files);
  EXPECT_FALSE(certificates.tend(now)) << "they may still be changing";
  EXPECT_EQ(certificates.context(), context);
  EXPECT_TRUE(certificates.tend(now));
  EXPECT_NE(certificates.context(), context);
  EXPECT_FALSE(certificates.tend(now));
}

TEST_F(CertificatesTest, AreNotReadWhileTheyChange) {
  for (int i = 0; i < 5; ++i) {
    replace(authority.issue("new"), files);
    EXPECT_FALSE(certificates.tend(now));
  }
  EXPECT_TRUE(certificates.tend(now));
}

TEST_F(CertificatesTest, BadFilesLeaveTheOldOnesAndAreTriedOnce) {
  const auto context = certificates.context();
  const auto good = authority.issue("spare");
  std::filesystem::remove(files.key);
  EXPECT_FALSE(certificates.tend(now));
  testing::internal::CaptureStderr();
  EXPECT_FALSE(certificates.tend(now));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("served.key cannot be read"), std::string::npos);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(certificates.tend(now));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_FALSE(certificates.reload());
  EXPECT_EQ(certificates.context(), context);
  replace(good, files);
  EXPECT_FALSE(certificates.tend(now));
  EXPECT_TRUE(certificates.tend(now));
}

TEST_F(CertificatesTest, ReloadDoesNotWait) {
  const auto context = certificates.context();
  replace(authority.issue("new"), files);
  EXPECT_TRUE(certificates.reload());
  EXPECT_NE(certificates.context(), context);
  EXPECT_FALSE(certificates.tend(now));
  EXPECT_FALSE(certificates.tend(now));
}

TEST_F(CertificatesTest, TicketKeysChangeEveryHour) {
  EXPECT_FALSE(certificates.tend(now));
  const auto tickets = certificates.tickets();
  EXPECT_FALSE(certificates.tend(now + 59min));
  EXPECT_TRUE(certificates.tend(now + 60min));
  ASSERT_EQ(certificates.tickets()->keys().size(), 2u);
  EXPECT_EQ(certificates.tickets()->keys()[1], tickets->keys()[0]);
  EXPECT_FALSE(certificates.tend(now + 61min));
  EXPECT_TRUE(certificates.tend(now + 120min));
}

TEST_F(CertificatesTest, EveryErrorHasItsPlace) {
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

TEST_F(CertificatesTest, WhatExpiresIsTold) {
  std::vector<std::string> warnings;
  ASSERT_TRUE(make_tls_context(options_for(authority.issue("soon", {.until_s = 24 * 3600})), {}, &warnings));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("soon.pem expires on 20"), std::string::npos);
}

}  // namespace
}  // namespace sluice::app
