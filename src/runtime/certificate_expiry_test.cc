#include "runtime/certificate_expiry.h"

#include <gtest/gtest.h>

namespace sluice::runtime {
namespace {

constexpr std::int64_t day_s = 24 * 60 * 60;

class CertificateExpiryTest : public testing::Test {
 public:
  // The lines that are logged when this many days are left.
  std::string log_at(double days) {
    testing::internal::CaptureStderr();
    certificates.check(expires_s - static_cast<std::int64_t>(days * day_s));
    return testing::internal::GetCapturedStderr();
  }

  const std::int64_t expires_s = 1'800'000'000;
  CertificateExpiry certificates;
};

TEST_F(CertificateExpiryTest, LogsEachNumberOfDaysOnce) {
  certificates.set({{"server", {"a.pem", expires_s}},
                    {"upstream", {"a.pem", expires_s}},
                    {"server", {"b.pem", expires_s + 99 * day_s}}});
  EXPECT_EQ(log_at(30.1), "");
  EXPECT_TRUE(log_at(29.9).ends_with(" one in a.pem expires in 30 days, on 2027-01-15 08:00:00 UTC\n"));
  EXPECT_EQ(log_at(14.5), "");
  EXPECT_TRUE(log_at(13.5).contains(" in 14 days,"));
  EXPECT_TRUE(log_at(5).contains(" in 5 days,")) << "the first line after 7 days";
  EXPECT_EQ(log_at(4), "");
  EXPECT_TRUE(log_at(0.5).contains(" in 1 day,"));
  EXPECT_TRUE(log_at(0).contains(" one in a.pem has expired on 2027-01-15 08:00:00 UTC\n"));
  EXPECT_EQ(log_at(-1), "");
}

TEST_F(CertificateExpiryTest, ANewCertificateIsLoggedAgain) {
  certificates.set({{"server", {"a.pem", expires_s}}});
  EXPECT_TRUE(log_at(6).contains(" in 6 days,"));
  certificates.set({{"server", {"a.pem", expires_s + 20 * day_s}}});
  EXPECT_TRUE(log_at(6).contains(" in 26 days,"));
  EXPECT_EQ(log_at(6), "");
  certificates.set({{"server", {"a.pem", expires_s + 90 * day_s}}});
  EXPECT_EQ(log_at(6), "");
}

TEST_F(CertificateExpiryTest, EachFileAndUseHasOneReading) {
  certificates.set(
      {{"server", {"a.pem", expires_s}}, {"upstream", {"a.pem", expires_s}}, {"upstream", {"a.pem", expires_s}}});
  const Readings all = certificates.readings();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].labels, R"(certificate="a.pem",use="server")");
  EXPECT_EQ(all[1].labels, R"(certificate="a.pem",use="upstream")");
  EXPECT_EQ(all[1].value, static_cast<double>(expires_s));
}

}  // namespace
}  // namespace sluice::runtime
