#include "sql/postgres/auth.h"

#include <set>

#include <gtest/gtest.h>

namespace sluice::sql::postgres {
namespace {

constexpr std::string_view server_first =
    "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
constexpr std::string_view server_final = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=";

ScramClient rfc_client(std::string_view password = "pencil") { return {"user", password, "rOprNGfwEbeRWgbNEkqO"}; }

TEST(Md5PasswordTest, IsWhatTheServerComputes) {
  EXPECT_EQ(md5_password("md5_user", "secret m", "\x01\x02\x03\xff"), "md5a153651f81a35efc0e5696c9708bdafb");
  EXPECT_NE(md5_password("md5_user", "secret m", "\x01\x02\x03\xfe"),
            md5_password("md5_user", "secret m", "\x01\x02\x03\xff"));
}

TEST(ScramTest, FollowsTheExampleOfRfc7677) {
  ScramClient client = rfc_client();
  EXPECT_EQ(client.first_message(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
  const auto final = client.final_message(server_first);
  ASSERT_TRUE(final) << final.error();
  EXPECT_EQ(
      *final,
      "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=");
  EXPECT_TRUE(client.verify(server_final));
}

// The proof covers the client's message about channel binding: after "c=" come the header and the hash.
TEST(ScramTest, BindsTheChannel) {
  using Channel = ScramClient::Channel;
  const std::string nonce = "rOprNGfwEbeRWgbNEkqO";
  const auto final_of = [&](Channel channel, std::string_view binding) {
    ScramClient client("user", "pencil", nonce, channel, binding);
    return client.first_message() + " " + client.final_message(server_first).value_or("");
  };
  const std::string unbound = final_of(Channel::unbound, "");
  const std::string cannot = final_of(Channel::server_cannot, "");
  const std::string bound = final_of(Channel::server_end_point, std::string_view("\x00\xff\x10hash", 7));
  const std::string other = final_of(Channel::server_end_point, std::string_view("\x00\xff\x11hash", 7));
  EXPECT_TRUE(unbound.starts_with("n,,n=user,r=" + nonce + " c=biws,r=")) << unbound;
  EXPECT_TRUE(cannot.starts_with("y,,n=user,r=" + nonce + " c=eSws,r=")) << cannot;
  EXPECT_TRUE(bound.starts_with("p=tls-server-end-point,,n=user,r=" + nonce +
                                " c=cD10bHMtc2VydmVyLWVuZC1wb2ludCwsAP8QaGFzaA==,r="))
      << bound;
  const auto proof_of = [](const std::string& text) { return text.substr(text.rfind(",p=")); };
  EXPECT_NE(proof_of(unbound), proof_of(cannot));
  EXPECT_NE(proof_of(bound), proof_of(other));
}

TEST(ScramTest, ServerThatDoesNotKnowThePasswordIsRefused) {
  ScramClient client = rfc_client("pencils");
  EXPECT_FALSE(client.verify(server_final)) << "before anything was computed";
  ASSERT_TRUE(client.final_message(server_first));
  EXPECT_FALSE(client.verify(server_final));
  ScramClient right = rfc_client();
  ASSERT_TRUE(right.final_message(server_first));
  EXPECT_FALSE(right.verify("v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95H4="));
  EXPECT_FALSE(right.verify("v="));
  EXPECT_FALSE(right.verify(""));
  EXPECT_FALSE(right.verify("e=other-error"));
  EXPECT_FALSE(right.verify("v=6rri"));
}

TEST(ScramTest, MalformedServerMessagesAreRefused) {
  for (const std::string_view message : {
           "",
           "r=",
           "r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",     // adds nothing to the client's nonce
           "r=xOprNGfwEbeRWgbNEkqOabc,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",  // not the client's nonce
           "r=rOprNGfwEbeRWgbNEkqOabc,i=4096",
           "r=rOprNGfwEbeRWgbNEkqOabc,s=W22ZaJ0SNY7soEsUEjb6gQ==",
           "r=rOprNGfwEbeRWgbNEkqOabc,s=,i=4096",
           "r=rOprNGfwEbeRWgbNEkqOabc,s=W22Za!0SNY7soEsUEjb6gQ==,i=4096",
           "r=rOprNGfwEbeRWgbNEkqOabc,s=W2=ZaJ0SNY7soEsUEjb6gQ==,i=4096",
           "r=rOprNGfwEbeRWgbNEkqOabc,s=W22ZaJ0SNY7soEsUEjb6gQ=,i=4096",
           "r=rOprNGfwEbeRWgbNEkqOabc,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=0",
           "r=rOprNGfwEbeRWgbNEkqOabc,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=-1",
           "r=rOprNGfwEbeRWgbNEkqOabc,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1000001",
           "r=rOprNGfwEbeRWgbNEkqOabc,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=99999999999999999999",
           "r=rOprNGfwEbeRWgbNEkqOabc,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096x",
           "m=ext,r=rOprNGfwEbeRWgbNEkqOabc,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
       }) {
    ScramClient client = rfc_client();
    EXPECT_FALSE(client.final_message(message)) << message;
  }
}

TEST(ScramTest, NamesAreEscapedAndNoncesAreNew) {
  EXPECT_EQ(ScramClient("a,b=c", "x", "n").first_message(), "n,,n=a=2Cb=3Dc,r=n");
  std::set<std::string> nonces;
  for (int i = 0; i < 100; ++i) {
    const std::string nonce = ScramClient::random_nonce();
    EXPECT_EQ(nonce.size(), 24u);
    EXPECT_EQ(nonce.find(','), std::string::npos);
    nonces.insert(nonce);
  }
  EXPECT_EQ(nonces.size(), 100u);
}

// The cases of RFC 4013, section 3, and of PostgreSQL's tests of SASLprep.
TEST(SaslprepTest, PreparesWhatPostgresqlPrepares) {
  EXPECT_EQ(saslprep("pencil \x7f!"), "pencil \x7f!");
  EXPECT_EQ(saslprep("I\u00adX"), "IX");
  EXPECT_EQ(saslprep("a\u00a0b\u3000c"), "a b c");
  EXPECT_EQ(saslprep("p\u00e4ssw\u00f6rd"), "p\u00e4ssw\u00f6rd");
  EXPECT_EQ(saslprep("pa\u0308sswo\u0308rd"), "p\u00e4ssw\u00f6rd");
  EXPECT_EQ(saslprep("\u00aa"), "a");
  EXPECT_EQ(saslprep("\u2168"), "IX");
  EXPECT_EQ(saslprep("\ufb01sh \uff21\u2460"), "fish A1");
  EXPECT_EQ(saslprep("\u0627\u0628"), "\u0627\u0628");
  EXPECT_EQ(saslprep("\ufe8d\ufe90"), "\u0627\u0628");
}

TEST(SaslprepTest, UsesTheRawTextIfItCannotBePrepared) {
  for (const std::string_view raw : {
           "\xff", "a\xc3", "\xc0\x80", "\xed\xa0\x80", "\xf5\x80\x80\x80",  // no UTF-8
           "\u00ad", "",                                                     // nothing would remain
           "\u2168\x07", "\u2168\u0085", "\u2168\ue000", "\u2168\ufffe", "\u2168\ufffd", "\u2168\u200e",  // prohibited
           "\u0627\u0031", "\u0627\u2168\u0628", "\u2168\u0627",  // both directions
           "\u2168\u0221", "\u2168\U0001f600",                    // unassigned in Unicode 3.2
       }) {
    EXPECT_EQ(saslprep(raw), raw);
  }
}

}  // namespace
}  // namespace sluice::sql::postgres
