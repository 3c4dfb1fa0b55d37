#include "api/common_passwords.h"

#include <string>

#include "base/ascii.h"

namespace sluice::api {
namespace {

// In lower case, each of at least 8 characters, with a blank before and after it.
constexpr std::string_view common =
    " "
    "!qaz2wsx 10101010 10203040 11112222 111222333 11223344 12121212 121212121212 123123123 123123123123 "
    "123321123 12341234 123412341234 12344321 123454321 1234554321 123456123 123456123456 123456654321 "
    "123456789a 123456789abc 12345678a 123456abc 123456qwerty 1234abcd 1234qwer 123698745 123qwe123 123qweasd "
    "13131313 147258369 147852369 159357456 159753456 1a2b3c4d 1q2w3e4r 1q2w3e4r5t 1q2w3e4r5t6y 1q2w3e4r5t6y7u "
    "1qaz!qaz 1qaz2wsx 1qaz2wsx3edc 1qazxsw2 20202020 314159265 69696969 741852963 78945612 789456123 987456321 "
    "99887766 a1234567 a12345678 a123456789 a1234567890 a1b2c3d4 a1b2c3d4e5 aa123456 aa12345678 aabbccdd "
    "abc12345 abc123456 abc123abc abcabcabc abcd1234 abcd12345 abcdefgh abcdefgh1 abcdefghi abcdefghij access14 "
    "admin123 admin123! admin1234 admin12345 admin123456 admin@123 adminadmin administrator administrator1 "
    "adminpassword alexander america1 arsenal1 asdf1234 asdf12345 asdfasdf asdfghjk asdfghjkl asdfghjkl1 "
    "asdfghjkl123 asdfqwer australia azerty123 azertyuiop babygirl babygirl1 banana123 barcelona baseball "
    "baseball1 basketball basketball1 batman123 beautiful beautiful1 benjamin bonjour1 bonjour123 butterfly "
    "butterfly1 changeit changeme changeme1 changeme123 charlie1 charlie123 chelsea1 chocolate chocolate1 "
    "cocacola cocacola1 computer computer1 correcthorse correcthorsebatterystaple daniel123 danielle database "
    "default1 default123 demo1234 dragon123 dragonball elephant elizabeth estrella example1 example123 facebook "
    "facebook1 ferrari1 flower123 football football1 football123 freedom1 freedom123 fuckyou1 fuckyou123 "
    "geheim123 germany1 ginger123 guest123 hallo123 hallo1234 happy123 hello123 hello1234 hello12345 hellohello "
    "hellokitty helloworld hunter12 idontknow ihatepasswords ilovejesus iloveu123 iloveyou iloveyou! iloveyou1 "
    "iloveyou12 iloveyou123 iloveyou1234 iloveyou2 iloveyouforever internet jennifer jennifer1 jessica1 "
    "jessica123 jesus123 jesuschrist jonathan jordan23 killer123 letmein1 letmein12 letmein123 letmein1234 "
    "letmeinnow linkedin liverpool liverpool1 login123 login1234 lovelove loveyou1 loveyou123 maggie123 "
    "manchester mariposa master123 masterkey michael1 michael123 michelle michelle1 microsoft midnight minecraft "
    "minecraft1 minecraft123 monkey123 mustang1 mypassword mypassword1 newpassword newpassword1 nicholas "
    "opensesame orange123 p@ssw0rd p@ssw0rd1 p@ssw0rd123 p@ssword p@ssword1 p@ssword123 pa$$w0rd pa$$word "
    "passw0rd passw0rd1 passw0rd123 password password! password00 password01 password1 password1! password11 "
    "password12 password123 password123! password1234 password12345 password2 password2024 password2025 "
    "password2026 password99 passwordpassword passwort passwort1 pepper123 pokemon1 pokemon123 postgres "
    "postgres1 postgres123 princess princess1 princess123 q1w2e3r4 q1w2e3r4t5 q1w2e3r4t5y6 qazwsx123 qazwsxedc "
    "qazwsxedcrfv qwe12345 qwe123qwe qweasd123 qweasdzxc qweqweqwe qwer1234 qwer12345 qwerty12 qwerty123 "
    "qwerty1234 qwerty12345 qwerty123456 qwerty2024 qwerty2025 qwerty321 qwertyasdfgh qwertyqwerty qwertyui "
    "qwertyuiop qwertyuiop1 qwertyuiop123 qwertyuiop[] qwertyuiopasdfghjkl qwertz123 qwertzuiop rainbow123 "
    "root1234 rootroot samantha samsung123 secret123 secret1234 security security1 senha123 senha1234 shadow123 "
    "soccer123 sommer123 spiderman spiderman1 starwars starwars1 starwars123 stephanie strawberry summer123 "
    "summer2024 summer2025 sunshine sunshine1 sunshine123 superadmin superman superman1 superman123 superuser "
    "temp1234 temporary test1234 test12345 test123456 testing1 testpassword testtest testtest1 thomas123 "
    "tigger123 topsecret trustno1 user1234 username victoria welcome! welcome1 welcome12 welcome123 welcome1234 "
    "welcome2024 welcome2025 welcome2026 whatever whatever1 windows123 winter123 winter2024 winter2025 zaq12wsx "
    "zaq1zaq1 zaqxswcde zxcvbnm,./ zxcvbnm1 zxcvbnm12 zxcvbnm123 ";

// Whether each character is the one before it.
bool repeats_one_character(std::string_view text) {
  if (text.empty()) return false;
  std::size_t size = 1;  // of the first character in UTF-8
  while (size < text.size() && (text[size] & 0xc0) == 0x80) ++size;
  return text.substr(size) == text.substr(0, text.size() - size);
}

// Whether each digit is the one before it plus `step`, modulo 10.
bool is_run(std::string_view text, int step) {
  if (text.empty()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
    if (i != 0 && (text[i - 1] - '0' + step) % 10 != text[i] - '0') return false;
  }
  return true;
}

}  // namespace

bool is_common_password(std::string_view password) {
  if (repeats_one_character(password) || is_run(password, 1) || is_run(password, 9)) return true;
  return !password.contains(' ') && common.contains(" " + to_lower(password) + " ");
}

}  // namespace sluice::api
