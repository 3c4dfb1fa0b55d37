#include "gateway/jwt/revocations.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::gateway::jwt {
namespace {

constexpr double now = 1'800'000'000;

std::shared_ptr<const http::Claims> claims(const std::string& json) { return http::Claims::parse(json); }

class RevocationsTest : public testing::Test {
 protected:
  RevocationsTest() {
    std::string folder = (std::filesystem::temp_directory_path() / "revocations-XXXXXX").string();
    folder_ = ::mkdtemp(folder.data());
    path_ = folder_ / "revoked.jsonl";
  }
  ~RevocationsTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] auto read() const { return Revocations::read(path_.string(), now); }
  [[nodiscard]] std::string text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& text) const { std::ofstream(path_) << text; }

  std::filesystem::path folder_;
  std::filesystem::path path_;
};

TEST_F(RevocationsTest, AnEntryComesBackFromItsLine) {
  for (const Revocation& entry : std::vector<Revocation>{
           {.id = "a"},
           {.id = "a\"\\\n\x01 \xc3\xa4", .until_s = now},
           {.subject = "ada", .before_s = now + 0.5},
           {.subject = "", .before_s = 1, .until_s = 2},
           {.until_s = now, .session = "s"},
       }) {
    const auto parsed = Revocation::parse(entry.text());
    if (entry.id.empty() && entry.subject.empty() && entry.session.empty()) {
      EXPECT_FALSE(parsed);
      continue;
    }
    ASSERT_TRUE(parsed) << entry.text();
    EXPECT_EQ(parsed->id, entry.id);
    EXPECT_EQ(parsed->subject, entry.subject);
    EXPECT_EQ(parsed->session, entry.session);
    EXPECT_EQ(parsed->before_s, entry.before_s);
    EXPECT_EQ(parsed->until_s, entry.until_s);
  }
}

TEST_F(RevocationsTest, OtherLinesAreRefused) {
  for (const char* line : {"", "{}", "[]", R"({"jti":true})", R"({"jti":""})", R"({"jti":"a","sub":"b","before":1})",
                           R"({"sub":"a"})", R"({"jti":"a","before":1})", R"({"jti":"a","exp":"1"})",
                           R"({"jti":"a","other":1})", R"({"jti":"a","jti":"b"})", R"({"jti":"a")"}) {
    EXPECT_FALSE(Revocation::parse(line)) << line;
  }
}

TEST_F(RevocationsTest, EveryCopyFindsWhatIsAdded) {
  const auto all = read().value();
  Revocations::View first(all);
  EXPECT_FALSE(first.has(*claims(R"({"jti":"a"})")));
  ASSERT_TRUE(all->add(std::vector<Revocation>{{.id = "a"}, {.id = "42"}, {.subject = "ada", .before_s = now}}, now));
  Revocations::View second(all);
  for (Revocations::View* view : {&first, &second}) {
    EXPECT_TRUE(view->has(*claims(R"({"jti":"a","sub":"bob"})")));
    EXPECT_FALSE(view->has(*claims(R"({"jti":"b","sub":"bob"})")));
    EXPECT_TRUE(view->has(*claims(R"({"sub":"ada","iat":1799999999})")));
    EXPECT_FALSE(view->has(*claims(R"({"sub":"ada","iat":1800000000})")));
    EXPECT_TRUE(view->has(*claims(R"({"sub":"ada"})")));
    EXPECT_TRUE(view->has(*claims(R"({"sub":"ada","iat":"today"})")));
    EXPECT_FALSE(view->has(*claims(R"({"sub":["ada"],"jti":1})")));
    EXPECT_TRUE(view->has(*claims(R"({"jti":42})")));
  }
  ASSERT_TRUE(all->add(std::vector<Revocation>{{.subject = "ada", .before_s = 1}}, now));
  EXPECT_TRUE(first.has(*claims(R"({"sub":"ada","iat":1799999999})"))) << "the later time stays";
}

TEST_F(RevocationsTest, TheFileIsReadAgain) {
  ASSERT_TRUE(read().value()->add(std::vector<Revocation>{{.id = "a"}}, now));
  ASSERT_TRUE(read().value()->add(std::vector<Revocation>{{.id = "b"}}, now));
  const auto all = read().value();
  EXPECT_EQ(all->size(), 2U);
  EXPECT_TRUE(Revocations::View(all).has(*claims(R"({"jti":"a"})")));
  EXPECT_EQ(text(), "{\"jti\":\"a\"}\n{\"jti\":\"b\"}\n");
}

TEST_F(RevocationsTest, AnIncompleteLastLineIsCut) {
  write("{\"jti\":\"a\"}\n{\"jti\":\"b");
  const auto all = read().value();
  EXPECT_EQ(all->size(), 1U);
  ASSERT_TRUE(all->add(std::vector<Revocation>{{.id = "c"}}, now));
  EXPECT_EQ(text(), "{\"jti\":\"a\"}\n{\"jti\":\"c\"}\n");
}

TEST_F(RevocationsTest, AFileThatCannotBeReadIsAnError) {
  write("{\"jti\":\"a\"}\nx\n");
  EXPECT_EQ(read().error(), path_.string() + ": line 2 is not a revocation");
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_FALSE(read());
  EXPECT_FALSE(Revocations::read(folder_ / "none" / "revoked.jsonl", now));
}

TEST_F(RevocationsTest, ExpiredEntriesGo) {
  write("{\"jti\":\"a\",\"exp\":1799996400}\n{\"jti\":\"b\",\"exp\":1799996401}\n");
  const auto all = read().value();
  Revocations::View view(all);
  EXPECT_EQ(all->size(), 1U);
  ASSERT_TRUE(all->add(std::vector<Revocation>{{.id = "c"}}, now));
  EXPECT_EQ(text(), "{\"jti\":\"b\",\"exp\":1799996401}\n{\"jti\":\"c\"}\n");
  EXPECT_TRUE(view.has(*claims(R"({"jti":"b"})")));

  // While it runs, too.
  std::vector<Revocation> many;
  for (int i = 0; i < 5000; ++i) many.push_back({.id = std::to_string(i), .until_s = now - 3599});
  for (const Revocation& one : many) ASSERT_TRUE(all->add({&one, 1}, now));
  EXPECT_TRUE(view.has(*claims(R"({"jti":"4999"})")));
  for (const Revocation& one : many) ASSERT_TRUE(all->add({&one, 1}, now + 2));
  EXPECT_LT(all->size(), 5000U);
  EXPECT_FALSE(view.has(*claims(R"({"jti":"b"})")));
  EXPECT_TRUE(view.has(*claims(R"({"jti":"c"})")));
  EXPECT_EQ(read().value()->size() >= 1, true);
}

TEST_F(RevocationsTest, NoMoreThanTheLimit) {
  const auto all = read().value();
  ASSERT_TRUE(all->add(std::vector<Revocation>(Revocations::most - 1, {.id = "a"}), now));
  const auto full = all->add(std::vector<Revocation>{{.id = "b"}, {.id = "c"}}, now);
  ASSERT_FALSE(full);
  EXPECT_TRUE(full.error().contains("99999 revocations that have not expired")) << full.error();
  EXPECT_FALSE(Revocations::View(all).has(*claims(R"({"jti":"b"})")));
  EXPECT_TRUE(all->add(std::vector<Revocation>{{.id = "b"}}, now));
}

TEST_F(RevocationsTest, OnlyOneMayWrite) {
  const auto first = read().value();
  const auto second = read().value();
  ASSERT_TRUE(first->add(std::vector<Revocation>{{.id = "a"}}, now));
  EXPECT_EQ(second->add(std::vector<Revocation>{{.id = "b"}}, now).error(),
            path_.string() + ": another process uses it; each needs a file of its own");
}

TEST_F(RevocationsTest, AFileThatAnotherHasChangedIsReadAgain) {
  write("{\"jti\":\"x\"}\n");
  const auto all = read().value();
  Revocations::View view(all);
  EXPECT_TRUE(view.has(*claims(R"({"jti":"x"})")));
  write("{\"jti\":\"a\"}\n{\"sub\":\"ada\",\"before\":1800000000}\n");
  ASSERT_TRUE(all->add(std::vector<Revocation>{{.id = "b"}}, now));
  EXPECT_EQ(text(), "{\"jti\":\"a\"}\n{\"sub\":\"ada\",\"before\":1800000000}\n{\"jti\":\"b\"}\n");
  std::filesystem::rename(path_, folder_ / "before");
  write("{\"jti\":\"c\"}\n");
  ASSERT_TRUE(all->hold());
  EXPECT_TRUE(view.has(*claims(R"({"jti":"c"})")));
  for (const char* gone : {"x", "a", "b"})
    EXPECT_FALSE(view.has(*claims("{\"jti\":\"" + std::string(gone) + "\"}"))) << gone;
  write("x\n");
  EXPECT_EQ(all->hold().error(), path_.string() + ": line 1 is not a revocation");
  EXPECT_TRUE(view.has(*claims(R"({"jti":"c"})"))) << "as before";
}

TEST_F(RevocationsTest, AFileThatIsGoneIsWrittenAgain) {
  const auto all = read().value();
  ASSERT_TRUE(all->add(std::vector<Revocation>{{.id = "a"}}, now));
  for (const bool is_removed : {true, false}) {
    if (is_removed) {
      std::filesystem::remove(path_);
    } else {
      write("");
    }
    ASSERT_TRUE(all->hold());
    EXPECT_EQ(text(), "{\"jti\":\"a\"}\n");
  }
  EXPECT_TRUE(Revocations::View(all).has(*claims(R"({"jti":"a"})")));
  EXPECT_EQ(text(), "{\"jti\":\"a\"}\n");
}

TEST_F(RevocationsTest, CoresReadWhileEntriesAreAdded) {
  constexpr int count = 2000;
  const auto all = read().value();
  std::atomic<int> added = 0;
  std::vector<std::jthread> cores;
  for (int core = 0; core < 3; ++core) {
    cores.emplace_back([&] {
      Revocations::View view(all);
      for (int known = 0; known < count;) {
        known = added.load();
        if (known == 0) continue;
        EXPECT_TRUE(view.has(*claims("{\"jti\":\"" + std::to_string(known - 1) + "\"}")));
      }
    });
  }
  for (int i = 0; i < count; ++i) {
    ASSERT_TRUE(all->add(std::vector<Revocation>{{.id = std::to_string(i)}}, now));
    added = i + 1;
  }
}

TEST(Revocations, InMemory) {
  const auto ended = Revocations::in_memory();
  Revocations::View view(ended);
  EXPECT_FALSE(view.has(*claims(R"({"sid":"a"})")));
  const std::vector<Revocation> added = {{.until_s = now + 10, .session = "a"},
                                         {.until_s = now + 5000, .session = "b"}};
  ASSERT_TRUE(ended->add(added, now));
  EXPECT_TRUE(view.has(*claims(R"({"sid":"a"})")));
  EXPECT_TRUE(view.has(*claims(R"({"jti":"1","sid":"b"})")));
  EXPECT_FALSE(view.has(*claims(R"({"jti":"a","sub":"b"})")));
  EXPECT_FALSE(view.has(*claims(R"({"sid":"c"})")));

  // Beyond its limit it forgets those that have expired.
  std::vector<Revocation> many(Revocations::most - 1);
  for (std::size_t i = 0; i < many.size(); ++i) many[i] = {.until_s = now + 1e6, .session = std::to_string(i)};
  ASSERT_TRUE(ended->add(many, now + 4000));
  EXPECT_FALSE(view.has(*claims(R"({"sid":"a"})")));
  EXPECT_TRUE(view.has(*claims(R"({"sid":"b"})")));
  EXPECT_FALSE(ended->add(added, now + 4000)) << "it is full";
}

}  // namespace
}  // namespace sluice::gateway::jwt
