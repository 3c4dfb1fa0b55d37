#include "app/suite/step.h"

#include <gtest/gtest.h>

namespace sluice::app::suite {
namespace {

Answer answer(unsigned status, std::string type, std::string body) {
  Answer result;
  result.status = status;
  result.fields = {{"Content-Type", std::move(type)}, {"Location", "/films/1"}};
  result.body = std::move(body);
  return result;
}

// The result of judging an answer. `message` is empty if the step passes.
struct Judged {
  std::string message;
  Tap::Details details;
  Variables variables;
};
Judged judge(const std::string& keys, Answer came) {
  const auto suite = parse_suite(
      config::Source("t", "config = \"c\"\n[variables]\nslug = \"alien\"\n[[step]]\nrequest = \"GET /\"\n" + keys));
  if (!suite) return {suite.error().text(), {}, {}};
  Judged result;
  result.variables.values["slug"] = Json::string("alien");
  StepRun run(*suite, suite->steps[0], result.variables);
  run.judge(std::move(came));
  result.message = run.message();
  EXPECT_EQ(run.passed(), result.message.empty());
  result.details = run.details();
  return result;
}
std::string detail(const Judged& judged, std::string_view key) {
  for (const auto& [name, value] : judged.details) {
    if (name == key) return value;
  }
  return "none";
}

TEST(Step, Status) {
  EXPECT_EQ(judge("", answer(204, "", "")).message, "");
  EXPECT_EQ(judge("", answer(404, "", "")).message, "status: expected 200 to 299, got 404");
  EXPECT_EQ(judge("status = 404", answer(404, "", "")).message, "");
  EXPECT_EQ(judge("status = 201", answer(200, "", "")).message, "status: expected 201, got 200");
}

TEST(Step, Bodies) {
  const std::string json = "application/json; charset=utf-8";
  EXPECT_EQ(judge("expect = { slug = \"${slug}\" }", answer(200, json, R"({"slug":"alien","id":1})")).message, "");
  EXPECT_EQ(judge("expect = { slug = \"${slug}\" }", answer(200, json, R"({"slug":"heat"})")).message,
            "body.slug: expected \"alien\", got \"heat\"");
  EXPECT_EQ(judge("exact = { a = 1 }", answer(200, json, R"({"a":1,"b":2})")).message,
            "body.b: expected nothing, got 2");
  EXPECT_EQ(judge("expect = { a = 1 }", answer(200, json, "{\"a\"")).message,
            "the body cannot be compared: it is not JSON: it ends too early (byte 4)");
  EXPECT_EQ(judge("expect = {}", answer(200, "text/html", "<p>")).message,
            "the body cannot be compared: it is text/html");
  EXPECT_EQ(judge("expect = { title = \"#any\" }", answer(200, "application/problem+json", R"({"title":"x"})")).message,
            "");
  EXPECT_EQ(
      judge("expect = [{ a = 1 }, { a = 2 }]", answer(200, "application/x-ndjson", "{\"a\":1}\n{\"a\":2}\n")).message,
      "");
  EXPECT_EQ(judge("expect = [{ a = 1 }]", answer(200, "application/csj", "\"a\"\n1\n")).message, "");
}

TEST(Step, TablesShowWhichRowsDiffer) {
  const Judged judged =
      judge("table = '''\nid, slug\n1, \"${slug}\"\n2, \"heat\"\n'''",
            answer(200, "application/json", R"([{"id":1,"slug":"alien","x":0},{"id":2,"slug":"ran","x":0}])"));
  EXPECT_EQ(judged.message, "body.1.slug: expected \"heat\", got \"ran\"");
  EXPECT_EQ(detail(judged, "diff"), "--- expected\n+++ got\n 1, \"alien\"\n-2, \"heat\"\n+2, \"ran\"\n");
  EXPECT_EQ(detail(judged, "at"), "t:4");
}

TEST(Step, TextsAndHeaders) {
  EXPECT_EQ(judge("text = \"a\\n\"", answer(200, "text/csv", "a\n")).message, "");
  const Judged judged = judge("text = \"a\\nb\\n\"", answer(200, "text/csv", "a\nc\n"));
  EXPECT_EQ(judged.message, "the body is another text");
  EXPECT_EQ(detail(judged, "diff"), "--- expected\n+++ got\n a\n-b\n+c\n");
  EXPECT_EQ(judge("text = \"#contains x\"", answer(200, "text/csv", "a")).message, "the body is not #contains x");
  EXPECT_EQ(judge("expect_headers = { location = \"/films/1\", ETag = \"#absent\" }", answer(200, "", "")).message, "");
  EXPECT_EQ(judge("expect_headers = { Location = \"/films/2\" }", answer(200, "", "")).message,
            "header.Location: expected \"/films/2\", got \"/films/1\"");
  EXPECT_EQ(judge("expect_headers = { ETag = \"#any\" }", answer(200, "", "")).message,
            "header.ETag: expected #any, got nothing");
}

TEST(Step, SetsVariables) {
  const Judged judged =
      judge("set = { id = \"body.0.id\", where = \"header.location\", code = \"status\", all = \"body\" }",
            answer(200, "application/json", R"([{"id":12345678901234567890}])"));
  EXPECT_EQ(judged.message, "");
  EXPECT_EQ(judged.variables.values.at("id").text, "12345678901234567890");
  EXPECT_EQ(judged.variables.values.at("where").text, "/films/1");
  EXPECT_EQ(judged.variables.values.at("code").text, "200");
  EXPECT_EQ(judged.variables.values.at("all").kind, Json::Kind::array);
  EXPECT_EQ(judge("set = { id = \"body.1.id\" }", answer(200, "application/json", "[]")).message,
            "body.1.id: nothing was sent to set \"id\" from");
}

}  // namespace
}  // namespace sluice::app::suite
