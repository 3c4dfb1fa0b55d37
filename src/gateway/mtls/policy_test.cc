#include "gateway/mtls/policy.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::gateway::mtls {
namespace {

using net::tls::PeerCertificate;
using Kind = PeerCertificate::Kind;

std::vector<Located<std::string>> list(std::initializer_list<const char*> texts) {
  return {texts.begin(), texts.end()};
}

// The status, or 0 if the request passes.
int answer(MtlsPolicy& policy, const PeerCertificate* certificate) {
  http::Exchange exchange;
  exchange.request.certificate = certificate;
  http::Slot slot;
  const auto answer = policy.before(exchange, slot).take();
  return answer ? answer->status : 0;
}

int answer(MtlsPolicy& policy, Kind kind, std::string name) {
  const PeerCertificate certificate{.subject = "CN=someone", .names = {{kind, std::move(name)}}};
  return answer(policy, &certificate);
}

TEST(MtlsPolicy, AdmitsEveryCertificateWithoutNames) {
  MtlsPolicy policy({});
  const PeerCertificate certificate{.subject = "", .names = {}};
  EXPECT_EQ(answer(policy, &certificate), 0);
  EXPECT_EQ(answer(policy, nullptr), 403);
  EXPECT_EQ(policy.readings().at(0).value, 1);
}

TEST(MtlsPolicy, ComparesWholeSubjects) {
  MtlsPolicy policy({.subject = list({"CN=ada,O=Example"}), .san = {}});
  for (const char* subject : {"CN=ada", "CN=ada,O=example", "O=Example,CN=ada", "CN=ada,O=Example,C=GB", ""}) {
    const PeerCertificate certificate{.subject = subject, .names = {{Kind::dns, "CN=ada,O=Example"}}};
    EXPECT_EQ(answer(policy, &certificate), 403) << subject;
  }
  const PeerCertificate ada{.subject = "CN=ada,O=Example", .names = {}};
  EXPECT_EQ(answer(policy, &ada), 0);
  EXPECT_EQ(policy.readings().at(1).value, 5);
}

TEST(MtlsPolicy, ComparesNamesOfTheSameKind) {
  MtlsPolicy policy(
      {.subject = {}, .san = list({"Billing.example", "*.Jobs.example", "Ada@Example.org", "spiffe://example/a"})});
  EXPECT_EQ(answer(policy, Kind::dns, "billing.example"), 0);
  EXPECT_EQ(answer(policy, Kind::dns, "one.jobs.example"), 0);
  EXPECT_EQ(answer(policy, Kind::email, "Ada@example.org"), 0);
  EXPECT_EQ(answer(policy, Kind::uri, "spiffe://example/a"), 0);
  for (const char* name : {"jobs.example", ".jobs.example", "a.one.jobs.example", "a.billing.example", "example",
                           "Ada@example.org", "spiffe://example/a", ""}) {
    EXPECT_EQ(answer(policy, Kind::dns, name), 403) << name;
  }
  EXPECT_EQ(answer(policy, Kind::email, "ada@example.org"), 403);
  EXPECT_EQ(answer(policy, Kind::email, "one.jobs.example"), 403);
  EXPECT_EQ(answer(policy, Kind::uri, "spiffe://example/ab"), 403);
  EXPECT_EQ(answer(policy, Kind::uri, "SPIFFE://example/a"), 403);
}

TEST(MtlsOptions, RefuseNamesThatMatchNothing) {
  for (const char* good : {"CN=ada", "CN=ada,OU=films,O=Example", "CN=a\\, b", "2.5.4.3=ada", "CN=Jürgen Ä"}) {
    EXPECT_EQ(Options::check_subject(good), "") << good;
  }
  for (const char* bad : {"", "ada", "=ada", "/CN=ada", "CN = ada", "CN=ada, O=Example"}) {
    EXPECT_NE(Options::check_subject(bad), "") << bad;
  }
  for (const char* good : {"a.example", "*.example", "ada@example.org", "spiffe://a/b", "urn:uuid:1"}) {
    EXPECT_EQ(Options::check_san(good), "") << good;
  }
  for (const char* bad : {"", "a b", "*", "a.*.example", "a*.example", "@example", "ada@", "a/b"}) {
    EXPECT_NE(Options::check_san(bad), "") << bad;
  }
}

}  // namespace
}  // namespace sluice::gateway::mtls
