#include "runtime/certificates.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "net/tls/test_certificates.h"

namespace sluice::runtime {
namespace {

using net::tls::CertificateFiles;
using net::tls::testing::Authority;

void replace(const CertificateFiles& from, const CertificateFiles& to) {
  std::filesystem::rename(from.certificate, to.certificate);
  std::filesystem::rename(from.key, to.key);
}

class CertificatesTest : public testing::Test {
 protected:
  Authority authority;
  CertificateFiles files = authority.issue("served");
  Certificates::Make make = [this]() -> std::expected<Certificates::Context, std::string> {
    auto made = net::tls::ServerContext::make({.certificates = {{files.certificate, files.key}}});
    if (!made) return std::unexpected(made.error().text);
    return std::move(*made);
  };
  Certificates certificates{{files.certificate, files.key}, make, *make()};
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

}  // namespace
}  // namespace sluice::runtime
