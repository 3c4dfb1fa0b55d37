#include "api/common_passwords.h"

#include <gtest/gtest.h>

namespace sluice::api {
namespace {

TEST(CommonPasswords, WordsOfTheListInAnyCase) {
  for (const char* word : {"password1", "PassWord1", "qwertyuiop", "iloveyou1", "letmein123", "passwordpassword"}) {
    EXPECT_TRUE(is_common_password(word)) << word;
  }
  // Neither a part of a word, nor two words, nor a longer one.
  for (const char* word : {"assword1", "password1 password12", " password1", "password1x", "correct horse", ""}) {
    EXPECT_FALSE(is_common_password(word)) << word;
  }
}

TEST(CommonPasswords, RepetitionsAndRunsOfDigits) {
  for (const char* word : {"aaaaaaaa", "        ", "éééééééé", "12345678", "123456789012", "98765432", "3210987654"}) {
    EXPECT_TRUE(is_common_password(word)) << word;
  }
  for (const char* word : {"aaaaaaab", "éééééééè", "12345679", "13579135", "1234567a", "12343210"}) {
    EXPECT_FALSE(is_common_password(word)) << word;
  }
}

}  // namespace
}  // namespace sluice::api
