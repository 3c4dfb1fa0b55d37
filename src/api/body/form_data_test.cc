#include "api/body/form_data.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "api/body/form_data_for_tests.h"

namespace sluice::api {
namespace {

std::string read(std::string_view body, std::size_t step = SIZE_MAX, std::string_view boundary = "b",
                 const FormDataLimits& limits = {}) {
  return read_form_data(body, step, boundary, limits);
}

// Checks that the result does not depend on how the body is cut.
std::string read_all_ways(const std::string& body) {
  const std::string whole = read(body);
  for (std::size_t step = 1; step < std::min<std::size_t>(body.size(), 40); ++step) {
    EXPECT_EQ(read(body, step), whole) << "in pieces of " << step;
  }
  for (std::size_t cut = 0; cut <= body.size(); ++cut) {
    FormDataReader reader("b");
    std::string_view rest = body;
    std::size_t size = cut == 0 ? body.size() : cut;
    const std::string out = read_form_data(reader, [&] {
      const std::string_view piece = rest.substr(0, size);
      rest.remove_prefix(piece.size());
      size = SIZE_MAX;
      return piece;
    });
    EXPECT_EQ(out, whole) << "cut at " << cut;
  }
  return whole;
}

std::string field(std::string_view name, std::string_view value) {
  return "--b\r\nContent-Disposition: form-data; name=\"" + std::string(name) + "\"\r\n\r\n" + std::string(value) +
         "\r\n";
}
// The result for a part with these header lines.
std::string header(const std::string& lines) { return read("--b\r\n" + lines + "\r\n\r\nx\r\n--b--\r\n"); }

TEST(FormData, PartsAsTheyCome) {
  EXPECT_EQ(read_all_ways(field("a", "1") + field("b", "two\r\nlines") + "--b--\r\n"),
            "[a|-|text/plain]1[b|-|text/plain]two\r\nlines.");
  EXPECT_EQ(read_all_ways("--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"x.png\"\r\n"
                          "Content-Type: IMAGE/png; q=1\r\n\r\n\x89PNG\r\n-\r\n--\r\n--c\r\n--b--"),
            "[f|x.png|image/png]\x89PNG\r\n-\r\n--\r\n--c.");
}

TEST(FormData, EmptyThings) {
  EXPECT_EQ(read_all_ways("--b--"), ".");
  EXPECT_EQ(read_all_ways(field("a", "") + "--b--\r\n"), "[a|-|text/plain].");
  // The empty line after the header is also the line end before the boundary.
  EXPECT_EQ(read_all_ways("--b\r\nContent-Disposition: form-data; name=a\r\n\r\n--b--"), "[a|-|text/plain].");
  EXPECT_EQ(read_all_ways(field("a", "\r\n") + "--b--\r\n"), "[a|-|text/plain]\r\n.");
}

TEST(FormData, WhatIsBeforeAndBehindIsPassedOver) {
  EXPECT_EQ(read_all_ways("a preamble\r\nof lines\r\n" + field("a", "1") + "--b--\r\nan epilogue\r\n--b\r\n"),
            "[a|-|text/plain]1.");
  EXPECT_EQ(read_all_ways("--b \t \r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b--  "),
            "[a|-|text/plain]1.");
}

TEST(FormData, ABoundaryIsNeverData) {
  EXPECT_EQ(read_all_ways(field("a", "1\r\n--bc") + "--b--"),
            "[a|-|text/plain]1!a boundary is followed by something else");
  EXPECT_EQ(read_all_ways("--b\nContent-Disposition: form-data; name=a\n\n1\n--b--\n"),
            "!a boundary is followed by something else");
  EXPECT_EQ(read_all_ways("--b-x"), "!a boundary is followed by something else");
  EXPECT_EQ(read("--b" + std::string(100, ' ') + "\r\n"), "!a boundary is followed by something else");
}

TEST(FormData, WhatEndsTooEarly) {
  const std::string early = "!the body ends before its last boundary";
  EXPECT_EQ(read_all_ways(""), early);
  EXPECT_EQ(read_all_ways("--b"), early);
  EXPECT_EQ(read_all_ways("--b-"), early);
  EXPECT_EQ(read_all_ways("--b\r\n"), early);
  EXPECT_EQ(read_all_ways("nothing of this kind"), early);
  EXPECT_EQ(read_all_ways("--b\r\nContent-Disposition: form-data; name=a\r\n\r\n"), "[a|-|text/plain]" + early);
  EXPECT_TRUE(read_all_ways(field("a", "some data")).ends_with(early));
  EXPECT_EQ(read_all_ways(field("a", "1") + "--b\r\n"), "[a|-|text/plain]1" + early);
}

TEST(FormData, Names) {
  EXPECT_EQ(header("Content-Disposition: form-data; name=token"), "[token|-|text/plain]x.");
  EXPECT_EQ(header("content-disposition:FORM-DATA ;NAME=\"a b; c=d\""), "[a b; c=d|-|text/plain]x.");
  EXPECT_EQ(header("Content-Disposition: form-data; name=\"a%22b\"; filename=\"c%0D%0Ad%20\""),
            "[a\"b|c\r\nd%20|text/plain]x.");
  EXPECT_EQ(header("Content-Disposition: form-data; name=\"a\\\"b\\\\c\\d\""), "[a\"b\\c\\d|-|text/plain]x.");
  EXPECT_EQ(header("Content-Disposition: form-data; name=\"\""), "[|-|text/plain]x.");
  EXPECT_EQ(header("Content-Disposition: form-data; name=ä"), "!a part's Content-Disposition cannot be read");
  EXPECT_EQ(header("X-Other: 1\r\nContent-Disposition: form-data; name=a; x=y; ;"), "[a|-|text/plain]x.");
}

TEST(FormData, FileNamesHaveNoFolders) {
  const auto name_of = [](const std::string& name) {
    return header("Content-Disposition: form-data; name=a; filename=\"" + name + "\"");
  };
  EXPECT_EQ(name_of("../../etc/passwd"), "[a|passwd|text/plain]x.");
  EXPECT_EQ(name_of("C:\\Users\\me\\a.png"), "[a|a.png|text/plain]x.");
  EXPECT_EQ(name_of("/"), "[a||text/plain]x.");
  EXPECT_EQ(name_of(""), "[a||text/plain]x.");
  EXPECT_EQ(name_of("Grüße.txt"), "[a|Grüße.txt|text/plain]x.");
  // RFC 7578, 4.2: filename* is not allowed, so it is ignored.
  EXPECT_EQ(header("Content-Disposition: form-data; name=a; filename*=UTF-8''b"), "[a|-|text/plain]x.");
}

TEST(FormData, HeadersThatCannotBeRead) {
  const std::string good = "Content-Disposition: form-data; name=a";
  EXPECT_EQ(header(""), "!a part has no Content-Disposition");
  EXPECT_EQ(header("Content-Type: text/plain"), "!a part has no Content-Disposition");
  EXPECT_EQ(header("Content-Disposition: form-data"), "!a part has no name");
  EXPECT_EQ(header("Content-Disposition: attachment; name=a"), "!a part is no form-data");
  EXPECT_EQ(header(good + "; name=b"), "!a part has two names");
  EXPECT_EQ(header(good + "; filename=a; filename=b"), "!a part has two names of files");
  EXPECT_EQ(header(good + "; filename=\"open"), "!a part's Content-Disposition cannot be read");
  EXPECT_EQ(header(good + " x"), "!a part's Content-Disposition cannot be read");
  EXPECT_EQ(header(good + "\r\n" + good), "!a part has two fields Content-Disposition");
  EXPECT_EQ(header(good + "\r\nContent-Type: a/b\r\nContent-Type: a/c"), "!a part has two fields Content-Type");
  EXPECT_EQ(header(good + "\r\nContent-Type: png"), "!a part's Content-Type cannot be read");
  EXPECT_EQ(header(good + "\r\nContent-Transfer-Encoding: base64"), "!a part has a Content-Transfer-Encoding");
  EXPECT_EQ(header(good + "\r\nContent-Transfer-Encoding: 8bit"), "[a|-|text/plain]x.");
  EXPECT_EQ(header(good + "\r\n folded: line"), "!a part's header has a line that is no field");
  EXPECT_EQ(header(good + "\r\nno field"), "!a part's header has a line that is no field");
  EXPECT_EQ(header(good + "\nX: y"), "!a part's header has a control character");
}

TEST(FormData, Limits) {
  const FormDataLimits limits{.parts = 2, .header_bytes = 60};
  EXPECT_EQ(read(field("a", "1") + field("b", "2") + "--b--", SIZE_MAX, "b", limits),
            "[a|-|text/plain]1[b|-|text/plain]2.");
  EXPECT_EQ(read(field("a", "1") + field("b", "2") + field("c", "3") + "--b--", SIZE_MAX, "b", limits),
            "[a|-|text/plain]1[b|-|text/plain]2!the body has more than 2 parts");
  for (const std::size_t step : {std::size_t{1}, std::size_t{7}, SIZE_MAX}) {
    EXPECT_EQ(read(field(std::string(60, 'n'), "1") + "--b--", step, "b", limits),
              "!a part's header is longer than 60 bytes");
  }
}

TEST(FormData, Boundaries) {
  EXPECT_EQ(form_data_boundary("multipart/form-data; boundary=abc"), "abc");
  EXPECT_EQ(form_data_boundary("Multipart/Form-Data ;Boundary=\"a b:c\"; charset=utf-8"), "a b:c");
  EXPECT_EQ(form_data_boundary("multipart/form-data; boundary=----WebKitFormBoundaryABC"), "----WebKitFormBoundaryABC");
  for (const char* wrong :
       {"multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=\"\"",
        "multipart/form-data; boundary=a; boundary=b", "multipart/form-data; boundary=\"a ",
        "multipart/mixed; boundary=a", "multipart/form-data; boundary=\"a\r\n\"",
        "multipart/form-data; boundary=\"a \"", "multipart/form-data boundary=a", "application/json", ""}) {
    EXPECT_EQ(form_data_boundary(wrong), std::nullopt) << wrong;
  }
  EXPECT_TRUE(form_data_boundary("multipart/form-data; boundary=" + std::string(70, 'x')));
  EXPECT_FALSE(form_data_boundary("multipart/form-data; boundary=" + std::string(71, 'x')));
}

TEST(FormData, BareMediaTypes) {
  EXPECT_EQ(bare_media_type("Image/PNG; a=b"), "image/png");
  EXPECT_EQ(bare_media_type(" text/plain "), "text/plain");
  for (const char* wrong : {"", "text", "text/", "/plain", "a/b/c", "te xt/plain", "text/plain\r\n"}) {
    EXPECT_EQ(bare_media_type(wrong), std::nullopt) << wrong;
  }
}

}  // namespace
}  // namespace sluice::api
