#include "api/batch/references.h"

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::api::batch {
namespace {

template <class Work>
void finish(Work& work) {
  while (work.advance() != 0) {
  }
}

// Answered calls, and one more call that refers to them.
class Answers {
 public:
  using Text = std::expected<std::string, std::string>;

  void add(std::string id, std::string body) {
    calls_.emplace_back().id = std::move(id);
    bodies_.push_back(std::move(body));
  }
  [[nodiscard]] Text resolve_target(std::string_view text) const {
    return resolve(&Call::target, Resolution::Form::read_target, text, SIZE_MAX);
  }
  [[nodiscard]] Text resolve_written_target(std::string_view text) const {
    return resolve(&Call::target, Resolution::Form::target, text, SIZE_MAX);
  }
  [[nodiscard]] Text resolve_json(std::string_view text, std::size_t most = SIZE_MAX) const {
    return resolve(&Call::body, Resolution::Form::json, text, most);
  }
  [[nodiscard]] Text resolve_text(std::string_view text, std::size_t most = SIZE_MAX) const {
    return resolve(&Call::text, Resolution::Form::text, text, most);
  }

 private:
  [[nodiscard]] Text resolve(std::string Call::* where, Resolution::Form form, std::string_view text,
                             std::size_t most) const {
    std::vector<Call> calls = calls_;
    calls.emplace_back().*where = text;
    Results results(calls);
    for (const std::string& body : bodies_) {
      results.add(body);
      finish(results);
    }
    Resolution resolution(results, text, form, most);
    finish(resolution);
    return resolution.take();
  }

  std::vector<Call> calls_;
  std::vector<std::string> bodies_;
};

TEST(ReferencesTest, FindsWhatIsReferredTo) {
  Answers results;
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

  Answers dots;
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

  Answers formats;
  formats.add("a", R"({"csv": "x.csv", "csj": "x/.csj", "tail": "son", "bare": ".json", "none": "x.csvx"})");
  for (const std::string_view bad :
       {"/films/${a.csv}", "/films/${a.csv}?q=1", "/films/x%2ej${a.tail}", "/films/${a.none}/x.nd%6A${a.tail}"}) {
    const auto refused = formats.resolve_target(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_TRUE(refused.error().contains("extension")) << refused.error();
    EXPECT_TRUE(formats.resolve_written_target(bad)) << bad << ": part of the name";
  }
  EXPECT_EQ(formats.resolve_written_target("/films/${a.csv}"), "/films/x.csv");
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

// Numbers keep their notation, whatever surrounds them and however deep they are.
TEST(ReferencesTest, FindsEveryValueInOneReading) {
  Answers results;
  results.add("a",
              " [ {\"n\" : 1.50 , \"s\":\"x\\\"}]\" , \"o\" : { \"p\" :[ 1e3 ,[-0.0,{}] ] }}, 7 ,\n[] , "
              "{\"n\":1,\"n\":2, \"\":3} ]\n");
  for (const auto& [path, is] : {std::pair{"0.n", "1.50"},
                                 {"0.s", "\"x\\\"}]\""},
                                 {"0.o", "{ \"p\" :[ 1e3 ,[-0.0,{}] ] }"},
                                 {"0.o.p", "[ 1e3 ,[-0.0,{}] ]"},
                                 {"0.o.p.0", "1e3"},
                                 {"0.o.p.1.0", "-0.0"},
                                 {"0.o.p.1.1", "{}"},
                                 {"1", "7"},
                                 {"2", "[]"},
                                 {"3.n", "1"},
                                 {"3.", "3"}}) {
    EXPECT_EQ(results.resolve_json("\"${a." + std::string(path) + "}\""), is) << path;
  }
  EXPECT_EQ(
      results.resolve_json(R"(["${a.0.o}","${a.0.o.p.0}","${0.1}${a.1}",{"k":"${a.0.o.p.1}","${a}":"$${a.1}${a.1}"}])"),
      R"([{ "p" :[ 1e3 ,[-0.0,{}] ] },1e3,"77",{"k":[-0.0,{}],"${a}":"${a.1}7"}])");
  for (const auto& [path, says] : {std::pair{"4", "there is no \"4\""},
                                   {"00", "there is no \"00\""},
                                   {"0.o.q", "there is no \"q\""},
                                   {"0.n.x", "there is nothing in which \"x\" could be"},
                                   {"3.n.x", "there is nothing in which \"x\" could be"}}) {
    const auto refused = results.resolve_json("\"${a." + std::string(path) + "}\"");
    ASSERT_FALSE(refused) << path;
    EXPECT_TRUE(refused.error().contains(says)) << refused.error();
  }
  Answers number;
  number.add("", "7");
  EXPECT_EQ(number.resolve_json("\"${0}\""), "7");
  EXPECT_TRUE(number.resolve_json("\"${0.a}\"").error().contains("neither an object nor an array"));
  for (const char* broken : {"{\"a\":", "[[[", "]", "\"", "{\"a", "{\"a\":\"\\", "[{]}]"}) {
    Answers cut_off;
    cut_off.add("", broken);
    EXPECT_FALSE(cut_off.resolve_json("\"${0.a.0}${0.0.0}\"")) << broken;
  }
}

TEST(ReferencesTest, AnAnswerIsReadOnceWhateverRefersToIt) {
  std::string rows = "[";
  for (int i = 0; i < 1000; ++i) rows += (i == 0 ? "{\"n\":" : ",{\"n\":") + std::to_string(i) + "}";
  rows += "]";
  std::vector<Call> calls(4);
  for (int i = 999; i >= 0; --i) {
    const std::string reference = "${0." + std::to_string(i) + ".n}";
    calls[1].text += reference;
    calls[3].target += reference;
  }
  calls[2].body = "[\"${0.0.n}\",\"${0.999}\"]";
  Results results(calls);
  results.add(rows);
  finish(results);
  for (int i = 0; i < 3; ++i) {
    const Call& call = calls[results.size()];
    for (const std::string* text : {&call.target, &call.text}) {
      Resolution resolution(results, *text, Resolution::Form::text, SIZE_MAX);
      finish(resolution);
      ASSERT_TRUE(resolution.take());
    }
    Resolution resolution(results, call.body, Resolution::Form::json, SIZE_MAX);
    finish(resolution);
    EXPECT_EQ(resolution.take().value(), call.body.empty() ? "" : "[0,{\"n\":999}]");
    results.add(rows);
    finish(results);
  }
  EXPECT_EQ(results.bytes_read(), rows.size()) << "of the answer that is referred to, and of no other";
}

}  // namespace
}  // namespace sluice::api::batch
