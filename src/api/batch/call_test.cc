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

}  // namespace
}  // namespace sluice::api::batch
