// Writes the film data set, as a SQLite file or as a script for psql, with the same values and with JSON as jsonb
// prints it. It is the same on every machine, and film N is the same film whatever the row count.
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <sqlite3.h>

namespace {

// splitmix64: small, and its sequence is part of what this program promises.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  template <class T, std::size_t N>
  const T& pick(const std::array<T, N>& items) {
    return items[below(N)];
  }

 private:
  std::uint64_t state_;
};

struct Word {
  std::string_view title;
  std::string_view slug;
};

constexpr std::array<Word, 48> adjectives{{
    {"Silent", "silent"},
    {"Crimson", "crimson"},
    {"Hidden", "hidden"},
    {"Last", "last"},
    {"Golden", "golden"},
    {"Broken", "broken"},
    {"Distant", "distant"},
    {"Electric", "electric"},
    {"Forgotten", "forgotten"},
    {"Hollow", "hollow"},
    {"Infinite", "infinite"},
    {"Lonely", "lonely"},
    {"Midnight", "midnight"},
    {"Paper", "paper"},
    {"Quiet", "quiet"},
    {"Restless", "restless"},
    {"Scarlet", "scarlet"},
    {"Secret", "secret"},
    {"Seventh", "seventh"},
    {"Stolen", "stolen"},
    {"Velvet", "velvet"},
    {"Winter", "winter"},
    {"Wild", "wild"},
    {"Naïve", "naive"},
    {"Glass", "glass"},
    {"Burning", "burning"},
    {"Borrowed", "borrowed"},
    {"Copper", "copper"},
    {"Drowsy", "drowsy"},
    {"Early", "early"},
    {"Fearless", "fearless"},
    {"Gentle", "gentle"},
    {"Honest", "honest"},
    {"Iron", "iron"},
    {"Jagged", "jagged"},
    {"Kindred", "kindred"},
    {"Luminous", "luminous"},
    {"Moonlit", "moonlit"},
    {"Northern", "northern"},
    {"Obscure", "obscure"},
    {"Passé", "passe"},
    {"Reckless", "reckless"},
    {"Salted", "salted"},
    {"Tender", "tender"},
    {"Unfinished", "unfinished"},
    {"Vanishing", "vanishing"},
    {"Weightless", "weightless"},
    {"Young", "young"},
}};

constexpr std::array<Word, 48> nouns{{
    {"Harbor", "harbor"},         {"Lantern", "lantern"},   {"Orchard", "orchard"},
    {"Cathedral", "cathedral"},   {"Railway", "railway"},   {"Letter", "letter"},
    {"Mirror", "mirror"},         {"Café", "cafe"},         {"Garden", "garden"},
    {"Island", "island"},         {"Archive", "archive"},   {"Violin", "violin"},
    {"Machine", "machine"},       {"Mountain", "mountain"}, {"Ocean", "ocean"},
    {"Passenger", "passenger"},   {"Promise", "promise"},   {"River", "river"},
    {"Shadow", "shadow"},         {"Señor", "senor"},       {"Signal", "signal"},
    {"Station", "station"},       {"Storm", "storm"},       {"Symphony", "symphony"},
    {"Theatre", "theatre"},       {"Tiger", "tiger"},       {"Umbrella", "umbrella"},
    {"Voyage", "voyage"},         {"Window", "window"},     {"Witness", "witness"},
    {"Apprentice", "apprentice"}, {"Balloon", "balloon"},   {"Comet", "comet"},
    {"Diary", "diary"},           {"Engine", "engine"},     {"Façade", "facade"},
    {"Ghost", "ghost"},           {"Horizon", "horizon"},   {"Inheritance", "inheritance"},
    {"Jubilee", "jubilee"},       {"Kite", "kite"},         {"Lighthouse", "lighthouse"},
    {"Mosaic", "mosaic"},         {"Nocturne", "nocturne"}, {"Oracle", "oracle"},
    {"Piano", "piano"},           {"Quarry", "quarry"},     {"Reunion", "reunion"},
}};

constexpr std::array<Word, 24> places{{
    {"Lisbon", "lisbon"},
    {"Zürich", "zurich"},
    {"São Paulo", "sao-paulo"},
    {"Reykjavík", "reykjavik"},
    {"Kraków", "krakow"},
    {"Montréal", "montreal"},
    {"Tallinn", "tallinn"},
    {"Valparaíso", "valparaiso"},
    {"Nairobi", "nairobi"},
    {"Århus", "arhus"},
    {"Hà Nội", "ha-noi"},
    {"Málaga", "malaga"},
    {"Ulaanbaatar", "ulaanbaatar"},
    {"Tromsø", "tromso"},
    {"Kyoto", "kyoto"},
    {"Odessa", "odessa"},
    {"Dakar", "dakar"},
    {"Łódź", "lodz"},
    {"Bogotá", "bogota"},
    {"İzmir", "izmir"},
    {"Quito", "quito"},
    {"Tbilisi", "tbilisi"},
    {"Galway", "galway"},
    {"Perth", "perth"},
}};

constexpr std::array<Word, 24> names{{
    {"Amélie", "amelie"},     {"Björn", "bjorn"},     {"Chloë", "chloe"},   {"Dmitri", "dmitri"}, {"Esther", "esther"},
    {"Frida", "frida"},       {"Günther", "gunther"}, {"Hana", "hana"},     {"Ines", "ines"},     {"José", "jose"},
    {"Keiko", "keiko"},       {"Lucía", "lucia"},     {"Mirela", "mirela"}, {"Nuño", "nuno"},     {"Olga", "olga"},
    {"Penelope", "penelope"}, {"Quentin", "quentin"}, {"Renée", "renee"},   {"Søren", "soren"},   {"Tomáš", "tomas"},
    {"Ulla", "ulla"},         {"Vera", "vera"},       {"Wiktor", "wiktor"}, {"Zoë", "zoe"},
}};

constexpr std::array<Word, 8> eastern_adjectives{{
    {"静かな", "shizuka-na"},
    {"青い", "aoi"},
    {"最後の", "saigo-no"},
    {"遠い", "tooi"},
    {"소중한", "sojunghan"},
    {"푸른", "pureun"},
    {"孤独的", "gudu-de"},
    {"红色的", "hongse-de"},
}};

constexpr std::array<Word, 8> eastern_nouns{{
    {"港", "minato"},
    {"手紙", "tegami"},
    {"海", "umi"},
    {"列車", "ressha"},
    {"바다", "bada"},
    {"편지", "pyeonji"},
    {"花园", "huayuan"},
    {"灯塔", "dengta"},
}};

constexpr std::array<std::string_view, 8> emoji{"🎬", "🌊", "🚂", "🎻", "🌙", "🔥", "🦊", "👩‍🚀"};

constexpr std::array<std::string_view, 16> genres{
    "Action",  "Adventure", "Animation", "Comedy",  "Crime",   "Documentary",     "Drama",    "Family",
    "Fantasy", "History",   "Horror",    "Mystery", "Romance", "Science Fiction", "Thriller", "Western"};

constexpr std::array<std::string_view, 40> tags{
    "based-on-novel", "biography",   "black-and-white", "buddy",         "coming-of-age", "cult",         "dystopia",
    "ensemble",       "epic",        "espionage",       "female-lead",   "festival",      "friendship",   "heist",
    "heroine",        "independent", "journey",         "love-triangle", "magic",         "martial-arts", "midlife",
    "musical",        "neo-noir",    "nonlinear",       "one-location",  "period",        "political",    "prison",
    "remake",         "revenge",     "road-movie",      "satire",        "sea",           "short",        "silent",
    "small-town",     "space",       "sports",          "surreal",       "time-travel"};

constexpr std::array<std::string_view, 12> languages{"en", "fr", "de", "es", "pt", "ja",
                                                     "ko", "zh", "pl", "sv", "tr", "it"};

constexpr std::array<std::string_view, 10> openings{
    "After {0} leaves {1}, the {2} {3} turns every certainty around.",
    "{0} keeps one secret from everybody in {1}: the {2} {3}.",
    "In {1}, nobody speaks of the {2} {3} any more; {0} begins to ask.",
    "It begins with the {2} {3} on a platform in {1}, and with {0}, who is late.",
    "“Never trust the {2} {3},” said the people of {1}. {0} did.",
    "{0} inherits the {2} {3} in {1} — and the debts that come with it.",
    "Two strangers share a taxi through {1}; one of them is {0}, the other carries the {2} {3}.",
    "A winter in {1}: {0}, the {2} {3}, and a telephone that won't stop ringing.",
    "Everyone in {1} remembers the {2} {3} differently, {0} not at all.",
    "For {0}, {1} was only a stop; then the {2} {3} appeared.",
};

constexpr std::array<std::string_view, 10> endings{
    "What follows is a chase across three borders and forty years.",
    "Nothing in the old town will ever be the same.",
    "But the past has a key to the house.",
    "A quiet film about loud people.",
    "The answer lies in a \"lost\" reel of film.",
    "By morning, only one of them still believes the story.",
    "Shot in one take over a single, rain-soaked night.",
    "An odd friendship grows where nobody would look for one.",
    "Critics called it «délicat»; audiences simply laughed.",
    "Fate, as ever, travels third class.",
};

// With JSON's escapes.
constexpr std::array<std::string_view, 8> taglines{
    "Some doors should stay shut.",     "Say it softly.",  "He lied.\\nShe knew.",   "Über den Wolken 🌤",
    "The truth is only the beginning.", "Home is a verb.", "C:\\\\> run. Run. RUN.", "愛は海より深い",
};

struct Film {
  std::uint64_t id = 0;
  std::string slug;
  bool adult = false;
  bool has_name = true;
  std::string name;
  bool has_popularity = true;
  double popularity = 0;
  std::string blob;
  std::vector<std::string_view> tags;
};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
  }
  return result;
}

// As jsonb prints a string. The data holds no control characters.
void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    out.push_back(c);
  }
  out.push_back('"');
}

// Distinct members of `from`, in the same order.
template <std::size_t N>
std::vector<std::string_view> choose(Random& random, const std::array<std::string_view, N>& from, std::uint64_t count) {
  std::vector<std::string_view> chosen;
  for (std::size_t i = 0; i < N && count > 0; ++i) {
    if (random.below(N - i) >= count) continue;
    chosen.push_back(from[i]);
    --count;
  }
  return chosen;
}

void append_json_list(std::string& out, std::span<const std::string_view> items) {
  out.push_back('[');
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    append_json_string(out, items[i]);
  }
  out.push_back(']');
}

void name_film(Random& random, Film& film) {
  const Word& adjective = random.pick(adjectives);
  const Word& noun = random.pick(nouns);
  const Word& other = random.pick(nouns);
  const Word& place = random.pick(places);
  const Word& name = random.pick(names);
  switch (random.below(12)) {
    case 0:
    case 1:
      film.name = fmt::format("The {} {}", adjective.title, noun.title);
      film.slug = fmt::format("the-{}-{}", adjective.slug, noun.slug);
      break;
    case 2:
      film.name = fmt::format("{} {}", adjective.title, noun.title);
      film.slug = fmt::format("{}-{}", adjective.slug, noun.slug);
      break;
    case 3:
      film.name = fmt::format("{} of {}", noun.title, place.title);
      film.slug = fmt::format("{}-of-{}", noun.slug, place.slug);
      break;
    case 4:
      film.name = fmt::format("{}'s {}", name.title, noun.title);
      film.slug = fmt::format("{}s-{}", name.slug, noun.slug);
      break;
    case 5:
      film.name = fmt::format("{} & {}", noun.title, other.title);
      film.slug = fmt::format("{}-and-{}", noun.slug, other.slug);
      break;
    case 6:
      film.name = fmt::format("The \"{}\" {}", adjective.title, noun.title);
      film.slug = fmt::format("the-{}-{}", adjective.slug, noun.slug);
      break;
    case 7:
      film.name = fmt::format("{}, {}, {}", name.title, place.title, noun.title);
      film.slug = fmt::format("{}-{}-{}", name.slug, place.slug, noun.slug);
      break;
    case 8: {
      const Word& first = random.pick(eastern_adjectives);
      const Word& second = random.pick(eastern_nouns);
      film.name = fmt::format("{}{}", first.title, second.title);
      film.slug = fmt::format("{}-{}", first.slug, second.slug);
      break;
    }
    case 9:
      film.name = fmt::format("{} {} {}", adjective.title, noun.title, random.pick(emoji));
      film.slug = fmt::format("{}-{}", adjective.slug, noun.slug);
      break;
    case 10: {
      const std::uint64_t part = 2 + random.below(4);
      film.name = fmt::format("{} {}: Part {}", adjective.title, noun.title, part);
      film.slug = fmt::format("{}-{}-part-{}", adjective.slug, noun.slug, part);
      break;
    }
    default:
      film.name = fmt::format("{} in {}", name.title, place.title);
      film.slug = fmt::format("{}-in-{}", name.slug, place.slug);
      break;
  }
  fmt::format_to(std::back_inserter(film.slug), "-{}", film.id);
}

// jsonb orders the keys of an object by length, then by bytes. Each statement draws only one number, because the
// compiler chooses the order in which the arguments of a call are evaluated.
void describe_film(Random& random, Film& film) {
  const std::string_view opening = random.pick(openings);
  const std::string_view hero = random.pick(names).title;
  const std::string_view place = random.pick(places).title;
  const std::string adjective = lower(random.pick(adjectives).title);
  const std::string noun = lower(random.pick(nouns).title);
  std::string overview = fmt::format(fmt::runtime(opening), hero, place, adjective, noun);
  const std::uint64_t sentences = 1 + random.below(3);
  for (const std::string_view ending : choose(random, endings, sentences)) {
    overview.push_back(' ');
    overview += ending;
  }
  const std::uint64_t imdb = random.below(10'000'000);
  const std::uint64_t tmdb = film.id * 7 + random.below(7);
  const std::uint64_t wikidata = 100'000 + random.below(99'000'000);
  const std::uint64_t budget = random.one_in(4) ? 0 : 10'000 * (1 + random.below(20'000));
  const std::uint64_t genre_count = 1 + random.below(3);
  const std::vector<std::string_view> genre_list = choose(random, genres, genre_count);
  const std::uint64_t votes = random.below(50'000);
  const std::uint64_t tenths = 10 + random.below(90);
  const std::uint64_t runtime = 55 + random.below(140);
  const bool has_tagline = random.one_in(3);
  const std::string_view tagline = random.pick(taglines);
  const std::uint64_t language_count = 1 + random.below(3);
  const std::vector<std::string_view> language_list = choose(random, languages, language_count);
  const std::uint64_t year = 1921 + random.below(105);
  const std::uint64_t month = 1 + random.below(12);
  const std::uint64_t day = 1 + random.below(28);

  std::string& out = film.blob;
  const auto end = std::back_inserter(out);
  fmt::format_to(end, R"({{"ids": {{"imdb": "tt{:07}", "tmdb": {}, "wikidata": "Q{}"}}, "budget": )", imdb, tmdb,
                 wikidata);
  if (budget == 0) {
    out += "null";
  } else {
    fmt::format_to(end, "{}", budget);
  }
  out += R"(, "genres": )";
  append_json_list(out, genre_list);
  fmt::format_to(end, R"(, "rating": {{"votes": {}, "average": {}.{}}}, "runtime": {})", votes, tenths / 10,
                 tenths % 10, runtime);
  if (has_tagline) fmt::format_to(end, R"(, "tagline": "{}")", tagline);
  out += R"(, "overview": )";
  append_json_string(out, overview);
  out += R"(, "languages": )";
  append_json_list(out, language_list);
  fmt::format_to(end, R"(, "release_date": "{:04}-{:02}-{:02}"}})", year, month, day);
}

Film make_film(std::uint64_t id) {
  Random random(id * 0x2545f4914f6cdd1d);
  Film film;
  film.id = id;
  name_film(random, film);
  film.adult = random.one_in(20);
  film.has_name = !random.one_in(200);
  film.has_popularity = !random.one_in(100);
  const std::uint64_t fame = random.below(1000);
  const std::uint64_t luck = random.below(1000);
  // Never a whole number, which SQLite would print as 3.0 and PostgreSQL as 3.
  film.popularity = static_cast<double>((fame * luck) | 1) / 1000.0;
  describe_film(random, film);
  const std::uint64_t tag_count = random.below(6);
  film.tags = choose(random, tags, tag_count);
  if (id == 1) {
    // The film that the documentation and the tests ask for by name.
    film.slug = "the-silent-harbor";
    film.name = "The Silent Harbor";
    film.adult = false;
    film.has_name = film.has_popularity = true;
    film.tags = {"coming-of-age", "period", "sea"};
  }
  return film;
}

void check(bool good, sqlite3* database, const char* what) {
  if (good) return;
  fmt::print(stderr, "films_generate: {}: {}\n", what, database ? sqlite3_errmsg(database) : "out of memory");
  std::exit(1);
}

void execute(sqlite3* database, const char* sql) {
  check(sqlite3_exec(database, sql, nullptr, nullptr, nullptr) == SQLITE_OK, database, sql);
}

// The file gets its name when it is whole, so an interrupted run leaves nothing that looks finished.
void write_sqlite(std::uint64_t rows, const std::string& path) {
  const std::string part = path + ".part";
  std::remove(part.c_str());
  sqlite3* database = nullptr;
  check(sqlite3_open(part.c_str(), &database) == SQLITE_OK, database, part.c_str());
  execute(database, R"(
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    PRAGMA cache_size = -262144;
    CREATE TABLE films (
      id         INTEGER PRIMARY KEY,
      slug       TEXT NOT NULL UNIQUE,
      adult      BOOLEAN NOT NULL,
      name_en    TEXT,
      popularity REAL,
      blob       JSON NOT NULL
    );
    CREATE TABLE tags (
      film TEXT NOT NULL REFERENCES films (slug),
      tag  TEXT NOT NULL,
      PRIMARY KEY (film, tag)
    ) WITHOUT ROWID;
    BEGIN;
  )");
  sqlite3_stmt* add_film = nullptr;
  sqlite3_stmt* add_tag = nullptr;
  check(sqlite3_prepare_v2(database, "INSERT INTO films VALUES (?1, ?2, ?3, ?4, ?5, ?6)", -1, &add_film, nullptr) ==
            SQLITE_OK,
        database, "INSERT INTO films");
  check(sqlite3_prepare_v2(database, "INSERT INTO tags VALUES (?1, ?2)", -1, &add_tag, nullptr) == SQLITE_OK, database,
        "INSERT INTO tags");
  const auto bind_text = [](sqlite3_stmt* statement, int at, std::string_view text) {
    sqlite3_bind_text(statement, at, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
  };
  const auto run = [&](sqlite3_stmt* statement) {
    check(sqlite3_step(statement) == SQLITE_DONE, database, "INSERT");
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
  };
  for (std::uint64_t id = 1; id <= rows; ++id) {
    const Film film = make_film(id);
    sqlite3_bind_int64(add_film, 1, static_cast<sqlite3_int64>(film.id));
    bind_text(add_film, 2, film.slug);
    sqlite3_bind_int(add_film, 3, film.adult ? 1 : 0);
    if (film.has_name) bind_text(add_film, 4, film.name);
    if (film.has_popularity) sqlite3_bind_double(add_film, 5, film.popularity);
    bind_text(add_film, 6, film.blob);
    run(add_film);
    for (const std::string_view tag : film.tags) {
      bind_text(add_tag, 1, film.slug);
      bind_text(add_tag, 2, tag);
      run(add_tag);
    }
  }
  sqlite3_finalize(add_film);
  sqlite3_finalize(add_tag);
  execute(database, "CREATE INDEX tags_tag ON tags (tag); COMMIT; ANALYZE; PRAGMA journal_mode = WAL;");
  check(sqlite3_close(database) == SQLITE_OK, database, "close");
  if (std::rename(part.c_str(), path.c_str()) != 0) {
    std::perror(path.c_str());
    std::exit(1);
  }
}

void append_copy(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '\\') out.push_back('\\');
    out.push_back(c);
  }
}

void flush(std::string& out) {
  if (std::fwrite(out.data(), 1, out.size(), stdout) != out.size()) {
    std::perror("films_generate: standard output");
    std::exit(1);
  }
  out.clear();
}

void write_script(std::uint64_t rows) {
  constexpr std::size_t chunk = 1 << 20;
  std::string out = R"(\set ON_ERROR_STOP on
SET client_encoding = 'UTF8';
BEGIN;
CREATE TABLE films (
  id         bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  slug       text NOT NULL UNIQUE,
  adult      boolean NOT NULL,
  name_en    text,
  popularity double precision,
  blob       jsonb NOT NULL
);
COPY films FROM stdin;
)";
  for (std::uint64_t id = 1; id <= rows; ++id) {
    const Film film = make_film(id);
    fmt::format_to(std::back_inserter(out), "{}\t{}\t{}\t", film.id, film.slug, film.adult ? 't' : 'f');
    append_copy(out, film.has_name ? film.name : std::string_view{});
    if (!film.has_name) out += "\\N";
    out.push_back('\t');
    if (film.has_popularity) {
      fmt::format_to(std::back_inserter(out), "{}", film.popularity);
    } else {
      out += "\\N";
    }
    out.push_back('\t');
    append_copy(out, film.blob);
    out.push_back('\n');
    if (out.size() > chunk) flush(out);
  }
  out += fmt::format("\\.\nALTER TABLE films ALTER COLUMN id RESTART WITH {};\n", rows + 1);
  out += R"(CREATE TABLE tags (
  film text NOT NULL REFERENCES films (slug),
  tag  text NOT NULL,
  PRIMARY KEY (film, tag)
);
COPY tags FROM stdin;
)";
  for (std::uint64_t id = 1; id <= rows; ++id) {
    const Film film = make_film(id);
    for (const std::string_view tag : film.tags) fmt::format_to(std::back_inserter(out), "{}\t{}\n", film.slug, tag);
    if (out.size() > chunk) flush(out);
  }
  out += R"(\.
CREATE INDEX tags_tag ON tags (tag);
COMMIT;
ANALYZE films, tags;
)";
  flush(out);
  if (std::fflush(stdout) != 0) {
    std::perror("films_generate: standard output");
    std::exit(1);
  }
}

[[noreturn]] void usage() {
  fmt::print(stderr,
             "usage: films_generate [--rows N] --sqlite FILE    write a SQLite database\n"
             "       films_generate [--rows N] --sql            print a script for psql\n"
             "N is 20000 by default.\n");
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t rows = 20'000;
  std::string sqlite_path;
  bool script = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--sql") {
      script = true;
      continue;
    }
    if (++i == argc) usage();
    const std::string_view value = argv[i];
    if (option == "--rows") {
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), rows);
      if (error != std::errc{} || end != value.data() + value.size() || rows == 0) usage();
    } else if (option == "--sqlite") {
      sqlite_path = value;
    } else {
      usage();
    }
  }
  if (script == !sqlite_path.empty()) usage();
  if (script) {
    write_script(rows);
  } else {
    write_sqlite(rows, sqlite_path);
  }
}
