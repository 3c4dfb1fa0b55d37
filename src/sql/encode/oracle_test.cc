// Compares the encoder's output with that of a real PostgreSQL: values must equal to_json(value), and rows must equal
// COPY ... (FORMAT csv, HEADER). Values come from a fixed seed.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sql/encode/encoder.h"

namespace sluice::sql {
namespace {

using TypePointer = std::shared_ptr<const Type>;
using Value = std::optional<std::string>;

struct Output {
  int status = -1;
  std::string bytes;
};

Output run(const std::string& command) {
  Output output;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  char chunk[65536];
  while (const std::size_t size = std::fread(chunk, 1, sizeof chunk, pipe)) output.bytes.append(chunk, size);
  const int status = ::pclose(pipe);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return output;
}

// A separate cluster in a temporary directory, reached through its unix socket. The destructor removes it.
class Server {
 public:
  // Returns null if the server could not be started; `error` then has the reason.
  static std::unique_ptr<Server> start(std::string& error) {
    std::unique_ptr<Server> server(new Server);
    std::string directory = (std::filesystem::temp_directory_path() / "encode-oracle-XXXXXX").string();
    if (::mkdtemp(directory.data()) == nullptr) {
      error = "no temporary directory";
      return nullptr;
    }
    server->directory_ = directory;
    // The server refuses to run as root. Its package also creates a user for it.
    if (::geteuid() == 0) {
      server->as_owner_ = "runuser -u postgres -- ";
      if (run("chown postgres " + directory).status != 0) {
        error = "root needs a user postgres to run the server as";
        return nullptr;
      }
    }
    std::string binaries = run("pg_config --bindir 2>/dev/null").bytes;
    while (!binaries.empty() && binaries.back() == '\n') binaries.pop_back();
    if (!std::filesystem::exists(binaries + "/initdb")) binaries = "/usr/lib/postgresql/15/bin";
    server->binaries_ = binaries + '/';
    const std::string log = " >" + directory + "/command.log 2>&1";
    const Output made = run("cd " + directory + " && " + server->as_owner_ + server->binaries_ + "initdb -D " +
                            directory + "/data -A trust -U postgres -E UTF8 --no-locale -N" + log);
    const Output started = made.status != 0
                               ? made
                               : run("cd " + directory + " && " + server->as_owner_ + server->binaries_ + "pg_ctl -D " +
                                     directory + "/data -w -l " + directory + "/data/log -o \"-k " + directory +
                                     " -c listen_addresses='' -c fsync=off -c max_connections=10\" start" + log);
    if (started.status != 0) {
      error = run("cat " + directory + "/command.log").bytes;
      return nullptr;
    }
    server->running_ = true;
    return server;
  }

  ~Server() {
    if (running_) {
      run("cd " + directory_ + " && " + as_owner_ + binaries_ + "pg_ctl -D " + directory_ +
          "/data -m immediate stop >/dev/null 2>&1");
    }
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }

  // Returns psql's output for a script, unaligned and without headings.
  std::string query(const std::string& script) const {
    const std::string file = directory_ + "/script.sql";
    std::ofstream(file, std::ios::binary) << "SET client_encoding = 'UTF8';\n" << script;
    const Output output = run("psql -X -q -A -t -v ON_ERROR_STOP=1 -h " + directory_ + " -U postgres -d postgres -f " +
                              file + " 2>" + directory_ + "/error");
    EXPECT_EQ(output.status, 0) << run("head -c 2000 " + directory_ + "/error").bytes;
    return output.bytes;
  }

 private:
  Server() = default;

  std::string directory_;
  std::string binaries_;
  std::string as_owner_;
  bool running_ = false;
};

std::string to_hex(std::string_view bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string result;
  for (const char byte : bytes) {
    result += digits[static_cast<unsigned char>(byte) >> 4];
    result += digits[static_cast<unsigned char>(byte) & 15];
  }
  return result;
}

std::string from_hex(std::string_view digits) {
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
  std::string result;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    result += static_cast<char>(value(digits[i]) << 4 | value(digits[i + 1]));
  }
  return result;
}

// Writes any text as an SQL expression that passes unchanged through psql and the server.
std::string literal(const Value& value, const std::string& type) {
  if (!value) return "NULL::" + type;
  return "convert_from('\\x" + to_hex(*value) + "','UTF8')::" + type;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

TypePointer of(Form form) {
  auto type = std::make_shared<Type>();
  type->form = form;
  return type;
}

TypePointer array_of(TypePointer element, char delimiter = ',') {
  auto type = std::make_shared<Type>();
  type->form = Form::array;
  type->delimiter = delimiter;
  type->element = std::move(element);
  return type;
}

TypePointer composite_of(std::vector<Attribute> attributes) {
  auto type = std::make_shared<Type>();
  type->form = Form::composite;
  type->attributes = std::move(attributes);
  return type;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ * 0x2545F4914F6CDD1D;
  }
  std::uint64_t below(std::uint64_t bound) { return (next() >> 11) % bound; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }

 private:
  std::uint64_t state_;
};

using Make = std::function<std::string(Random&)>;

std::string number(std::int64_t value) { return std::to_string(value); }

std::string two_digits(std::uint64_t value) {
  return {static_cast<char>('0' + value / 10), static_cast<char>('0' + value % 10)};
}

std::string any_text(Random& random) {
  static const std::vector<std::string_view> pieces = {
      "a", "Z",   "0",    " ",    "\"", "\\", ",",  ";",      "{",      "}",          "(",    ")",
      "[", "]",   "'",    "\n",   "\r", "\t", "\b", "\f",     "\v",     "\x01",       "\x1f", "\x7f",
      ":", "\\.", "NULL", "null", "é",  "€",  "😀", "\u2028", "\u0080", "plain words"};
  const std::uint64_t length = random.one_in(20) ? random.below(600) : random.below(random.one_in(2) ? 6 : 40);
  const bool tame = random.one_in(3);
  std::string text;
  for (std::uint64_t i = 0; i < length; ++i) {
    if (!tame && random.one_in(3)) {
      text += pieces[random.below(pieces.size())];
    } else if (!tame && random.one_in(12)) {
      text += static_cast<char>(1 + random.below(31));
    } else {
      text += static_cast<char>('a' + random.below(26));
    }
  }
  return text;
}

Make one_of(std::vector<std::string> values) {
  return [values = std::move(values)](Random& random) { return values[random.below(values.size())]; };
}

Make mostly(Make usual, std::vector<std::string> special) {
  return [usual = std::move(usual), rare = one_of(std::move(special))](Random& random) {
    return random.one_in(4) ? rare(random) : usual(random);
  };
}

Make integer(int bits) {
  return [bits](Random& random) {
    const auto value = static_cast<std::int64_t>(random.next());
    return number(value >> (64 - bits + static_cast<int>(random.below(static_cast<std::uint64_t>(bits)))));
  };
}

std::string any_decimal(Random& random) {
  std::string text = random.one_in(2) ? "-" : "";
  for (std::uint64_t i = 0, digits = 1 + random.below(random.one_in(8) ? 200 : 12); i < digits; ++i) {
    text += static_cast<char>('0' + random.below(10));
  }
  if (random.one_in(2)) {
    text += '.';
    for (std::uint64_t i = 0, digits = 1 + random.below(random.one_in(8) ? 100 : 8); i < digits; ++i) {
      text += static_cast<char>('0' + random.below(10));
    }
  }
  return text;
}

Make floating(int exponent) {
  return [exponent](Random& random) {
    const auto range = static_cast<std::uint64_t>(2 * exponent);
    return number(static_cast<std::int64_t>(random.next()) >> random.below(60)) + "." +
           number(static_cast<std::int64_t>(random.below(100000))) + "e" +
           number(static_cast<std::int64_t>(random.below(range)) - exponent);
  };
}

std::string any_date(Random& random) {
  const std::uint64_t year = 1 + random.below(random.one_in(5) ? 20000 : random.one_in(3) ? 150 + 1800 : 2100);
  const std::string digits = std::to_string(year);
  return std::string(digits.size() < 4 ? 4 - digits.size() : 0, '0') + digits + '-' + two_digits(1 + random.below(12)) +
         '-' + two_digits(1 + random.below(28));
}

std::string any_time(Random& random) {
  std::string text =
      two_digits(random.below(24)) + ':' + two_digits(random.below(60)) + ':' + two_digits(random.below(60));
  if (random.one_in(2)) text += '.' + std::to_string(random.below(1'000'000));
  return text;
}

std::string era(Random& random) { return random.one_in(6) ? " BC" : ""; }

std::string any_timestamp(Random& random) {
  const std::string date = any_date(random);
  return date + ' ' + any_time(random) + (date.size() == 10 && date < "4700" ? era(random) : "");
}

std::string any_json(Random& random, int depth = 3) {
  const auto space = [&] {
    return random.one_in(3) ? std::string(one_of({" ", "\n", "\r\n", "\t", "  \n  "})(random)) : std::string();
  };
  const auto string = [&] {
    return std::string(
        one_of({"\"\"", "\"a b\"", "\"\\\"\\\\\\n\\u00e9\"", "\"é😀\"", "\"{}[](),;\"", "\"\\\\u\""})(random));
  };
  switch (random.below(depth > 0 ? 7 : 4)) {
    case 0:
      return space() + (random.one_in(2) ? "-" : "") + std::to_string(random.below(1000)) + ".5e3" + space();
    case 1:
      return space() + one_of({"true", "false", "null", "0", "-0.5"})(random) + space();
    case 2:
    case 3:
      return space() + string() + space();
    case 4:
    case 5: {
      std::string text = space() + "{" + space();
      for (std::uint64_t i = 0, count = random.below(4); i < count; ++i) {
        text += (i == 0 ? "" : ",") + space() + string() + space() + ':' + any_json(random, depth - 1);
      }
      return text + "}" + space();
    }
    default: {
      std::string text = space() + "[" + space();
      for (std::uint64_t i = 0, count = random.below(4); i < count; ++i)
        text += (i == 0 ? "" : ",") + any_json(random, depth - 1);
      return text + "]" + space();
    }
  }
}

std::string quote_element(std::string_view text) {
  std::string result = "\"";
  for (const char byte : text) {
    if (byte == '"' || byte == '\\') result += '\\';
    result += byte;
  }
  return result + '"';
}

// A literal of one to three dimensions, sometimes empty, sometimes with explicit bounds.
Make array(Make element, char delimiter = ',', bool no_nulls = false) {
  return [=](Random& random) -> std::string {
    if (random.one_in(10)) return "{}";
    const std::uint64_t dimensions = random.one_in(2) ? 1 : 1 + random.below(3);
    std::vector<std::uint64_t> sizes;
    std::string bounds;
    for (std::uint64_t i = 0; i < dimensions; ++i) {
      sizes.push_back(1 + random.below(4));
      const std::int64_t lower = static_cast<std::int64_t>(random.below(8)) - 4;
      bounds += '[' + number(lower) + ':' + number(lower + static_cast<std::int64_t>(sizes.back()) - 1) + ']';
    }
    const std::function<std::string(std::size_t)> write = [&](std::size_t level) -> std::string {
      if (level == sizes.size()) return !no_nulls && random.one_in(6) ? "NULL" : quote_element(element(random));
      std::string text = "{";
      for (std::uint64_t i = 0; i < sizes[level]; ++i) {
        if (i != 0) text += delimiter;
        text += write(level + 1);
      }
      return text + '}';
    };
    return (random.one_in(5) ? bounds + '=' : "") + write(0);
  };
}

Make composite(std::vector<Make> attributes) {
  return [attributes = std::move(attributes)](Random& random) {
    std::string text = "(";
    for (const Make& attribute : attributes) {
      if (text.size() > 1 || &attribute != &attributes.front()) text += ',';
      if (!random.one_in(6)) text += quote_element(attribute(random));
    }
    return text + ')';
  };
}

struct Case {
  std::string type;  // in SQL
  TypePointer plan;
  Make make;
  std::string settings = {};  // SQL to run first
};

constexpr std::string_view schema = R"sql(
  CREATE TYPE mood AS ENUM ('ok', 'so so', 'a"b', 'back\slash', 'com,ma', '{', 'NULL');
  CREATE DOMAIN positive AS int CHECK (VALUE > 0);
  CREATE DOMAIN label AS text;
  CREATE DOMAIN labels AS text[];
  CREATE TYPE plain_pair AS (a int, b text);
  CREATE TYPE inner_type AS (a int, "b ""q""" text, c timestamptz, d json, e bool, f numeric[], g label);
  CREATE TYPE outer_type AS (x inner_type, ys inner_type[], z text[], w mood, "ü, \" text);
  CREATE TYPE single AS (alone text);
  CREATE TYPE nothing AS ();
  CREATE DOMAIN checked_pair AS plain_pair;
)sql";

std::vector<Case> cases() {
  const TypePointer text = of(Form::text);
  const TypePointer num = of(Form::number);
  const TypePointer boolean = of(Form::boolean);
  const TypePointer json = of(Form::json);
  const TypePointer timestamp = of(Form::timestamp);
  const TypePointer timestamp_tz = of(Form::timestamp_tz);

  const std::vector<std::string> not_finite = {"NaN", "Infinity", "-Infinity", "0", "-0"};
  const Make float4 =
      mostly(floating(18), {"NaN", "Infinity", "-Infinity", "-0", "1e-45", "3.4028235e+38", "1e15", "1e16"});
  const Make float8 = mostly(floating(285), {"NaN", "Infinity", "-Infinity", "-0", "5e-324", "2.2250738585072014e-308",
                                             "1.7976931348623157e308", "0.1", "1e15", "1e16", "1e-5"});
  const Make numeric = mostly(any_decimal, not_finite);
  const Make booleans = one_of({"t", "f"});
  const Make dates = mostly([](Random& random) { return any_date(random); },
                            {"infinity", "-infinity", "0044-03-15 BC", "4713-01-01 BC", "5874897-12-31"});
  const Make stamps = mostly(
      any_timestamp, {"infinity", "-infinity", "4713-01-01 00:00:00 BC", "294276-12-30 23:59:59.999999", "epoch"});
  const Make moods = one_of({"ok", "so so", "a\"b", "back\\slash", "com,ma", "{", "NULL"});
  const auto json_text = [](Random& random) { return any_json(random); };
  const Make bytea = [](Random& random) { return "\\x" + to_hex(any_text(random)); };
  const Make bits = [](Random& random) {
    std::string digits;
    for (std::uint64_t i = 0, size = random.below(40); i < size; ++i) digits += random.one_in(2) ? '1' : '0';
    return digits;
  };
  const Make point = [](Random& random) {
    return '(' + number(static_cast<std::int64_t>(random.below(100))) + "," +
           number(-static_cast<std::int64_t>(random.below(9))) + ".5)";
  };
  const Make box = [point](Random& random) { return '(' + point(random) + ',' + point(random) + ')'; };
  const Make money = [](Random& random) {
    return number(static_cast<std::int64_t>(random.next()) >> (8 + random.below(50))) + "." +
           two_digits(random.below(100));
  };
  const Make interval = [](Random& random) {
    return number(static_cast<std::int64_t>(random.below(200)) - 100) + " years " +
           number(static_cast<std::int64_t>(random.below(60)) - 30) + " days " +
           number(static_cast<std::int64_t>(random.below(100000)) - 50000) + ".25 seconds";
  };
  const Make uuid = [](Random& random) {
    std::string digits;
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t value = random.next();
      digits += to_hex({reinterpret_cast<const char*>(&value), 4});
    }
    return digits;
  };
  const Make inet = one_of({"127.0.0.1", "10.1.0.0/16", "::1", "2001:db8::ff00:42:8329/64", "255.255.255.255"});
  const Make time = [](Random& random) { return any_time(random); };
  const Make timetz = [](Random& random) {
    return any_time(random) + one_of({"+00", "-11", "+05:30", "-03:30:52", "+13:45"})(random);
  };
  const Make int_range = [](Random& random) {
    if (random.one_in(6)) return std::string("empty");
    const auto low = static_cast<std::int64_t>(random.below(100));
    return (random.one_in(2) ? "[" : "(") + (random.one_in(5) ? "" : number(low)) + "," +
           (random.one_in(5) ? "" : number(low + 5)) + (random.one_in(2) ? "]" : ")");
  };
  const Make stamp_range = [](Random& random) {
    return "[\"1" + std::to_string(100 + random.below(900)) + "-02-03 " + any_time(random) + era(random) + "\",\"" +
           std::to_string(2000 + random.below(90)) + "-04-05 " + any_time(random) + "\")";
  };
  const Make xml = one_of({"<a/>", "<a b=\"c\">x &amp; y\n</a>", "<p>é</p>"});
  const Make inner = composite({integer(32), any_text, stamps, json_text, booleans, array(numeric), any_text});
  const TypePointer inner_plan = composite_of({{"a", num},
                                               {"b \"q\"", text},
                                               {"c", timestamp_tz},
                                               {"d", json},
                                               {"e", boolean},
                                               {"f", array_of(num)},
                                               {"g", text}});
  const Make outer = composite({inner, array(inner), array(any_text), moods, any_text});
  const TypePointer outer_plan = composite_of(
      {{"x", inner_plan}, {"ys", array_of(inner_plan)}, {"z", array_of(text)}, {"w", text}, {"ü, \\", text}});
  const TypePointer pair_plan = composite_of({{"a", num}, {"b", text}});
  const Make pair = composite({integer(32), any_text});

  std::vector<Case> all = {
      {"int2", num, integer(16)},
      {"int4", num, integer(32)},
      {"int8", num, integer(64)},
      {"float4", num, float4},
      {"float8", num, float8},
      {"float8", num, float8, "SET extra_float_digits = 0;"},
      {"numeric", num, numeric},
      {"numeric(40,7)", num, [](Random& random) { return any_decimal(random).substr(0, 20) + "1"; }},
      {"positive", num, [](Random& random) { return std::to_string(1 + random.below(1000)); }},
      {"text", text, any_text},
      {"varchar", text, any_text},
      {"varchar(7)", text, any_text},
      {"char(30)", text, any_text},
      {"label", text, any_text},
      {"name", text, any_text},
      {"\"char\"", text, [](Random& random) { return std::string(1, static_cast<char>(1 + random.below(126))); }},
      {"bytea", text, bytea},
      {"bytea", text, bytea, "SET bytea_output = 'escape';"},
      {"bool", boolean, booleans},
      {"date", text, dates},
      {"time", text, time},
      {"timetz", text, timetz},
      {"timestamp", timestamp, stamps},
      {"timestamp(0)", timestamp, stamps},
      {"interval", text, interval},
      {"interval", text, interval, "SET IntervalStyle = 'iso_8601';"},
      {"uuid", text, uuid},
      {"inet", text, inet},
      {"cidr", text, one_of({"10.0.0.0/8", "::/0"})},
      {"macaddr", text, one_of({"08:00:2b:01:02:03"})},
      {"json", json, json_text},
      {"jsonb", json, json_text},
      {"mood", text, moods},
      {"int4range", text, int_range},
      {"numrange", text, int_range},
      {"tsrange", text, stamp_range},
      {"int4multirange", text,
       [int_range](Random& random) { return '{' + int_range(random) + ',' + int_range(random) + '}'; }},
      {"money", text, money},
      {"xml", text, xml},
      {"bit(5)", text, one_of({"00000", "10101"})},
      {"varbit", text, bits},
      {"point", text, point},
      {"box", text, box},
      {"path", text, one_of({"[(0,0),(1,1),(2,0)]", "((0,0),(1,1))"})},
      {"circle", text, one_of({"<(1,2),3>"})},
      {"tsvector", text, one_of({"a fat cat sat", "'it''s':1A,2B 'back\\\\slash':3", "'\"q\"'"})},
      {"tsquery", text, one_of({"fat & (rat | !cat)", "'it''s':*"})},
      {"oid", text, [](Random& random) { return std::to_string(random.below(4294967296)); }},
      {"regclass", text, one_of({"pg_class", "pg_type"})},
      {"pg_lsn", text, one_of({"16/B374D848"})},
      {"int2vector", array_of(num, ' '), one_of({"", "1", "1 -2 3", "0 0"})},
      {"oidvector", array_of(text, ' '), one_of({"", "1", "1 2 4294967295"})},
      {"int2vector[]", array_of(array_of(num, ' ')), array(one_of({"", "1", "1 -2 3"}))},
      {"oidvector[]", array_of(array_of(text, ' ')), array(one_of({"", "1", "1 2 4294967295"}))},
      {"int4[]", array_of(num), array(integer(32))},
      {"float8[]", array_of(num), array(float8)},
      {"numeric[]", array_of(num), array(numeric)},
      {"text[]", array_of(text), array(any_text)},
      {"char(4)[]", array_of(text), array(any_text)},
      {"labels", array_of(text), array(any_text)},
      {"bool[]", array_of(boolean), array(booleans)},
      {"bytea[]", array_of(text), array(bytea)},
      {"date[]", array_of(text), array(dates)},
      {"timestamp[]", array_of(timestamp), array(stamps)},
      {"uuid[]", array_of(text), array(uuid)},
      {"json[]", array_of(json), array(json_text)},
      {"jsonb[]", array_of(json), array(json_text)},
      {"mood[]", array_of(text), array(moods)},
      {"point[]", array_of(text), array(point)},
      {"box[]", array_of(text, ';'), array(box, ';')},
      {"int4range[]", array_of(text), array(int_range)},
      {"name[]", array_of(text), array(any_text)},
      {"oid[]", array_of(text), array([](Random& random) { return std::to_string(random.below(4294967296)); })},
      {"plain_pair", pair_plan, pair},
      {"checked_pair", pair_plan, pair},
      {"plain_pair[]", array_of(pair_plan), array(pair)},
      {"single", composite_of({{"alone", text}}), composite({any_text})},
      {"single[]", array_of(composite_of({{"alone", text}})), array(composite({any_text}))},
      {"nothing", composite_of({}), one_of({"()"})},
      {"inner_type", inner_plan, inner},
      {"inner_type[]", array_of(inner_plan), array(inner)},
      {"outer_type", outer_plan, outer},
      {"outer_type[]", array_of(outer_plan), array(outer)},
  };
  // Zones with whole hours, with minutes, and with seconds in the past.
  for (const char* zone : {"UTC", "Asia/Kolkata", "America/St_Johns", "Europe/Amsterdam", "Pacific/Kiritimati"}) {
    const std::string settings = "SET TimeZone = '" + std::string(zone) + "';";
    all.push_back({"timestamptz", timestamp_tz, stamps, settings});
    all.push_back({"timestamptz[]", array_of(timestamp_tz), array(stamps), settings});
    all.push_back({"tstzrange", text, stamp_range, settings});
  }
  return all;
}

class Oracle : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    server = Server::start(error).release();
    if (server != nullptr) server->query(std::string(schema));
  }
  static void TearDownTestSuite() {
    delete server;
    server = nullptr;
  }
  void SetUp() override { ASSERT_NE(server, nullptr) << error; }

  static inline Server* server = nullptr;
  static inline std::string error;
};

std::string encode(Format format, const std::vector<Column>& columns, const std::vector<Value>& values) {
  std::vector<Field> fields;
  for (const Value& value : values) {
    fields.push_back(value ? Field{value->data(), static_cast<std::uint32_t>(value->size())} : Field{});
  }
  Buffer out;
  Encoder encoder(format, columns);
  encoder.begin(out);
  encoder.rows({.columns = columns, .fields = fields, .rows = values.size() / columns.size(), .last = true}, out);
  encoder.end(out);
  return std::string(out.view());
}

std::string on_one_line(std::string text) {
  for (char& byte : text) {
    if (byte == '\n' || byte == '\r') byte = ' ';
  }
  return text;
}

TEST_F(Oracle, ValuesAreWhatToJsonAndCopyGive) {
  constexpr std::size_t values_each = 120;
  std::uint64_t seed = 20'261'121;
  std::size_t compared = 0;
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.type + ' ' + one.settings);
    Random random(++seed);
    std::string script = one.settings + "CREATE TEMP TABLE t (n int, v " + one.type + ");\nINSERT INTO t VALUES ";
    for (std::size_t i = 0; i < values_each; ++i) {
      const Value value = random.one_in(12) ? Value() : Value(one.make(random));
      script += (i == 0 ? "(" : ",\n(") + std::to_string(i) + ',' + literal(value, one.type) + ')';
    }
    // format() gives the wire's text; a cast to text differs for bool, char(n) and others.
    script +=
        ";\nSELECT CASE WHEN num_nulls(v) = 0 THEN encode(convert_to(format('%s', v), 'UTF8'), 'hex') || ':' ||"
        " encode(convert_to(to_json(v)::text, 'UTF8'), 'hex') ELSE 'null' END FROM t ORDER BY n;\n"
        "\\echo copy\n"
        "COPY (SELECT v FROM t ORDER BY n) TO STDOUT (FORMAT csv, HEADER);\n";
    const std::string answer = server->query(script);
    const std::size_t copy = answer.find("copy\n");
    ASSERT_NE(copy, std::string::npos);

    const std::vector<Column> columns{{"v", one.plan}};
    std::vector<Value> all;
    for (const std::string_view line : split(std::string_view(answer).substr(0, copy == 0 ? 0 : copy - 1), '\n')) {
      if (line == "null") {
        all.emplace_back();
        continue;
      }
      const auto parts = split(line, ':');
      ASSERT_EQ(parts.size(), 2) << line;
      const std::string text = from_hex(parts[0]);
      const std::string expected = from_hex(parts[1]);
      ASSERT_EQ(encode(Format::json, columns, {text}), "[{\"v\":" + expected + "}]\n") << text;
      ASSERT_EQ(encode(Format::ndjson, columns, {text}), "{\"v\":" + on_one_line(expected) + "}\n") << text;
      ASSERT_EQ(encode(Format::csj, columns, {text}), "\"v\"\n" + on_one_line(expected) + "\n") << text;
      all.emplace_back(text);
      ++compared;
    }
    ASSERT_EQ(all.size(), values_each);
    ASSERT_EQ(encode(Format::csv, columns, all), answer.substr(copy + 5));
  }
  EXPECT_GT(compared, 9000);
}

// Rows of many columns with unusual names, compared with COPY and with row_to_json of the whole row.
TEST_F(Oracle, RowsAreWhatRowToJsonAndCopyGive) {
  const std::vector<Case> all = cases();
  const std::vector<std::string> names = {"id",  "we\"ird",  "com,ma", "line\nend", "näme",
                                          "\\.", " spaced ", "tab\t",  "😀"};
  constexpr std::size_t rows = 300;
  Random random(7);
  std::vector<Column> columns;
  std::vector<const Case*> used;
  std::string declarations = "n int";
  std::string list;
  for (const Case& one : all) {
    if (!one.settings.empty()) continue;
    const std::size_t i = columns.size();
    const std::string name =
        (i < names.size() ? names[i] : "c" + std::to_string(i) + std::string(i, 'x').substr(0, 55));
    std::string quoted = "\"";
    for (const char byte : name) quoted += byte == '"' ? std::string("\"\"") : std::string(1, byte);
    quoted += '"';
    declarations += ", " + quoted + ' ' + one.type;
    list += (list.empty() ? "" : ", ") + quoted;
    columns.push_back({name, one.plan});
    used.push_back(&one);
  }
  std::string script = "CREATE TABLE wide (" + declarations + ");\n";
  for (std::size_t row = 0; row < rows; ++row) {
    script += "INSERT INTO wide VALUES (" + std::to_string(row);
    for (const Case* one : used)
      script += ", " + literal(random.one_in(8) ? Value() : Value(one->make(random)), one->type);
    script += ");\n";
  }
  const std::string select = "SELECT " + list + " FROM wide ORDER BY n";
  script += "COPY (" + select + ") TO STDOUT (FORMAT csv, HEADER);\n\\echo json\n";
  script += "SELECT encode(convert_to(row_to_json(r)::text, 'UTF8'), 'hex') FROM (" + select + ") r;\n\\echo text\n";
  std::string texts;
  for (const Column& column : columns) {
    std::string quoted = "\"";
    for (const char byte : column.name) quoted += byte == '"' ? std::string("\"\"") : std::string(1, byte);
    quoted += '"';
    texts += (texts.empty() ? "" : " || ':' || ") + std::string("CASE WHEN num_nulls(") + quoted +
             ") = 0 THEN encode(convert_to(format('%s', " + quoted + "), 'UTF8'), 'hex') ELSE 'null' END";
  }
  script += "SELECT " + texts + " FROM wide ORDER BY n;\n";
  const std::string answer = server->query(script);
  const std::size_t json = answer.rfind("json\n", answer.rfind("\ntext\n"));
  const std::size_t text = answer.rfind("text\n");
  ASSERT_NE(json, std::string::npos);
  ASSERT_NE(text, std::string::npos);

  std::vector<Value> values;
  for (const std::string_view line : split(std::string_view(answer).substr(text + 5, answer.size() - text - 6), '\n')) {
    for (const std::string_view part : split(line, ':')) {
      values.push_back(part == "null" ? Value() : Value(from_hex(part)));
    }
  }
  ASSERT_EQ(values.size(), rows * columns.size());
  ASSERT_EQ(encode(Format::csv, columns, values), answer.substr(0, json));

  std::string array = "[";
  std::string lines;
  for (const std::string_view line : split(std::string_view(answer).substr(json + 5, text - json - 6), '\n')) {
    const std::string object = from_hex(line);
    array += (array.size() == 1 ? "" : ",\n") + object;
    lines += on_one_line(object) + '\n';
  }
  ASSERT_EQ(encode(Format::json, columns, values), array + "]\n");
  ASSERT_EQ(encode(Format::ndjson, columns, values), lines);
}

}  // namespace
}  // namespace sluice::sql
