#include "http/compress/negotiate.h"

#include <vector>

#include <gtest/gtest.h>

namespace sluice::http::compress {
namespace {

constexpr Coding ours[] = {Coding::zstd, Coding::brotli, Coding::gzip};

std::string_view chosen(std::string_view accepted, std::span<const Coding> offered = ours) {
  const std::vector<Field> fields{{"Host", "x"}, {"Accept-Encoding", accepted}};
  const auto coding = choose(parse_accept_encoding(fields), offered);
  return coding ? name_of(*coding) : "identity";
}

bool refuses_identity(std::string_view accepted) {
  const std::vector<Field> fields{{"accept-encoding", accepted}};
  return parse_accept_encoding(fields).identity_refused;
}

TEST(AcceptEncoding, TheBestQualityWinsAndOurOrderAmongEquals) {
  EXPECT_EQ(chosen("gzip, deflate, br, zstd"), "zstd");
  EXPECT_EQ(chosen("gzip, deflate, br"), "br");
  EXPECT_EQ(chosen("gzip, deflate"), "gzip");
  EXPECT_EQ(chosen("zstd;q=0.5, br;q=0.7, gzip;q=0.6"), "br");
  EXPECT_EQ(chosen("zstd;q=0.001, gzip;q=0.002"), "gzip");
  EXPECT_EQ(chosen("gzip;q=1.000,br;q=0.999"), "gzip");
  constexpr Coding others[] = {Coding::gzip, Coding::brotli};
  EXPECT_EQ(chosen("gzip, deflate, br, zstd", others), "gzip");
  EXPECT_EQ(chosen("zstd", others), "identity");
  EXPECT_EQ(chosen("gzip", {}), "identity");
}

TEST(AcceptEncoding, NamesCompareWithoutCaseAndXGzipIsGzip) {
  EXPECT_EQ(chosen("GZip"), "gzip");
  EXPECT_EQ(chosen("BR ; Q=0.5"), "br");
  EXPECT_EQ(chosen("x-gzip"), "gzip");
  EXPECT_EQ(chosen("\t ,, gzip\t;\tq=0.3 ,"), "gzip");
}

TEST(AcceptEncoding, ZeroIsARefusal) {
  EXPECT_EQ(chosen("gzip;q=0"), "identity");
  EXPECT_EQ(chosen("gzip;q=0.0, br;q=0.000, zstd;q=0."), "identity");
  EXPECT_EQ(chosen("zstd;q=0, *"), "br");
  EXPECT_EQ(chosen("*;q=0"), "identity");
  EXPECT_EQ(chosen("*;q=0, gzip"), "gzip");
}

TEST(AcceptEncoding, TheStarStandsForWhatIsNotNamed) {
  EXPECT_EQ(chosen("*"), "zstd");
  EXPECT_EQ(chosen("*;q=0.5, gzip"), "gzip");
  EXPECT_EQ(chosen("gzip;q=0.5, *;q=0.7"), "zstd");
  constexpr Coding gzip_only[] = {Coding::gzip};
  EXPECT_EQ(chosen("gzip;q=0.5, *;q=0.7", gzip_only), "identity") << "the star is for identity too";
}

TEST(AcceptEncoding, IdentityGoesOutOnlyWhereItIsLikedBetter) {
  EXPECT_EQ(chosen("identity, gzip;q=0.9"), "identity");
  EXPECT_EQ(chosen("identity, gzip"), "gzip");
  EXPECT_EQ(chosen("identity;q=0.5, gzip;q=0.6"), "gzip");
  EXPECT_EQ(chosen("gzip;q=0.1"), "gzip") << "unnamed, it is allowed and not asked for";
  EXPECT_EQ(chosen("identity;q=0"), "identity") << "nothing of ours is asked for";
}

TEST(AcceptEncoding, WithoutTheFieldOrWithAnEmptyOneNothingIsCompressed) {
  EXPECT_FALSE(choose(parse_accept_encoding({}), ours));
  EXPECT_EQ(chosen(""), "identity");
  EXPECT_EQ(chosen("deflate, compress"), "identity");
}

TEST(AcceptEncoding, WhatDoesNotParseIsPassedOver) {
  for (const char* bad : {"gzip;q=", "gzip;q=2", "gzip;q=1.001", "gzip;q=0.1234", "gzip;q=-1", "gzip;q=.5", "gzip;x=1",
                          "gzip;q=0,5x", "gzip;", "gzip q=1", "gzi", "gzipp", "gzip;q=1;q=1", "gzip; q = 1"}) {
    EXPECT_EQ(chosen(bad), "identity") << bad;
    EXPECT_EQ(chosen(std::string(bad) + ", br;q=0.1"), "br") << bad;
  }
  EXPECT_EQ(chosen("gzip;q=0, gzip;q=1"), "identity") << "the first counts";
}

TEST(AcceptEncoding, SeveralFieldsAreOneList) {
  const std::vector<Field> fields{
      {"accept-encoding", "zstd;q=0.1"}, {"Accept", "gzip"}, {"ACCEPT-ENCODING", "br;q=0.2"}};
  EXPECT_EQ(choose(parse_accept_encoding(fields), ours), Coding::brotli);
}

TEST(AcceptEncoding, IdentityIsRefusedByNameOrByTheStar) {
  EXPECT_TRUE(refuses_identity("identity;q=0, gzip"));
  EXPECT_TRUE(refuses_identity("gzip, *;q=0"));
  EXPECT_FALSE(refuses_identity("identity;q=0.1, *;q=0"));
  EXPECT_FALSE(refuses_identity("gzip"));
  EXPECT_FALSE(refuses_identity(""));
}

}  // namespace
}  // namespace sluice::http::compress
