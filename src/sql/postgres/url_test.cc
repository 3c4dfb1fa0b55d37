#include "sql/postgres/url.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include "net/tls/test_certificates.h"

namespace sluice::sql::postgres {
namespace {

Url must_parse(std::string_view text) {
  auto url = parse_url(text);
  EXPECT_TRUE(url) << text << ": " << url.error();
  return url.value_or(Url{});
}

TEST(UrlTest, EveryPart) {
  const Url url = must_parse(
      "postgres://al%20ice:p%40ss%2Fw%3A@db.example:6543/"
      "fi%6cms?application_name=a%26b&connect_timeout=7&sslmode=disable");
  EXPECT_EQ(url.user, "al ice");
  EXPECT_EQ(url.password, "p@ss/w:");
  EXPECT_EQ(url.host, "db.example");
  EXPECT_EQ(url.port, 6543);
  EXPECT_EQ(url.database, "films");
  EXPECT_EQ(url.application_name, "a&b");
  EXPECT_EQ(url.connect_timeout_ms, 7000u);
}

TEST(UrlTest, DefaultsAreThoseOfLibpq) {
  const passwd* self = getpwuid(geteuid());
  ASSERT_NE(self, nullptr);
  for (const std::string_view text : {"postgres://", "postgresql:///", "postgres://?sslmode=prefer"}) {
    const Url url = must_parse(text);
    EXPECT_EQ(url.user, self->pw_name);
    EXPECT_EQ(url.database, self->pw_name);
    EXPECT_EQ(url.host, "/var/run/postgresql");
    EXPECT_EQ(url.port, 5432);
    EXPECT_EQ(url.password, "");
    EXPECT_FALSE(url.connect_timeout_ms);
  }
  EXPECT_EQ(must_parse("postgres://alice@h").database, "alice");
  EXPECT_FALSE(must_parse("postgres://h?connect_timeout=0").connect_timeout_ms)
      << "0 is libpq's way to say: the default";
}

TEST(UrlTest, Hosts) {
  EXPECT_EQ(must_parse("postgres://u@[::1]:7/d").host, "::1");
  EXPECT_EQ(must_parse("postgres://u@[::1]:7/d").port, 7);
  EXPECT_EQ(must_parse("postgres://u@[fe80::2]/d").host, "fe80::2");
  EXPECT_EQ(must_parse("postgres://u@%2Fvar%2Frun/d").host, "/var/run");
  EXPECT_EQ(must_parse("postgres://u@/d?host=/tmp/x&port=99").host, "/tmp/x");
  EXPECT_EQ(must_parse("postgres://u@/d?host=/tmp/x&port=99").port, 99);
  EXPECT_EQ(must_parse("postgres://u@h:/d").port, 5432);
  EXPECT_EQ(must_parse("postgres://u:p@w@h/d").password, "p@w");
  const Url all = must_parse("postgres://?host=h&user=u&password=p&dbname=d");
  EXPECT_EQ(all.host + all.user + all.password + all.database, "hupd");
}

TEST(UrlTest, WhatCannotBeObeyedIsAnError) {
  for (const std::string_view text : {
           "",
           "postgres:",
           "postgres:/x",
           "mysql://h/d",
           "POSTGRES//x",
           "postgres://h:0/d",
           "postgres://h:65536/d",
           "postgres://h:5x/d",
           "postgres://h:-1/d",
           "postgres://a:b:c/d",
           "postgres://[::1/d",
           "postgres://[::1]x/d",
           "postgres://[1.2.3.4]/d",
           "postgres://[x]/d",
           "postgres://u%4@h/d",
           "postgres://u%zz@h/d",
           "postgres://h/d%",
           "postgres://u%00@h/d",
           "postgres://h1,h2/d",
           "postgres://%40abstract/d",
           "postgres://h/d?sslmode=verify-full",
           "postgres://h/d?sslmode=verify-ca",
           "postgres://h/d?sslmode=maybe",
           "postgres://h/d?sslmode=",
           "postgres://h/d?sslmode=VERIFY-FULL&sslrootcert=x",
           "postgres://h/d?sslmode=verify_full&sslrootcert=x",
           "postgres://h/d?sslmode=disable&sslrootcert=x",
           "postgres://h/d?sslmode=allow&sslrootcert=x",
           "postgres://h/d?sslmode=prefer&sslrootcert=x",
           "postgres://h/d?sslmode=verify-ca&sslrootcert=system",
           "postgres://h/d?sslmode=require&sslrootcert=system",
           "postgres://h/d?sslmode=require&sslcert=x",
           "postgres://h/d?sslmode=require&sslkey=x",
           "postgres://h/d?sslmode=disable&sslcert=x&sslkey=x",
           "postgres://h/d?sslmode=disable&channel_binding=require",
           "postgres://u@/d?host=/tmp&channel_binding=require",
           "postgres://h/d?channel_binding=tls",
           "postgres://h/d?sslcrl=x",
           "postgres://h/d?sslmod=disable",
           "postgres://h/d?sslrootcert=x",
           "postgres://h/d?connect_timeout=soon",
           "postgres://h/d?connect_timeout=-1",
           "postgres://h/d?application_name",
           "postgres://h/d?=x",
           "postgres://h/d?port=70000",
       }) {
    EXPECT_FALSE(parse_url(text)) << text;
  }
  const auto nul = parse_url(std::string_view("postgres://h/d\0x", 16));
  EXPECT_FALSE(nul);
  const auto tls = parse_url("postgres://u:hidden@h/d?sslmode=verify-full");
  ASSERT_FALSE(tls);
  EXPECT_NE(tls.error().find("sslrootcert"), std::string::npos);
  EXPECT_EQ(tls.error().find("hidden"), std::string::npos);
}

// An unescaped '?' or '&' in a password makes the rest look like parameters.
TEST(UrlTest, NoPartOfAPasswordIsRepeated) {
  for (const std::string_view text :
       {"postgres://u:1?hush@h/d", "postgres://u:1?hush=x@h/d", "postgres://u:1?a=b&hush@h/d",
        "postgres://h/d?password=a&hush", "postgres://h/d?password=a&hush=x", "postgres://h/d?pass%77ord=a&hush=x"}) {
    const auto url = parse_url(text);
    ASSERT_FALSE(url) << text;
    EXPECT_EQ(url.error().find("hush"), std::string::npos) << url.error();
  }
  EXPECT_NE(parse_url("postgres://u:p@h/d?sslcrl=x").error().find("\"sslcrl\""), std::string::npos);
}

TEST(UrlTest, TlsIsAskedForAsLibpqHasIt) {
  EXPECT_EQ(must_parse("postgres://h/d").ssl_mode, SslMode::prefer);
  EXPECT_EQ(must_parse("postgres://h/d?sslmode=disable").ssl_mode, SslMode::disable);
  EXPECT_EQ(must_parse("postgres://h/d?sslmode=allow").ssl_mode, SslMode::allow);
  EXPECT_EQ(must_parse("postgres://h/d?sslmode=prefer").ssl_mode, SslMode::prefer);
  EXPECT_EQ(must_parse("postgres://h/d?sslmode=require").ssl_mode, SslMode::require);
  EXPECT_EQ(must_parse("postgres://h/d?sslmode=verify-ca&sslrootcert=a").ssl_mode, SslMode::verify_ca);
  EXPECT_EQ(must_parse("postgres://h/d?sslrootcert=a&sslmode=verify-full").ssl_mode, SslMode::verify_full);
  EXPECT_EQ(must_parse("postgres://h/d?sslrootcert=system").ssl_mode, SslMode::verify_full);
  const Url url =
      must_parse("postgres://h/d?sslmode=require&sslrootcert=a%20b&sslcert=c&sslkey=/k&channel_binding=require");
  EXPECT_EQ(url.ssl_root_cert, "a b");
  EXPECT_EQ(url.ssl_cert, "c");
  EXPECT_EQ(url.ssl_key, "/k");
  EXPECT_EQ(url.channel_binding, ChannelBinding::require);
  EXPECT_EQ(must_parse("postgres://h/d?channel_binding=disable").channel_binding, ChannelBinding::disable);
  EXPECT_EQ(must_parse("postgres://h/d?channel_binding=prefer").channel_binding, ChannelBinding::prefer);
  for (const std::string_view mode : {"disable", "prefer", "require", "verify-full"}) {
    const Url unix = must_parse("postgres://u@/d?host=/tmp&sslmode=" + std::string(mode));
    EXPECT_EQ(unix.ssl_mode, SslMode::disable) << "a unix socket never uses TLS";
  }
}

TEST(UrlTest, TheFilesForTlsAreReadFromTheFolder) {
  const net::tls::testing::Authority authority;
  const std::string folder = std::filesystem::path(authority.file()).parent_path();
  (void)authority.issue("client");
  const auto made = [&](const std::string& parameters) {
    return options_from_url("postgres://u@127.0.0.1/d?" + parameters, folder);
  };
  const auto full = made("sslmode=verify-full&sslrootcert=ca.pem&sslcert=client.pem&sslkey=client.key");
  ASSERT_TRUE(full) << full.error();
  EXPECT_EQ(full->ssl_mode, SslMode::verify_full);
  EXPECT_EQ(full->host, "127.0.0.1");
  using Verify = net::tls::ClientOptions::Verify;
  EXPECT_EQ(full->tls->verify(), Verify::full);
  EXPECT_EQ(made("sslmode=verify-ca&sslrootcert=" + authority.file())->tls->verify(), Verify::chain);
  EXPECT_EQ(made("sslmode=require&sslrootcert=ca.pem")->tls->verify(), Verify::chain) << "as libpq has it";
  EXPECT_EQ(made("sslmode=require")->tls->verify(), Verify::none);
  EXPECT_EQ(made("sslrootcert=system")->tls->verify(), Verify::full);
  EXPECT_EQ(made("sslmode=disable")->tls, nullptr);
  EXPECT_FALSE(made("sslmode=verify-full&sslrootcert=gone.pem"));
  EXPECT_FALSE(made("sslmode=verify-full&sslrootcert=client.key"));
  EXPECT_FALSE(made("sslmode=require&sslcert=client.pem&sslkey=ca.pem"));
  const auto elsewhere = options_from_url("postgres://u@127.0.0.1/d?sslmode=verify-ca&sslrootcert=ca.pem");
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error(), "ca.pem cannot be read: No such file or directory");
}

TEST(UrlTest, ResolvesAddressesNamesAndDirectories) {
  const auto text_of = [](std::string_view url) {
    auto addresses = resolve(must_parse(url));
    EXPECT_TRUE(addresses) << addresses.error();
    return addresses && !addresses->empty() ? addresses->front().text() : "";
  };
  EXPECT_EQ(text_of("postgres://u@127.0.0.1:5/d"), "127.0.0.1:5");
  EXPECT_EQ(text_of("postgres://u@[::1]:5/d"), "[::1]:5");
  EXPECT_EQ(text_of("postgres://u@/d?host=/tmp&port=5"), "unix:/tmp/.s.PGSQL.5");
  EXPECT_NE(text_of("postgres://u@localhost:5/d"), "");
  EXPECT_FALSE(resolve(must_parse("postgres://u@nobody.invalid/d")));
  EXPECT_FALSE(resolve(must_parse("postgres://u@/d?host=/" + std::string(200, 'x'))));
}

}  // namespace
}  // namespace sluice::sql::postgres
