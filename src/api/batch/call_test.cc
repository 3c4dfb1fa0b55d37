#include "api/batch/call.h"

#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace sluice::api::batch {
namespace {

TEST(BatchCallTest, ReadsCalls) {
  const auto calls = parse_calls(R"([
    {"method": "POST", "path": "/films?x=1", "id": "film", "body": {"n": 1.50, "s": "\u00e9"}, "headers": {"If-Match": "\"1\""}},
    {"path": "/films/${film.id}/${0.s}", "method": "DELETE"},
    {"method": "PUT", "path": "/a", "headers": {"content-type": "text/csv"}, "body": "n\n1\n"}])",
                                 {.calls = 3});
  ASSERT_TRUE(calls) << calls.error().reason;
  ASSERT_EQ(calls->size(), 3);
  const Call& first = calls->front();
  EXPECT_EQ(first.method, http::Method::post);
  EXPECT_EQ(first.target, "/films?x=1");
  EXPECT_EQ(first.id, "film");
  EXPECT_EQ(first.body, R"({"n": 1.50, "s": "\u00e9"})");
  ASSERT_EQ(first.fields.size(), 2);
  EXPECT_EQ(first.fields[0], (std::pair<std::string, std::string>{"if-match", "\"1\""}));
  EXPECT_EQ(first.fields[1], (std::pair<std::string, std::string>{"content-type", "application/json"}));
  EXPECT_TRUE((*calls)[1].body.empty());
  EXPECT_TRUE((*calls)[1].fields.empty());
  EXPECT_TRUE((*calls)[2].body.empty());
  EXPECT_EQ((*calls)[2].text, "n\n1\n");
  EXPECT_TRUE(parse_calls("[]", {.calls = 1})->empty());
}

TEST(BatchCallTest, RefusesAtItsPlace) {
  struct Case {
    std::string json;
    std::string_view pointer;
    std::string_view says;
  };
  const Case cases[] = {
      {"", "", "no JSON"},
      {"{}", "", "no array"},
      {"[{}", "", "no JSON"},
      {"[]x", "", "no JSON"},
      {"[\"\xff\"]", "", "no JSON"},
      {std::string(2000, '[') + std::string(2000, ']'), "", "deeply"},
      {R"([{"method":"GET","path":"/"},{"method":"GET","path":"/"},{"method":"GET","path":"/"}])", "",
       "more calls than the 2"},
      {"[1]", "/0", "no object"},
      {R"([{"path":"/films"}])", "/0", "no method"},
      {R"([{"method":"GET"}])", "/0", "no path"},
      {R"([{"method":"HEAD","path":"/films"}])", "/0/method", "not GET"},
      {R"([{"method":"get","path":"/films"}])", "/0/method", "not GET"},
      {R"([{"method":7,"path":"/films"}])", "/0/method", "no string"},
      {R"([{"method":"GET","path":"films"}])", "/0/path", "begin"},
      {R"([{"method":"GET","path":"/films\r\nX: y"}])", "/0/path", "escaped"},
      {R"([{"method":"GET","path":"/films#a"}])", "/0/path", "escaped"},
      {R"([{"method":"GET","path":"/films","method":"GET"}])", "/0/method", "twice"},
      {R"([{"method":"GET","path":"/films","a/b~":1}])", "/0/a~1b~0", "no such member"},
      {R"([{"method":"GET","path":"/films","headers":{"Authorization":"Bearer x"}}])", "/0/headers/Authorization",
       "batch"},
      {R"([{"method":"GET","path":"/films","headers":{"content-length":"1"}}])", "/0/headers/content-length", "batch"},
      {R"([{"method":"GET","path":"/films","headers":{"X":"a\nb"}}])", "/0/headers/X", "characters"},
      {R"([{"method":"GET","path":"/films","headers":{"X y":"a"}}])", "/0/headers/X y", "name"},
      {R"([{"method":"GET","path":"/films","headers":{"X":"a","x":"a"}}])", "/0/headers/x", "twice"},
      {R"([{"method":"GET","path":"/films","headers":[]}])", "/0/headers", "no object"},
      {R"([{"method":"PUT","path":"/a","headers":{"content-type":"text/csv"},"body":{}}])", "/0/body", "string"},
      {R"([{"method":"GET","path":"/films","id":""}])", "/0/id", "empty"},
      {R"([{"method":"GET","path":"/films","id":"1"}])", "/0/id", "index"},
      {R"([{"method":"GET","path":"/films","id":"a.b"}])", "/0/id", "characters"},
      {R"([{"method":"GET","path":"/films/${0.x}"}])", "/0/path", "no earlier call"},
      {R"([{"method":"GET","path":"/","id":"a"},{"method":"GET","path":"/","id":"a"}])", "/1/id", "earlier"},
      {R"([{"method":"POST","path":"/films","body":{"slug":"${a"}}])", "/0/body", "without"},
      {R"([{"method":"POST","path":"/films","body":{"slug":"${b.x}"}}])", "/0/body", "\"b\""},
  };
  for (const Case& each : cases) {
    const auto calls = parse_calls(each.json, {.calls = 2});
    ASSERT_FALSE(calls) << each.json;
    EXPECT_EQ(calls.error().pointer, each.pointer) << each.json;
    EXPECT_TRUE(calls.error().reason.contains(each.says)) << each.json << ": " << calls.error().reason;
  }
}

TEST(BatchCallTest, SetsNoFieldThatIsTheBatchsOwn) {
  const std::string own[] = {"if-match", "x-role"};
  for (const std::string_view name : {"X-Role", "x-role", "If-Match"}) {
    const std::string json = R"([{"method":"GET","path":"/"},{"method":"GET","path":"/","headers":{"a":"b",")" +
                             std::string(name) + R"(":"c"}}])";
    const auto calls = parse_calls(json, {.calls = 2}, own);
    ASSERT_FALSE(calls) << name;
    EXPECT_EQ(calls.error().pointer, "/1/headers/" + std::string(name));
    EXPECT_TRUE(calls.error().reason.contains("belongs to the batch")) << calls.error().reason;
    EXPECT_TRUE(parse_calls(json, {.calls = 2})) << "nothing names it";
  }
  EXPECT_TRUE(
      parse_calls(R"([{"method":"GET","path":"/","headers":{"If-None-Match":"*","X-Roles":"a"}}])", {.calls = 1}, own));
}

TEST(BatchCallTest, FindsWhatIsReferredTo) {
  Results results;
  results.add(
      "film",
      R"({"id": 7, "slug": "a \"b\"/é", "score": 1.50, "ok": true, "none": null, "tags": [{"tag": "x"}, "y"]})");
  results.add("", R"([1, 22])");
  results.add("silent", "");
  EXPECT_EQ(results.resolve_target("/films/${film.slug}/${0.id}?n=${1.1}&s=${film.score}&t=${film.tags.0.tag}"),
            "/films/a%20%22b%22%2F%C3%A9/7?n=22&s=1.50&t=x");
  EXPECT_EQ(results.resolve_target("/$${x}"), "/${x}");
  EXPECT_EQ(results.resolve_json(
                R"({"a": "${film.score}", "${film.id}": "${film.slug}", "c": ["n ${film.id} ${film.slug}", "$${"]})"),
            R"({"a": 1.50, "${film.id}": "a \"b\"/é", "c": ["n 7 a \"b\"/é", "${"]})");
  EXPECT_EQ(results.resolve_json(R"(["${film.tags}", "${film.none}", "${1}"])"),
            R"([[{"tag": "x"}, "y"], null, [1, 22]])");
  EXPECT_EQ(results.resolve_json(R"("a\"${film.ok}\\")"), R"("a\"true\\")");
  EXPECT_TRUE(results.resolve_json(R"("${film.id}${film.id}")", 3));
  EXPECT_FALSE(results.resolve_json(R"("${film.id}${film.id}")", 2))
      << "references do not make a body longer than that";
  EXPECT_FALSE(results.resolve_json(R"([1,"${film.id}"])", 3));
  EXPECT_TRUE(results.resolve_text("${film.id}${film.id}", 2));
  EXPECT_FALSE(results.resolve_text("${film.id}${film.id}", 1));
  EXPECT_EQ(results.resolve_text("n\n${film.id}\n"), "n\n7\n");

  Results dots;
  dots.add("a", R"({"one": ".", "two": "..", "three": "...", "up": "../x", "down": "x/..", "escaped": "%2e%2e"})");
  for (const std::string_view bad :
       {"/films/${a.one}", "/films/${a.two}", "/films/${a.two}/tags", "/${a.one}${a.one}/tags", "/films/.${a.one}",
        "/films/%2e${a.one}", "/films/${a.one}%2E", "/films/${a.up}", "/films/${a.down}", "/films/x%2f${a.two}?q=1",
        "/films/${a.three}/../x"}) {
    const auto refused = dots.resolve_target(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_TRUE(refused.error().contains("segment")) << refused.error();
  }
  for (const auto& [good, is] : {std::pair{"/films/${a.three}", "/films/..."},
                                 {"/films/x${a.two}", "/films/x.."},
                                 {"/films/${a.escaped}", "/films/%252e%252e"},
                                 {"/films/../x?up=${a.two}", "/films/../x?up=.."}}) {
    EXPECT_EQ(dots.resolve_target(good), is);
  }

  Results formats;
  formats.add("a", R"({"csv": "x.csv", "csj": "x/.csj", "tail": "son", "bare": ".json", "none": "x.csvx"})");
  for (const std::string_view bad :
       {"/films/${a.csv}", "/films/${a.csv}?q=1", "/films/x%2ej${a.tail}", "/films/${a.none}/x.nd%6A${a.tail}"}) {
    const auto refused = formats.resolve_target(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_TRUE(refused.error().contains("extension")) << refused.error();
  }
  for (const auto& [good, is] : {std::pair{"/films/${a.csv}/tags", "/films/x.csv/tags"},
                                 {"/films/${a.csv}.json", "/films/x.csv.json"},
                                 {"/films/${a.bare}", "/films/.json"},
                                 {"/films/${a.none}", "/films/x.csvx"},
                                 {"/films?q=${a.csv}", "/films?q=x.csv"},
                                 {"/films.csv?q=${a.csv}", "/films.csv?q=x.csv"}}) {
    EXPECT_EQ(formats.resolve_target(good), is);
  }

  for (const std::string_view bad : {"${film.nothing}", "${film.id.x}", "${film.tags.2}", "${film.tags.x}",
                                     "${silent.id}", "${9.id}", "${film.}", "${film.tags}", "${film.none}", "${film"}) {
    EXPECT_FALSE(results.resolve_target("/" + std::string(bad))) << bad;
    EXPECT_FALSE(results.resolve_json("\"a" + std::string(bad) + "\"")) << bad;
  }
}

}  // namespace
}  // namespace sluice::api::batch
