#include "files/sniff.h"

#include <string>

#include <gtest/gtest.h>

namespace sluice::files {
namespace {

using namespace std::string_view_literals;

TEST(Sniff, WhatFilesBeginWith) {
  EXPECT_EQ(sniff("\x89PNG\r\n\x1a\n\0\0\0\rIHDR"sv), "image/png");
  EXPECT_EQ(sniff("\xff\xd8\xff\xe0"sv), "image/jpeg");
  EXPECT_EQ(sniff("RIFF\x10\0\0\0WEBPVP8 "sv), "image/webp");
  EXPECT_EQ(sniff("RIFF\x10\0\0\0WAVEfmt "sv), "audio/wav");
  EXPECT_EQ(sniff("\0\0\0\x20"
                  "ftypavif"sv),
            "image/avif");
  EXPECT_EQ(sniff("%PDF-1.7"), "application/pdf");
}

TEST(Sniff, NothingOfAnythingElse) {
  EXPECT_EQ(sniff(""), "");
  EXPECT_EQ(sniff("RIFF\x10\0\0"sv), "");
  EXPECT_EQ(sniff("<html>"), "");
  EXPECT_EQ(sniff("\x89PNG"), "");
}

TEST(Sniff, MayBe) {
  EXPECT_TRUE(may_be("image/gif", "GIF89a..."));
  EXPECT_TRUE(may_be("image/gif", "GIF87a..."));
  EXPECT_FALSE(may_be("image/gif", "<html>"));
  EXPECT_FALSE(may_be("image/gif", ""));
  EXPECT_TRUE(may_be("video/ogg", "OggS"));
  EXPECT_TRUE(may_be("text/csv", "<html>"));  // a type without a known signature
}

}  // namespace
}  // namespace sluice::files
