#include "files/media_type.h"

#include <gtest/gtest.h>

namespace sluice::files {
namespace {

TEST(MediaType, ByExtension) {
  EXPECT_EQ(media_type_of("index.html"), "text/html; charset=utf-8");
  EXPECT_EQ(media_type_of("a/b.c/INDEX.HTM"), "text/html; charset=utf-8");
  EXPECT_EQ(media_type_of("app.min.js"), "text/javascript; charset=utf-8");
  EXPECT_EQ(media_type_of("7.7z"), "application/x-7z-compressed");
  EXPECT_EQ(media_type_of("x.zst"), "application/zstd");
  EXPECT_EQ(media_type_of("font.woff2"), "font/woff2");
  EXPECT_EQ(media_type_of("clip.mp4"), "video/mp4");
  EXPECT_EQ(media_type_of("\xc3\xbc.png"), "image/png");
}

TEST(MediaType, UnknownOnesAreBytes) {
  for (const char* name : {"", "README", ".", "x.", "x.unknown", "folder.html/file", "x.html ", "x.htm\xc3\xb6",
                           "x.an-extension-that-is-too-long-to-be-one"}) {
    EXPECT_EQ(media_type_of(name), "application/octet-stream") << name;
  }
  EXPECT_EQ(media_type_of(".html"), "text/html; charset=utf-8") << "a name may be nothing but its extension";
}

}  // namespace
}  // namespace sluice::files
