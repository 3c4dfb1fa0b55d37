#include "http/h1/parser.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::http::h1 {
namespace {

using Kind = BodyFraming::Kind;

// The whole result of a parse, as values that outlive the parser.
struct Outcome {
  Parsed parsed;
  Method method{};
  Version version{};
  std::string method_text, target, path, segments, query, authority, upgrade;
  std::vector<std::pair<std::string, std::string>> fields;
  BodyFraming body;
  bool keep_alive = false;
  bool expects_continue = false;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome outcome_of(Parsed parsed, RequestParser& parser) {
  Outcome outcome;
  outcome.parsed = parsed;
  if (parsed.state != Parsed::State::done) return outcome;
  const Request& request = parser.request();
  outcome.method = request.method;
  outcome.version = request.version;
  outcome.method_text = request.method_text;
  outcome.target = request.target;
  outcome.path = request.path;
  outcome.segments = request.segments;
  outcome.query = request.query;
  outcome.authority = request.authority;
  outcome.upgrade = parser.upgrade();
  for (const Field& field : request.fields) outcome.fields.emplace_back(field.name, field.value);
  outcome.body = parser.body();
  outcome.keep_alive = parser.keep_alive();
  outcome.expects_continue = parser.expects_continue();
  return outcome;
}

// Passes growing prefixes of `bytes` to the parser, each in its own allocation of exact size, so that AddressSanitizer
// detects invalid reads and views.
Outcome feed(RequestParser& parser, std::string_view bytes, const std::vector<std::size_t>& sizes) {
  parser.reset();
  std::unique_ptr<char[]> block;
  Parsed parsed;
  for (std::size_t size : sizes) {
    auto moved = std::make_unique<char[]>(size);
    bytes.copy(moved.get(), size);
    block = std::move(moved);
    parsed = parser.parse({block.get(), size});
    if (parsed.state != Parsed::State::need_more) break;
  }
  return outcome_of(parsed, parser);
}

// Returns the outcome, after checking that it is the same for the whole bytes, byte by byte, and for every split in
// two.
Outcome parse(std::string_view bytes, const RequestLimits& limits = {}) {
  Request into;
  RequestParser parser(into, limits);
  const Outcome whole = feed(parser, bytes, {bytes.size()});
  std::vector<std::size_t> each;
  for (std::size_t size = 0; size <= bytes.size(); ++size) each.push_back(size);
  EXPECT_TRUE(feed(parser, bytes, each) == whole) << "byte by byte: " << bytes.substr(0, 300);
  if (bytes.size() < 2000) {
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_TRUE(feed(parser, bytes, {size, bytes.size()}) == whole) << "split at " << size << ": " << bytes;
    }
  }
  return whole;
}

Outcome accepted(std::string_view bytes) {
  Outcome outcome = parse(bytes);
  EXPECT_EQ(outcome.parsed.state, Parsed::State::done) << bytes << "\n" << describe(outcome.parsed.reason);
  EXPECT_EQ(outcome.parsed.head_size, bytes.size()) << bytes;
  return outcome;
}

void refused(std::string_view bytes, Reason reason, int status = 400) {
  const Outcome outcome = parse(bytes);
  EXPECT_EQ(outcome.parsed.state, Parsed::State::refused) << bytes;
  EXPECT_EQ(describe(outcome.parsed.reason), describe(reason)) << bytes;
  EXPECT_EQ(status_of(outcome.parsed.reason), status) << bytes;
}

std::string get(std::string_view target) { return "GET " + std::string(target) + " HTTP/1.1\r\nHost: h\r\n\r\n"; }
std::string with(std::string_view fields, std::string_view method = "GET") {
  return std::string(method) + " / HTTP/1.1\r\nHost: h\r\n" + std::string(fields) + "\r\n";
}
std::string with_host(std::string_view value) { return "GET / HTTP/1.1\r\nHost:" + std::string(value) + "\r\n\r\n"; }
std::string http10(std::string_view fields) { return "GET / HTTP/1.0\r\n" + std::string(fields) + "\r\n"; }

std::string path_of(std::string_view target) { return accepted(get(target)).path; }

TEST(RequestParser, Simple) {
  const Outcome outcome =
      accepted("GET /films/alien?lang=en&x HTTP/1.1\r\nHost: example.com:8080\r\nAccept:\t */* \t\r\n\r\n");
  EXPECT_EQ(outcome.method, Method::get);
  EXPECT_EQ(outcome.version, Version::http11);
  EXPECT_EQ(outcome.method_text, "GET");
  EXPECT_EQ(outcome.target, "/films/alien?lang=en&x");
  EXPECT_EQ(outcome.path, "/films/alien");
  EXPECT_EQ(outcome.query, "lang=en&x");
  EXPECT_EQ(outcome.authority, "example.com:8080");
  const std::vector<std::pair<std::string, std::string>> fields = {{"Host", "example.com:8080"}, {"Accept", "*/*"}};
  EXPECT_EQ(outcome.fields, fields);
  EXPECT_EQ(outcome.body, BodyFraming{});
  EXPECT_TRUE(outcome.keep_alive);
  EXPECT_FALSE(outcome.expects_continue);
  EXPECT_EQ(outcome.upgrade, "");
}

TEST(RequestParser, NeedsMoreUntilTheEmptyLine) {
  const std::string bytes = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n";
  Request into;
  RequestParser parser(into);
  EXPECT_FALSE(parser.in_request());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(parser.parse(std::string_view(bytes).substr(0, size)).state, Parsed::State::need_more);
    EXPECT_EQ(parser.in_request(), size > 0);
  }
  const Parsed parsed = parser.parse(bytes + "abc");
  EXPECT_EQ(parsed.state, Parsed::State::done);
  EXPECT_EQ(parsed.head_size, bytes.size());
  parser.reset();
  EXPECT_FALSE(parser.in_request());
}

TEST(RequestParser, PipelinedRequests) {
  const std::string bytes =
      "GET /one HTTP/1.1\r\nHost: a\r\n\r\n"
      "\r\nPOST /two?q HTTP/1.1\r\nHost: b\r\nContent-Length: 0\r\n\r\n"
      "GET /%74hree HTTP/1.0\r\n\r\n";
  Request into;
  RequestParser parser(into);
  std::string_view rest = bytes;
  std::string paths;
  while (!rest.empty()) {
    parser.reset();
    const Parsed parsed = parser.parse(rest);
    ASSERT_EQ(parsed.state, Parsed::State::done);
    paths += std::string(parser.request().path) + "(" + std::string(parser.request().authority) + ")";
    rest.remove_prefix(parsed.head_size);
  }
  EXPECT_EQ(paths, "/one(a)/two(b)/three()");
}

TEST(RequestParser, NothingIsLeftOfTheRequestBefore) {
  Request into;
  RequestParser parser(into);
  const std::string first =
      "POST http://other/%61?q HTTP/1.0\r\nHost: h\r\nContent-Length: 7\r\nConnection: upgrade, close\r\nUpgrade: "
      "x\r\n\r\n";
  ASSERT_EQ(parser.parse(first).state, Parsed::State::done);
  parser.reset();
  const std::string second = "GET /b HTTP/1.1\r\nHost: h\r\n\r\n";
  EXPECT_TRUE(outcome_of(parser.parse(second), parser) == accepted(second));
}

TEST(RequestParser, RelocatePointsToTheNewPlace) {
  const std::string bytes = "GET /a/%62?q=1 HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n";
  auto block = std::make_unique<char[]>(bytes.size());
  bytes.copy(block.get(), bytes.size());
  Request into;
  RequestParser parser(into);
  const Parsed parsed = parser.parse({block.get(), bytes.size()});
  const Outcome before = outcome_of(parsed, parser);
  auto moved = std::make_unique<char[]>(bytes.size());
  bytes.copy(moved.get(), bytes.size());
  block.reset();
  parser.relocate(moved.get());
  EXPECT_TRUE(outcome_of(parsed, parser) == before);
}

TEST(RequestLine, Methods) {
  for (const char* method : {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"}) {
    const Outcome outcome = accepted(with("", method));
    EXPECT_EQ(outcome.method_text, method);
    EXPECT_EQ(name_of(outcome.method), method);
  }
  for (const char* method : {"PROPFIND", "M-SEARCH", "get", "GETS", "GE", "!#$%&'*+-.^_`|~09azAZ"}) {
    const Outcome outcome = accepted(with("", method));
    EXPECT_EQ(outcome.method_text, method);
    EXPECT_EQ(outcome.method, Method::other);
  }
  EXPECT_EQ(accepted(with("", std::string(64, 'M'))).method, Method::other);
  refused(with("", std::string(65, 'M')), Reason::method_too_long, 501);
  for (const char* method : {"", "G(T", "G\tT", "GET:", "\"GET\"", "G\x80T", "G\x7fT", "{}"}) {
    refused(with("", method), Reason::bad_method);
  }
  refused(with("", std::string_view("G\0T", 3)), Reason::bad_method);
  refused(" GET / HTTP/1.1\r\nHost: h\r\n\r\n", Reason::bad_method);
  refused("GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n", Reason::bad_method);
  refused("GET\r\n\r\n", Reason::bad_method);
  refused("\x16\x03\x01\x02", Reason::bad_method);  // a TLS handshake on a port without TLS
}

TEST(RequestLine, ExactlyOneSpace) {
  refused("GET  / HTTP/1.1\r\nHost: h\r\n\r\n", Reason::bad_target);
  refused("GET /  HTTP/1.1\r\nHost: h\r\n\r\n", Reason::bad_version);
  refused("GET / HTTP/1.1 \r\nHost: h\r\n\r\n", Reason::bad_version);
  refused("GET /\tHTTP/1.1\r\nHost: h\r\n\r\n", Reason::bad_target);
  refused("GET /\r\nHost: h\r\n\r\n", Reason::bad_target);
  refused("GET /\n", Reason::bare_lf);
  refused("GET / \r\n", Reason::bad_version);
}

TEST(RequestLine, EmptyLinesBefore) {
  EXPECT_EQ(accepted("\r\n" + get("/a")).path, "/a");
  EXPECT_EQ(accepted("\r\n\r\n" + get("/a")).path, "/a");
  refused("\r\n\r\n\r\n" + get("/a"), Reason::too_many_empty_lines);
  refused("\n" + get("/a"), Reason::bare_lf);
  refused("\r" + get("/a"), Reason::bare_cr);
}

TEST(RequestLine, Versions) {
  EXPECT_EQ(accepted(http10("")).version, Version::http10);
  EXPECT_EQ(accepted("GET / HTTP/1.2\r\nHost: h\r\n\r\n").version, Version::http11);
  EXPECT_EQ(accepted("GET / HTTP/1.9\r\nHost: h\r\n\r\n").version, Version::http11);
  for (const char* version : {"HTTP/2.0", "HTTP/0.9", "HTTP/3.1"}) {
    refused("GET / " + std::string(version) + "\r\nHost: h\r\n\r\n", Reason::unsupported_version, 505);
  }
  for (const char* version : {"http/1.1", "HTTP/1", "HTTP/1.", "HTTP/1.10", "HTTP/11.1", "HTTP/a.1", "HTTP/1.x",
                              "HTTP 1.1", "XTTP/1.1", "HTTPS/1.1", "HTTP/1.1x", "HTTP/1,1", "x"}) {
    refused("GET / " + std::string(version) + "\r\nHost: h\r\n\r\n", Reason::bad_version);
  }
  refused("GET / HTTP/1.1\rHost: h\r\n\r\n", Reason::bare_cr);
  refused("GET / HTTP/1.1\nHost: h\r\n\r\n", Reason::bare_lf);
  refused("GET / HTTP/1.0\n\n", Reason::bare_lf);
  refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Reason::bad_target);  // an HTTP/2 client with prior knowledge
}

TEST(Target, OriginForm) {
  EXPECT_EQ(path_of("/"), "/");
  EXPECT_EQ(path_of("/a/b.c/d-e_f~g"), "/a/b.c/d-e_f~g");
  EXPECT_EQ(path_of("/a:b@c!d$e&f'g(h)i*j+k,l;m=n"), "/a:b@c!d$e&f'g(h)i*j+k,l;m=n");
  EXPECT_EQ(path_of("/[a]{b}|^`"), "/[a]{b}|^`");
  for (const char* byte : {"\\", "\"", "<", ">"}) {
    for (const char* begin : {"/", "/a", "/a%41", "http://h/", "/0123456789abcdef0123456789", "/0123456789abcde"}) {
      refused(get(std::string(begin) + byte), Reason::bad_target);
      refused(get(std::string(begin) + byte + "/0123456789abcdef0123456789"), Reason::bad_target);
    }
    EXPECT_EQ(accepted(get("/a?" + std::string(byte))).query, byte);
  }
  const std::string longer(300, 'x');
  EXPECT_EQ(path_of("/" + longer), "/" + longer);
  for (const char* target : {"/a#b", "/#", "/\xc3\xa9", "/a\x7f", "/a\x01", "/?a#", "/?\xff", "/?\x7f"}) {
    refused(get(target), Reason::bad_target);
  }
  refused(get(std::string_view("/\0", 2)), Reason::bad_target);
}

TEST(Target, HttpsNeedsTls) {
  const std::string bytes = get("HTTPS://h:443/a");
  refused(bytes, Reason::https_without_tls, 421);
  refused(get("https://h"), Reason::https_without_tls, 421);
  Request into;
  RequestParser parser(into);
  parser.set_secure(true);
  for (const std::string& each : {bytes, get("http://h:443/a")}) {
    parser.reset();
    ASSERT_EQ(parser.parse(each).state, Parsed::State::done);
    EXPECT_EQ(parser.request().path, "/a");
    EXPECT_EQ(parser.request().authority, "h:443");
  }
}

TEST(Target, Query) {
  EXPECT_EQ(accepted(get("/?")).query, "");
  EXPECT_EQ(accepted(get("/?")).path, "/");
  EXPECT_EQ(accepted(get("/a?b?c=/../%00//.%zz")).query, "b?c=/../%00//.%zz");
  EXPECT_EQ(accepted(get("/a?b?c=/../%00//.%zz")).path, "/a");
  EXPECT_EQ(accepted(get("/%61?b%61?c")).query, "b%61?c");
  EXPECT_EQ(accepted(get("/%61?b%61?c")).path, "/a");
}

TEST(Target, DecodedPath) {
  EXPECT_EQ(path_of("/%41%62%c3%A9%20%25"), "/Ab\xc3\xa9 %");
  EXPECT_EQ(path_of("/a%252Fb"), "/a%2Fb");
  EXPECT_EQ(path_of("/a%3Fb"), "/a?b");
  for (const char* target : {"/%", "/%1", "/%g1", "/%1g", "/a%/b", "/%%41", "/%1?1", "/%-1"}) {
    refused(get(target), Reason::bad_escape);
  }
  for (const char* target : {"/%00", "/a%00b", "/a/%00%zz"}) refused(get(target), Reason::nul_in_path);
}

TEST(Target, AnEncodedSlashIsDataInItsSegment) {
  using namespace std::string_view_literals;
  const auto check = [](std::string_view target, std::string_view path, std::string_view segments) {
    const Outcome outcome = accepted(get(target));
    EXPECT_EQ(outcome.path, path) << target;
    EXPECT_EQ(outcome.segments, segments) << target;
  };
  check("/a/b", "/a/b", "/a/b");
  check("/a/%62", "/a/b", "/a/b");
  check("/a%2Fb%2fc", "/a/b/c", "/a\0b\0c"sv);
  check("/%2f", "//", "/\0"sv);
  check("/%2f%2F/", "////", "/\0\0/"sv);
  check("/a%252Fb", "/a%2Fb", "/a%2Fb");
  check("/a%2Fb%252F", "/a/b%2F", "/a\0b%2F"sv);
  // Dots next to an encoded slash are data, because the segment does not consist only of dots.
  check("/x/..%2Fa", "/x/../a", "/x/..\0a"sv);
  check("/x/%2e%2e%2fa", "/x/../a", "/x/..\0a"sv);
  check("/a%2F../b", "/a/../b", "/a\0../b"sv);
  check("/a%2Fb/../c", "/c", "/c");
  check("/a/%2F/..", "/a/", "/a/");
  check("http://h/a%2Fb?c%2Fd", "/a/b", "/a\0b"sv);
}

TEST(Target, DotSegmentsAndSlashes) {
  EXPECT_EQ(path_of("/."), "/");
  EXPECT_EQ(path_of("/a/."), "/a/");
  EXPECT_EQ(path_of("/a/.."), "/");
  EXPECT_EQ(path_of("/a/../"), "/");
  EXPECT_EQ(path_of("/a/b/.."), "/a/");
  EXPECT_EQ(path_of("/a/./b/../../c"), "/c");
  EXPECT_EQ(path_of("/a/%2e%2E/b"), "/b");
  EXPECT_EQ(path_of("/a/.%2e/b/%2e"), "/b/");
  EXPECT_EQ(path_of("/.a/..b/...c/d."), "/.a/..b/...c/d.");
  EXPECT_EQ(path_of("/.../.well-known"), "/.../.well-known");
  EXPECT_EQ(path_of("//"), "/");
  EXPECT_EQ(path_of("//a///b//"), "/a/b/");
  EXPECT_EQ(path_of("/a//../b"), "/b");
  EXPECT_EQ(path_of("//example.com/x"), "/example.com/x");
  for (const char* target : {"/..", "/../", "/a/../..", "/a/../../b", "/%2e%2e/etc", "//..", "/./..", "/.%2E"}) {
    refused(get(target), Reason::path_above_root);
  }
}

TEST(Target, AnEmptySegmentIsTold) {
  Request into;
  RequestParser parser(into);
  const auto has_empty_segment = [&](const std::string& target) {
    parser.reset();
    const std::string bytes = get(target);
    EXPECT_EQ(parser.parse(bytes).state, Parsed::State::done) << target;
    return parser.request().has_empty_segment;
  };
  for (const char* target : {"//", "//a", "/a//", "/a//b", "/%61//b", "/a//../b", "/a/.//b", "http://h//a"}) {
    EXPECT_TRUE(has_empty_segment(target)) << target;
    EXPECT_FALSE(has_empty_segment("/plain")) << "after " << target;
  }
  for (const char* target : {"/", "/a/", "/a/./b", "/a/b/..", "/a/../b/", "/%2f%2f", "/a?//", "http://h/a"}) {
    EXPECT_FALSE(has_empty_segment(target)) << target;
  }
}

TEST(Target, AbsoluteForm) {
  Outcome outcome = accepted("GET http://example.com:81/a/../%62?q HTTP/1.1\r\nHost: other\r\n\r\n");
  EXPECT_EQ(outcome.authority, "example.com:81");
  EXPECT_EQ(outcome.path, "/b");
  EXPECT_EQ(outcome.query, "q");
  EXPECT_EQ(outcome.target, "http://example.com:81/a/../%62?q");
  outcome = accepted(get("HTTP://[::1]?q"));
  EXPECT_EQ(outcome.authority, "[::1]");
  EXPECT_EQ(outcome.path, "/");
  EXPECT_EQ(outcome.query, "q");
  EXPECT_EQ(accepted(get("http://h")).path, "/");
  EXPECT_EQ(accepted("OPTIONS http://h HTTP/1.1\r\nHost: h\r\n\r\n").path, "*");
  EXPECT_EQ(accepted("OPTIONS http://h/ HTTP/1.1\r\nHost: h\r\n\r\n").path, "/");
  for (const char* target : {"http:///a", "http://:80/", "http://u@h/", "http://u:p@h/", "ftp://h/", "http:/h",
                             "http:h", "http://h:x/", "http://h:65536/", "http://[::1/", "://h/", "http://?q",
                             "example.com", "a", "?", "?q", "%2F", ".", "http://a b/"}) {
    const Outcome bad = parse(get(target));
    EXPECT_EQ(bad.parsed.state, Parsed::State::refused) << target;
    EXPECT_EQ(status_of(bad.parsed.reason), 400) << target;
  }
  refused("GET http://h/ HTTP/1.1\r\n\r\n", Reason::missing_host);
  refused("GET http://h/ HTTP/1.1\r\nHost: a b\r\n\r\n", Reason::bad_host);
  refused(get("http://h/%zz"), Reason::bad_escape);
  refused(get("http://h/.."), Reason::path_above_root);
}

TEST(Target, AuthorityAndAsteriskForm) {
  const Outcome connect = accepted("CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(connect.method, Method::connect);
  EXPECT_EQ(connect.authority, "example.com:443");
  EXPECT_EQ(connect.path, "");
  EXPECT_FALSE(connect.keep_alive);
  for (const char* target : {"example.com", "example.com:", "/", "*", "http://h:1/", "u@h:1", ":1", "h:1?q", "h:1/"}) {
    refused("CONNECT " + std::string(target) + " HTTP/1.1\r\nHost: x\r\n\r\n", Reason::bad_target);
  }
  refused(get("example.com:443"), Reason::bad_target);

  EXPECT_EQ(accepted("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n").path, "*");
  refused(get("*"), Reason::bad_target);
  refused("OPTIONS ** HTTP/1.1\r\nHost: x\r\n\r\n", Reason::bad_target);
  refused("OPTIONS *?q HTTP/1.1\r\nHost: x\r\n\r\n", Reason::bad_target);
}

TEST(Fields, Names) {
  const std::string name = "!#$%&'*+-.^_`|~0189azAZ";
  EXPECT_EQ(accepted(with(name + ":v\r\n")).fields[1].first, name);
  EXPECT_EQ(accepted(with("X_a_very-long.name-that-fills-more-than-a-few-vectors-of-bytes: v\r\n")).fields[1].second,
            "v");
  for (const char* line : {": v", "a(b: v", "a\"b: v", "a/b: v", "\xc3\xa9: v", "a\x7f: v", "a\x01: v", "a[b]: v",
                           "name", "a@b: v", "a,b: v", "a{: v"}) {
    refused(with(std::string(line) + "\r\n"), Reason::bad_field_name);
  }
  refused(with(std::string_view("a\0b: v\r\n", 8)), Reason::bad_field_name);
  refused(with("Name : v\r\n"), Reason::space_before_colon);
  refused(with("Name\t: v\r\n"), Reason::space_before_colon);
  refused(with("Two Words: v\r\n"), Reason::space_before_colon);
}

TEST(Fields, Values) {
  EXPECT_EQ(accepted(with("A:\r\n")).fields[1].second, "");
  EXPECT_EQ(accepted(with("A: \t \r\n")).fields[1].second, "");
  EXPECT_EQ(accepted(with("A:b\r\n")).fields[1].second, "b");
  EXPECT_EQ(accepted(with("A: \tb \t c\t \r\n")).fields[1].second, "b \t c");
  EXPECT_EQ(accepted(with("A: \xc3\xa9\xff\x80 :\"\r\n")).fields[1].second, "\xc3\xa9\xff\x80 :\"");
  const std::string longer(1000, 'v');
  EXPECT_EQ(accepted(with("A: " + longer + "\r\n")).fields[1].second, longer);
  for (char c = 1; c < 0x20; ++c) {
    if (c == '\t' || c == '\n' || c == '\r') continue;
    refused(with("A: b" + std::string(1, c) + "c\r\n"), Reason::bad_field_value);
  }
  refused(with("A: b\x7f\r\n"), Reason::bad_field_value);
  refused(with(std::string_view("A: b\0\r\n", 7)), Reason::bad_field_value);
}

TEST(Fields, LineEnds) {
  refused(with("A: b\nC: d\r\n"), Reason::bare_lf);
  refused(with("A: b\rC: d\r\n"), Reason::bare_cr);
  refused(with("A: b\r\r\n"), Reason::bare_cr);
  refused("GET / HTTP/1.1\r\nHost: h\r\n\n", Reason::bare_lf);
  refused("GET / HTTP/1.1\r\nHost: h\r\n\rx", Reason::bare_cr);
  refused("GET / HTTP/1.1\r\nHost: h\n\n", Reason::bare_lf);
  refused(with("A: b\r\n c\r\n"), Reason::obsolete_folding);
  refused(with("A: b\r\n\tc\r\n"), Reason::obsolete_folding);
  refused(with("A: b\r\n \r\n"), Reason::obsolete_folding);
  refused("GET / HTTP/1.1\r\n Host: h\r\n\r\n", Reason::obsolete_folding);
}

TEST(Host, ExactlyOne) {
  refused("GET / HTTP/1.1\r\n\r\n", Reason::missing_host);
  refused("GET / HTTP/1.1\r\nHos: h\r\nHosts: h\r\nHose: h\r\n\r\n", Reason::missing_host);
  refused(with("Host: h\r\n"), Reason::duplicate_host);
  refused(http10("Host: h\r\nhOST: h\r\n"), Reason::duplicate_host);
  EXPECT_EQ(accepted(http10("")).authority, "");
  EXPECT_EQ(accepted(http10("hOsT: h\r\n")).authority, "h");
}

TEST(Host, Values) {
  for (const char* value :
       {"", "h", "example.com", "example.com:8080", "example.com:", "127.0.0.1:1", "a_b", "a~b!$&'()*+=", "a.b.",
        "[::1]", "[::]:80", "[2001:db8::1]:443", "[1:2:3:4:5:6:7:8]", "[::ffff:1.2.3.4]", "[1::]", "[v1.a:b]",
        "xn--a-very-long-host-name.with-many.labels.example.com:65535"}) {
    EXPECT_EQ(accepted(with_host(value)).authority, value);
    EXPECT_EQ(accepted(with_host(" \t" + std::string(value) + "\t ")).authority, value);
  }
  for (const char* value : {":80",
                            "a b",
                            "a,b c",
                            "a/b",
                            "a?b",
                            "a#b",
                            "u@h",
                            "a:b",
                            "a:1:2",
                            "a:65536",
                            "a:99999999999999999999",
                            "a:-1",
                            "a:1 2",
                            "[::1",
                            "::1",
                            "[]",
                            "[:]",
                            "[1:2]",
                            "[:::]",
                            "[1::2::3]",
                            "[1:2:3:4:5:6:7:8:9]",
                            "[1:2:3:4:5:6:7:8::]",
                            "[12345::]",
                            "[::1.2.3]",
                            "[::1.2.3.256]",
                            "[::1.2.3.04]",
                            "[::1.2.3.4:5]",
                            "[::g]",
                            "[::1]x",
                            "[::1]80",
                            "[v.a]",
                            "[v1.]",
                            "[vg.a]",
                            "[v1]",
                            "[fe80::1%25eth0]",
                            "%41",
                            "a%2eb",
                            "a.b..",
                            "a..b",
                            ".",
                            ".a",
                            "%4",
                            "%zz",
                            "\xc3\xa9",
                            "a\\b",
                            "a\"",
                            "<a>",
                            "a|b",
                            "admin.example,b",
                            "a;admin.example",
                            "[1:2:3:4:5:6:7:]"}) {
    refused(with_host(value), Reason::bad_host);
  }
}

TEST(Host, TheOneBeforeDoesNotVouchForAnother) {
  Request into;
  RequestParser parser(into);
  const auto state = [&parser](std::string_view value) {
    parser.reset();
    return parser.parse(with_host(value)).state;
  };
  const std::string longest(64, 'a');
  const std::string longer(65, 'a');
  for (const std::string& host : {std::string("abc"), std::string("abc:80"), longest, longer}) {
    std::string bad = host;
    bad.back() = '/';
    EXPECT_EQ(state(host), Parsed::State::done);
    EXPECT_EQ(state(host), Parsed::State::done);
    EXPECT_EQ(state(bad), Parsed::State::refused);
    EXPECT_EQ(state(bad), Parsed::State::refused);
    EXPECT_EQ(state(""), Parsed::State::done);
    EXPECT_EQ(state(bad), Parsed::State::refused);
  }
}

TEST(Body, ContentLength) {
  const auto length = [](std::string_view value) {
    return accepted(with("Content-Length: " + std::string(value) + "\r\n", "POST")).body;
  };
  EXPECT_EQ(length("0"), BodyFraming{});
  EXPECT_EQ(length("1"), (BodyFraming{Kind::length, 1}));
  EXPECT_EQ(length("00012"), (BodyFraming{Kind::length, 12}));
  EXPECT_EQ(length("9223372036854775799"), (BodyFraming{Kind::length, 9223372036854775799u}));
  for (const char* value : {"9223372036854775810", "9999999999999999999", "18446744073709551615",
                            "18446744073709551616", "18446744073709551621", "99999999999999999999999999999999"}) {
    EXPECT_EQ(length(value), (BodyFraming{Kind::length, INT64_MAX})) << value;
  }
  for (const char* value :
       {"", "-1", "+1", "1 2", "1,1", "5, 5", "0x10", "1a", "a", "1.0", "18446744073709551616x", "\"1\"", "\xb2"}) {
    refused(with("Content-Length: " + std::string(value) + "\r\n", "POST"), Reason::bad_content_length);
  }
  refused(with("Content-Length: 5\r\nContent-Length: 6\r\n"), Reason::duplicate_content_length);
  refused(with("Content-Length: 5\r\ncontent-length: 5\r\n"), Reason::duplicate_content_length);
  refused(with("Content-Length: 0\r\nContent-Length: 0\r\n"), Reason::duplicate_content_length);
}

TEST(Body, TransferEncoding) {
  const auto chunked = BodyFraming{Kind::chunked, 0};
  EXPECT_EQ(accepted(with("Transfer-Encoding: chunked\r\n")).body, chunked);
  EXPECT_EQ(accepted(with("tRANSFER-eNCODING: \t Chunked \r\n")).body, chunked);
  EXPECT_EQ(accepted(with("Transfer-Encoding: ,chunked, ,\r\nTransfer-Encoding:\r\n")).body, chunked);
  for (const char* value :
       {"gzip, chunked", "identity,chunked", "x, y, CHUNKED", "gzip\r\nTransfer-Encoding: chunked"}) {
    refused(with("Transfer-Encoding: " + std::string(value) + "\r\n"), Reason::unsupported_transfer_encoding, 501);
  }
  for (const char* value :
       {"", "gzip", "identity", "chunked, gzip", ",", "chunked,,chunked", "chunked, chunked", "xchunked", "chunked;q=1",
        "chunke", "chunkedd", "\"chunked\"", "chunked\r\nTransfer-Encoding: chunked",
        "chunked\r\nTransfer-Encoding: gzip", "chunked, gzip, chunked", "chun\tked", "chunked\x80"}) {
    refused(with("Transfer-Encoding: " + std::string(value) + "\r\n"), Reason::bad_transfer_encoding);
  }
  refused(with("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), Reason::length_and_encoding);
  refused(with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), Reason::length_and_encoding);
  refused(with("Content-Length: 0\r\nTransfer-Encoding: gzip\r\n"), Reason::length_and_encoding);
  refused(http10("Transfer-Encoding: chunked\r\n"), Reason::transfer_encoding_in_http10);
  EXPECT_EQ(accepted(with("Transfer_Encoding: chunked\r\nTransfer-Encodinh: x\r\nContent_Length: x\r\n")).body,
            BodyFraming{});
}

TEST(Connection, KeepAlive) {
  EXPECT_TRUE(accepted(with("")).keep_alive);
  EXPECT_TRUE(accepted(with("Connection: keep-alive\r\n")).keep_alive);
  EXPECT_TRUE(accepted(with("Connection: closed, foo, disclose\r\n")).keep_alive);
  EXPECT_TRUE(accepted(with("Connection:\r\n")).keep_alive);
  EXPECT_FALSE(accepted(with("Connection: close\r\n")).keep_alive);
  EXPECT_FALSE(accepted(with("CONNECTION: foo ,\tCLOSE\t,\r\n")).keep_alive);
  EXPECT_FALSE(accepted(with("Connection: keep-alive\r\nConnection: close\r\n")).keep_alive);
  EXPECT_FALSE(accepted(http10("")).keep_alive);
  EXPECT_TRUE(accepted(http10("Connection: Keep-Alive\r\n")).keep_alive);
  EXPECT_FALSE(accepted(http10("Connection: keep-alive, close\r\n")).keep_alive);
}

TEST(Connection, Upgrade) {
  EXPECT_EQ(accepted(with("Connection: Upgrade\r\nUpgrade: websocket\r\n")).upgrade, "websocket");
  EXPECT_EQ(accepted(with("uPGRADE: a/1, b\r\nConnection: keep-alive, upgrade\r\nUpgrade: c\r\n")).upgrade, "a/1, b");
  EXPECT_EQ(accepted(with("Upgrade: websocket\r\n")).upgrade, "");
  EXPECT_EQ(accepted(with("Connection: upgrade\r\n")).upgrade, "");
  EXPECT_EQ(accepted(http10("Connection: upgrade\r\nUpgrade: websocket\r\n")).upgrade, "");
}

TEST(Connection, Expect) {
  EXPECT_TRUE(accepted(with("Expect: 100-continue\r\nContent-Length: 1\r\n")).expects_continue);
  EXPECT_TRUE(accepted(with("eXPECT: 100-Continue\r\nTransfer-Encoding: chunked\r\n")).expects_continue);
  EXPECT_FALSE(accepted(with("Expect: 100-continue\r\nContent-Length: 0\r\n")).expects_continue);
  EXPECT_FALSE(accepted(with("Expect: 100-continue\r\n")).expects_continue);
  EXPECT_FALSE(accepted(http10("Expect: 100-continue\r\nContent-Length: 1\r\n")).expects_continue);
  for (const char* value : {"", "100", "200-ok", "100-continue, x", "100-continue;a"}) {
    refused(with("Expect: " + std::string(value) + "\r\n"), Reason::unsupported_expectation, 417);
  }
}

TEST(Limits, Target) {
  const RequestLimits limits{.target_size = 20};
  const auto state = [&](std::string_view target) { return parse(get(target), limits).parsed; };
  EXPECT_EQ(state("/" + std::string(19, 'a')).state, Parsed::State::done);
  EXPECT_EQ(state("/?" + std::string(18, '?')).state, Parsed::State::done);
  for (const std::string& target :
       {"/" + std::string(20, 'a'), "/?" + std::string(19, 'a'), "/%41" + std::string(17, '/'),
        "/" + std::string(19, 'a') + "\x01\x02", "/" + std::string(100, 'a')}) {
    const Parsed parsed = state(target);
    if (target.find('\x01') != std::string::npos) {
      EXPECT_EQ(parsed.reason, Reason::bad_target);  // the byte after the longest allowed target must be a space
    } else {
      EXPECT_EQ(parsed.reason, Reason::target_too_long) << target;
      EXPECT_EQ(status_of(parsed.reason), 414);
    }
  }
  EXPECT_EQ(parse(get("/" + std::string(8191, 'a'))).parsed.state, Parsed::State::done);
  EXPECT_EQ(parse(get("/" + std::string(8192, 'a'))).parsed.reason, Reason::target_too_long);
  // A target that exceeds the limit of the head, but not its own.
  EXPECT_EQ(parse(get("/" + std::string(200, 'a')), {.head_size = 100}).parsed.reason, Reason::target_too_long);
}

TEST(Limits, Head) {
  const auto of_size = [](std::size_t size) {
    const std::string around = with("A: \r\n");
    return with("A: " + std::string(size - around.size(), 'v') + "\r\n");
  };
  EXPECT_EQ(parse(of_size(16384)).parsed.state, Parsed::State::done);
  const Parsed parsed = parse(of_size(16385)).parsed;
  EXPECT_EQ(parsed.reason, Reason::head_too_large);
  EXPECT_EQ(status_of(parsed.reason), 431);
  EXPECT_EQ(parse(of_size(100), {.head_size = 100}).parsed.state, Parsed::State::done);
  EXPECT_EQ(parse(of_size(100) + "and a body", {.head_size = 100}).parsed.head_size, 100);
  for (std::size_t limit = 1; limit < 100; ++limit) {
    EXPECT_EQ(status_of(parse(of_size(100), {.head_size = limit}).parsed.reason), limit == 4 || limit == 5 ? 414 : 431)
        << limit;
  }
  // Bytes beyond the limit are ignored, however the bytes are split.
  EXPECT_EQ(parse(with("A: " + std::string(100, 'v') + "\n"), {.head_size = 80}).parsed.reason, Reason::head_too_large);
  // The limit is capped at what the offsets can represent.
  Request into;
  RequestParser parser(into, {.head_size = 1 << 20});
  EXPECT_EQ(parser.parse(of_size(65535)).state, Parsed::State::done);
  parser.reset();
  EXPECT_EQ(parser.parse(of_size(65536)).reason, Reason::head_too_large);
}

TEST(Limits, FieldCount) {
  std::string fields;
  for (int i = 0; i < 127; ++i) fields += "a: b\r\n";
  EXPECT_EQ(accepted(with(fields)).fields.size(), 128u);
  refused(with(fields + "a: b\r\n"), Reason::too_many_fields, 431);
  EXPECT_EQ(parse(with("a: b\r\n"), {.field_count = 2}).parsed.state, Parsed::State::done);
  EXPECT_EQ(parse(with("a: b\r\na: b\r\n"), {.field_count = 2}).parsed.reason, Reason::too_many_fields);
  const Outcome many = parse(with(fields + fields), {.field_count = 255});
  EXPECT_EQ(many.parsed.state, Parsed::State::done);
  EXPECT_EQ(many.fields.size(), 255u);
}

TEST(RequestParser, TheMethodIsKnownAsSoonAsItHasCome) {
  Request into;
  RequestParser parser(into);
  EXPECT_EQ(parser.method(), Method::other);
  (void)parser.parse("POS");
  EXPECT_EQ(parser.method(), Method::other);
  (void)parser.parse("POST /");
  EXPECT_EQ(parser.method(), Method::post);
  EXPECT_EQ(parser.parse("POST / HTTP/1.1\n").reason, Reason::bare_lf);
  EXPECT_EQ(parser.method(), Method::post);
  parser.reset();
  EXPECT_EQ(parser.method(), Method::other);
}

TEST(RequestParser, EveryRefusalHasAStatusAndASentence) {
  for (int reason = 1; reason <= static_cast<int>(Reason::trailers_too_large); ++reason) {
    const int status = status_of(static_cast<Reason>(reason));
    EXPECT_TRUE(status >= 400 && status < 600) << reason;
    EXPECT_FALSE(describe(static_cast<Reason>(reason)).empty()) << reason;
  }
}

}  // namespace
}  // namespace sluice::http::h1
