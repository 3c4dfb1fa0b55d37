#include "gateway/jwt/key_source.h"

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "gateway/jwt/policy.h"
#include "gateway/jwt/tokens_for_tests.h"
#include "http/server.h"

namespace sluice::gateway::jwt {
namespace {

TEST(KeyUrl, Parts) {
  const auto url = KeyUrl::parse("https://issuer.example/.well-known/jwks.json");
  ASSERT_TRUE(url);
  EXPECT_EQ(url->origin.host, "issuer.example");
  EXPECT_EQ(url->origin.port, 443);
  EXPECT_TRUE(url->origin.secure);
  EXPECT_EQ(url->host, "issuer.example");
  EXPECT_EQ(url->target, "/.well-known/jwks.json");
  const auto other = KeyUrl::parse("http://[::1]:8080/keys?p=a/b");
  ASSERT_TRUE(other);
  EXPECT_EQ(other->origin.host, "::1");
  EXPECT_EQ(other->origin.port, 8080);
  EXPECT_FALSE(other->origin.secure);
  EXPECT_EQ(other->host, "[::1]:8080");
  EXPECT_EQ(other->target, "/keys?p=a/b");
  EXPECT_EQ(other->name, "http://[::1]:8080/keys");
}

TEST(KeyUrl, Refused) {
  for (const char* text : {"", "keys.json", "issuer.example/keys", "ftp://a/keys", "unix:/run/keys", "unix:///run/keys",
                           "https://", "https:///keys", "https://a", "https://a?b", "https://a:0/keys",
                           "https://a:x/keys", "https://me@a/keys", "https://a b/keys", "https://a/a b",
                           "https://a/keys#x", "https://a/\x7f", "https://a/\xc3\xa4", "HTTPS://a/keys"}) {
    EXPECT_FALSE(KeyUrl::parse(text)) << text;
  }
}

TEST(KeyUrl, HttpIsForThisMachine) {
  for (const char* text :
       {"https://a/keys", "https://10.0.0.1/keys", "http://127.0.0.1/keys", "http://127.9.9.9:81/keys",
        "http://[::1]:8080/keys", "http://localhost/keys", "http://localhost:8080/keys"}) {
    EXPECT_EQ(Options::check_url(text), "") << text;
  }
  for (const char* text : {"http://a/keys", "http://10.0.0.1/keys", "http://[fe80::1]/keys", "http://0.0.0.0/keys",
                           "http://localhost.example/keys", "http://127.0.0.1.example/keys"}) {
    EXPECT_TRUE(Options::check_url(text).starts_with("must begin with \"https://\"")) << text;
  }
}

TEST(SharedKeySource, OfPoliciesThatWantTheSameSet) {
  Options policy;
  policy.jwks_url = Located<std::string>("http://127.0.0.1/keys");
  const auto source = SharedKeySource::make(policy, 1);
  ASSERT_TRUE(source);
  EXPECT_FALSE((*source)->needs_resolver());
  Options other = policy;
  other.issuer.items = {"a"};
  other.require.emplace_back();
  EXPECT_TRUE((*source)->is_for(other));
  EXPECT_TRUE((*source)->is_same(**SharedKeySource::make(other, 1)));
  const auto differs = [&](auto change) {
    Options changed = policy;
    change(changed);
    return !(*source)->is_for(changed);
  };
  EXPECT_TRUE(differs([](Options& one) { one.jwks_url.reset(); }));
  EXPECT_TRUE(differs([](Options& one) { one.jwks_url->value += "2"; }));
  EXPECT_TRUE(differs([](Options& one) { one.jwks_every.value = 1s; }));
  EXPECT_TRUE(differs([](Options& one) { one.jwks_timeout.value = 1s; }));
  EXPECT_TRUE(differs([](Options& one) { one.stale_after.value = 1s; }));
  EXPECT_TRUE(differs([](Options& one) { one.jwks_ca.value = "a"; }));
  EXPECT_TRUE(differs([](Options& one) { one.algorithms = {Algorithm::ps256}; }));
}

TEST(SharedKeySource, ACaThatIsNone) {
  Options policy;
  policy.jwks_url = Located<std::string>("https://localhost/keys");
  policy.jwks_ca = {"/dev/null", {7, 3}};
  const auto source = SharedKeySource::make(policy, 1);
  ASSERT_FALSE(source);
  EXPECT_EQ(source.error().position, (Position{7, 3}));
  policy.jwks_ca = {};
  const auto trusted = SharedKeySource::make(policy, 1);
  ASSERT_TRUE(trusted) << trusted.error().text;
  EXPECT_TRUE((*trusted)->needs_resolver());
}

// Two cores and an issuer, on a simulated clock and network.
class KeySourceTest : public testing::Test {
 protected:
  class Issuer final : public http::Handler {
   public:
    core::Async<http::Response> handle(http::Exchange&) override {
      if (!answers) return http::problem(500);
      http::Response response;
      Buffer body;
      body.append(R"({"keys":[{"kty":"EC","crv":"P-256","x":")" + std::string(for_tests::rfc_x) + R"(","y":")" +
                  std::string(for_tests::rfc_y) + R"("}]})");
      response.body = std::move(body);
      return response;
    }
    bool answers = true;
  };

  KeySourceTest() {
    EXPECT_TRUE(server_.listen(*core::Address::parse("127.0.0.1:80")));
    options_.jwks_url = Located<std::string>("http://127.0.0.1/keys");
    options_.jwks_every.value = 1min;
    options_.jwks_timeout.value = 1min;
  }
  void start() {
    const auto shared = *SharedKeySource::make(options_, cores);
    for (unsigned i = 0; i < cores; ++i) {
      ports_[i] = std::make_unique<core::MeshPort>(mesh_, i, reactor_);
      sources_[i] = KeySource::make(shared, reactor_, mailbox_, *ports_[i], threads_);
      policies_[i] = std::make_unique<JwtPolicy>(options_, shared->keys, reactor_, sources_[i]);
    }
  }
  void turn(Instant until) {
    mailbox_.deliver();
    bool may_sleep = true;
    for (const auto& port : ports_) {
      port->drain();
      may_sleep = port->prepare_to_sleep() && may_sleep;
    }
    reactor_.turn(may_sleep ? until : reactor_.now());
    for (const auto& port : ports_) port->awake();
  }
  void pass(Duration time) {
    for (const Instant until = reactor_.now() + time; reactor_.now() < until;) turn(until);
  }
  // The keys are parsed on another thread, which needs real time.
  template <class Check>
  void wait_for(Check check) {
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (!check()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end);
      turn(reactor_.now() + 1ms);
      std::this_thread::yield();
    }
  }
  double fetches(std::string_view result) {
    for (const Reading& one : sources_[0]->readings()) {
      if (one.labels.contains(result)) return one.value;
    }
    return -1;
  }
  // Waits for one more fetch with this result.
  void wait_for_fetch(std::string_view result) {
    const double before = fetches(result);
    wait_for([&] { return fetches(result) > before; });
    pass(1ms);  // for the messages to the other core
  }
  // The status with which each core refuses a token that has expired.
  std::vector<int> statuses() {
    const std::string bearer = "Bearer " + std::string(for_tests::rfc_es256);
    const std::vector<http::Field> fields = {{"Authorization", bearer}};
    std::vector<int> all;
    for (const auto& policy : policies_) {
      http::Exchange exchange;
      exchange.request.fields = fields;
      http::Slot slot;
      all.push_back(policy->before(exchange, slot).take()->status);
    }
    return all;
  }

  static constexpr unsigned cores = 2;
  const std::vector<int> with_keys_{401, 401};
  const std::vector<int> without_keys_{503, 503};

  core::SimulatedReactor reactor_{3};
  core::Mailbox mailbox_{reactor_};
  core::Mesh mesh_{cores};
  core::BlockingPool threads_{1, 16};
  Issuer issuer_;
  http::Server server_{reactor_, issuer_, {}};
  Options options_;
  std::array<std::unique_ptr<core::MeshPort>, cores> ports_;
  std::array<std::shared_ptr<KeySource>, cores> sources_;
  std::array<std::unique_ptr<JwtPolicy>, cores> policies_;
};

TEST_F(KeySourceTest, ASetBecomesStale) {
  options_.stale_after.value = 1h;
  start();
  EXPECT_EQ(statuses(), without_keys_);
  EXPECT_FALSE(sources_[0]->is_stale());
  wait_for_fetch("done");
  EXPECT_EQ(statuses(), with_keys_);
  pass(3h);
  EXPECT_EQ(statuses(), with_keys_);

  issuer_.answers = false;
  wait_for_fetch("failed");
  pass(1h - 2s);
  EXPECT_EQ(statuses(), with_keys_);
  pass(4s);
  EXPECT_EQ(statuses(), without_keys_);
  for (const auto& source : sources_) EXPECT_TRUE(source->is_stale());
  pass(3h);
  EXPECT_EQ(statuses(), without_keys_);

  issuer_.answers = true;
  wait_for_fetch("done");
  EXPECT_EQ(statuses(), with_keys_) << "the same set as before";
  for (const auto& source : sources_) EXPECT_FALSE(source->is_stale());
}

TEST_F(KeySourceTest, ASuccessfulFetchEndsTheCountdown) {
  options_.stale_after.value = 1h;
  start();
  wait_for_fetch("done");
  for (int i = 0; i < 3; ++i) {
    issuer_.answers = false;
    wait_for_fetch("failed");
    pass(50min);
    EXPECT_EQ(statuses(), with_keys_);
    issuer_.answers = true;
    wait_for_fetch("done");
  }
  EXPECT_EQ(statuses(), with_keys_);
}

TEST_F(KeySourceTest, WithoutALimitASetIsUsedOn) {
  start();
  wait_for_fetch("done");
  issuer_.answers = false;
  pass(200h);
  EXPECT_EQ(statuses(), with_keys_);
}

}  // namespace
}  // namespace sluice::gateway::jwt
