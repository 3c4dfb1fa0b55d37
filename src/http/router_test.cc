#include "http/router.h"

#include <algorithm>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "core/sleep.h"

namespace sluice::http {
namespace {

struct Named : Handler {
  core::Async<Response> handle(Exchange&) override { return Response{}; }
};

// The test owns the filter.
std::shared_ptr<Binding> bound_to(Filter& filter) {
  return std::make_shared<Binding>(Binding::Filters(), Binding::Filters{{std::shared_ptr<Filter>(), &filter}});
}

class RouterTest : public testing::Test {
 public:
  bool add(std::string_view pattern, std::vector<Method> methods = {Method::get}, bool formats = false,
           bool upgrades = false) {
    Router::Route route{.pattern = *Pattern::parse(pattern), .formats = formats, .upgrades = upgrades, .id = ++routes};
    for (const Method method : methods) route.handlers[static_cast<std::size_t>(method)] = &handler;
    if (!router.add(route)) return false;
    names[routes] = pattern;
    return true;
  }
  // An encoded slash is a NUL in `path`, as in Request::segments.
  Response ask(std::string_view path, Method method = Method::get, Version version = Version::http11,
               std::string_view upgrade = {}) {
    exchange.reset();
    request = {};
    request.method = method;
    request.version = version;
    request.upgrade = upgrade;
    segments = path;
    decoded = path;
    std::ranges::replace(decoded, '\0', '/');
    request.segments = segments;
    request.path = decoded;
    Response response = router.handle(exchange).take();
    exchange.end({});
    return response;
  }
  // Returns the pattern of the route that answers, or the status, such as "404".
  std::string match(std::string_view path, Method method = Method::get) {
    const Response response = ask(path, method);
    if (response.status != 200) return std::to_string(response.status);
    return names[request.route];
  }

  Named handler;
  Router router;
  Exchange exchange;
  Request& request = exchange.request;
  std::string segments;
  std::string decoded;
  std::uint16_t routes = 0;
  std::map<int, std::string> names;
};

TEST_F(RouterTest, SpecificityDecidesNotOrder) {
  for (const char* pattern : {"/{rest...}", "/films/{slug}", "/films/{id:int}", "/films/new", "/films/{slug}/tags",
                              "/films/{id:int}/{what}", "/"}) {
    ASSERT_TRUE(add(pattern)) << pattern;
  }
  EXPECT_EQ(match("/"), "/");
  EXPECT_EQ(match("/films/new"), "/films/new");
  EXPECT_EQ(match("/films/12"), "/films/{id:int}");
  EXPECT_EQ(match("/films/-12"), "/films/{id:int}");
  EXPECT_EQ(match("/films/0"), "/films/{id:int}");
  for (const char* other : {"/films/012", "/films/00", "/films/-0", "/films/+12", "/films/-012"}) {
    EXPECT_EQ(match(other), "/films/{slug}") << other;
  }
  EXPECT_EQ(match("/films/12a"), "/films/{slug}");
  EXPECT_EQ(match("/films/new/tags"), "/films/{slug}/tags") << "a literal that leads nowhere must not win";
  EXPECT_EQ(match("/films/12/tags"), "/films/{id:int}/{what}");
  EXPECT_EQ(match("/films/12/tags/x"), "/{rest...}");
  EXPECT_EQ(match("/films/"), "/{rest...}");
  EXPECT_EQ(match("/else/where"), "/{rest...}");
}

TEST_F(RouterTest, ValuesAreThoseOfTheRouteThatWins) {
  ASSERT_TRUE(add("/a/{x}/b/{y}"));
  ASSERT_TRUE(add("/a/{x}/{rest...}"));
  ASSERT_EQ(match("/a/1/b/2"), "/a/{x}/b/{y}");
  EXPECT_EQ(request.path_values[0], "1");
  EXPECT_EQ(request.path_values[1], "2");
  ASSERT_EQ(match("/a/1/b/2/3"), "/a/{x}/{rest...}");
  EXPECT_EQ(request.path_values[0], "1");
  EXPECT_EQ(request.path_values[1], "b/2/3");
}

TEST_F(RouterTest, AnEmptySegmentIsForFoldersOnly) {
  struct Refusing final : FilterOf<Refusing> {
    core::Async<std::optional<Response>> before(Exchange&, Slot&) override { return std::optional(problem(401, "no")); }
  } filter;
  const auto handlers = [&] {
    Router::Route route{.pattern = *Pattern::parse("/guarded"), .id = 9, .binding = bound_to(filter)};
    route.handlers[0] = &handler;
    return route;
  };
  ASSERT_TRUE(router.add(handlers()));
  Router::Route folder{.pattern = *Pattern::parse("/files/{file...}"), .folder = true, .id = 8};
  folder.handlers[0] = &handler;
  ASSERT_TRUE(router.add(folder));
  ASSERT_TRUE(add("/{rest...}"));
  const auto ask_merged = [&](std::string_view path) {
    exchange.reset();
    request = {};
    request.path = request.segments = path;
    request.has_empty_segment = true;
    const int answered = router.handle(exchange).take().status;
    exchange.end({});
    return answered;
  };
  EXPECT_EQ(ask_merged("/a/b"), 404);
  EXPECT_EQ(ask_merged("/"), 404);
  EXPECT_EQ(ask_merged("/files/a/b"), 200);
  EXPECT_EQ(ask_merged("/guarded"), 401) << "not before its policy";
}

TEST_F(RouterTest, FormatsAreTakenOffTheEnd) {
  ASSERT_TRUE(add("/films", {Method::get}, true));
  ASSERT_TRUE(add("/films/{slug}", {Method::get}, true));
  ASSERT_TRUE(add("/films/{id:int}", {Method::get}, true));
  ASSERT_TRUE(add("/plain/{slug}"));
  ASSERT_TRUE(add("/plain/{id:int}"));
  EXPECT_EQ(match("/films.csv"), "/films");
  EXPECT_EQ(request.extension, ".csv");
  EXPECT_EQ(match("/films/heat.ndjson"), "/films/{slug}");
  EXPECT_EQ(request.path_values[0], "heat");
  EXPECT_EQ(request.extension, ".ndjson");
  EXPECT_EQ(match("/films/7.json"), "/films/{id:int}");
  EXPECT_EQ(request.path_values[0], "7");
  EXPECT_EQ(match("/films/heat.txt"), "/films/{slug}");
  EXPECT_EQ(request.path_values[0], "heat.txt");
  EXPECT_EQ(request.extension, "");
  EXPECT_EQ(match("/plain/7.csv"), "/plain/{slug}");
  EXPECT_EQ(request.path_values[0], "7.csv");
  EXPECT_EQ(match("/films.txt"), "404");
  EXPECT_EQ(match("/films/.csv"), "/films/{slug}");
  EXPECT_EQ(request.path_values[0], ".csv");
}

TEST_F(RouterTest, FormatsAreTakenOffForReadingAlone) {
  const std::vector<Method> all{Method::get, Method::post, Method::put, Method::patch, Method::delete_};
  ASSERT_TRUE(add("/files", all, true));
  ASSERT_TRUE(add("/files/{name}", all, true));
  ASSERT_TRUE(add("/numbers/{id:int}", all, true));
  for (const Method method : all) {
    const bool reads = method == Method::get;
    EXPECT_EQ(ask("/files/report.csv", method).status, 200);
    EXPECT_EQ(request.path_values[0], reads ? "report" : "report.csv") << name_of(method);
    EXPECT_EQ(request.extension, reads ? ".csv" : "") << name_of(method);
    EXPECT_EQ(ask("/numbers/7.csv", method).status, reads ? 200 : 404) << name_of(method);
    EXPECT_EQ(ask("/files.csv", method).status, reads ? 200 : 404) << name_of(method);
  }
  EXPECT_EQ(ask("/files/report.csv", Method::head).status, 200);
  EXPECT_EQ(request.path_values[0], "report");
  EXPECT_EQ(ask("/files.csv", Method::options).fields.get("allow"), "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS");
  ASSERT_TRUE(add("/{any}", all));
  EXPECT_EQ(ask("/files.csv", Method::put).status, 200);
  EXPECT_EQ(request.path_values[0], "files.csv");
}

TEST_F(RouterTest, AnEncodedSlashIsPartOfAValue) {
  ASSERT_TRUE(add("/films/{slug}", {Method::get}, true));
  ASSERT_TRUE(add("/films/{slug}/{what}"));
  ASSERT_TRUE(add("/films/a/b"));
  ASSERT_TRUE(add("/numbers/{n:int}"));
  ASSERT_TRUE(add("/all/{rest...}"));
  using namespace std::string_view_literals;
  ASSERT_EQ(match("/films/a\0b"sv), "/films/{slug}");
  EXPECT_EQ(request.path_values[0], "a/b");
  ASSERT_EQ(match("/films/a\0b/c\0"sv), "/films/{slug}/{what}");
  EXPECT_EQ(request.path_values[0], "a/b");
  EXPECT_EQ(request.path_values[1], "c/");
  ASSERT_EQ(match("/films/\0"sv), "/films/{slug}");
  EXPECT_EQ(request.path_values[0], "/");
  ASSERT_EQ(match("/films/a\0b.csv"sv), "/films/{slug}");
  EXPECT_EQ(request.path_values[0], "a/b");
  EXPECT_EQ(request.extension, ".csv");
  ASSERT_EQ(match("/all/a\0b/c/..\0d"sv), "/all/{rest...}");
  EXPECT_EQ(request.path_values[0], "a/b/c/../d");
  EXPECT_EQ(match("/films\0a"sv), "404");
  EXPECT_EQ(match("/numbers/1\0002"sv), "404");
  EXPECT_EQ(match("/numbers\0001"sv), "404");
}

TEST_F(RouterTest, AnotherMethodIs405WithAllow) {
  ASSERT_TRUE(add("/x", {Method::get, Method::delete_}));
  EXPECT_EQ(match("/x", Method::head), "/x");
  const Response refused = ask("/x", Method::post);
  EXPECT_EQ(refused.status, 405);
  EXPECT_EQ(refused.fields.get("allow"), "GET, HEAD, DELETE, OPTIONS");
  for (const char* path : {"/x", "/y"}) {
    EXPECT_EQ(ask(path, Method::other).status, 501);
  }
  EXPECT_EQ(ask("/x", Method::trace).status, 405);
  EXPECT_EQ(ask("/y", Method::trace).status, 404);
  const Response options = ask("/x", Method::options);
  EXPECT_EQ(options.status, 204);
  EXPECT_EQ(options.fields.get("allow"), "GET, HEAD, DELETE, OPTIONS");
  EXPECT_EQ(ask("/y", Method::options).status, 404);
}

TEST_F(RouterTest, ConnectIsForHttp2AndForAProtocol) {
  const auto connect = [this](std::string_view path, std::string_view protocol) {
    return ask(path, Method::connect, Version::http2, protocol);
  };
  ASSERT_TRUE(add("/talk", {Method::get, Method::connect}, false, true));
  ASSERT_TRUE(add("/both", {Method::get, Method::connect}));
  ASSERT_TRUE(add("/plain"));
  EXPECT_EQ(connect("/talk", "websocket").status, 200);
  EXPECT_EQ(request.route, 1);
  EXPECT_EQ(connect("/none", "websocket").status, 404);
  EXPECT_EQ(connect("/plain", "websocket").status, 405);
  EXPECT_EQ(connect("/plain", "websocket").fields.get("allow"), "GET, HEAD, OPTIONS");
  // CONNECT to an authority, as sent to a proxy.
  EXPECT_EQ(connect("", "").status, 501);
  EXPECT_EQ(ask("", Method::connect).status, 501);

  // The allowed methods depend on the version.
  EXPECT_EQ(ask("/talk").status, 200);
  EXPECT_EQ(ask("/talk", Method::post).fields.get("allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(ask("/talk", Method::options).fields.get("allow"), "GET, HEAD, OPTIONS");
  for (const Method method : {Method::get, Method::head, Method::post}) {
    const Response refused = ask("/talk", method, Version::http2);
    EXPECT_EQ(refused.status, 405);
    EXPECT_EQ(refused.fields.get("allow"), "CONNECT, OPTIONS");
  }
  EXPECT_EQ(ask("/talk", Method::options, Version::http2).fields.get("allow"), "CONNECT, OPTIONS");
  EXPECT_EQ(ask("/both", Method::get, Version::http2).status, 200);
  EXPECT_EQ(ask("/both", Method::post, Version::http2).fields.get("allow"), "GET, HEAD, CONNECT, OPTIONS");
}

TEST_F(RouterTest, AFilterIsAskedForEveryMethodOfItsRouteAlone) {
  struct Guard final : FilterOf<Guard> {
    core::Async<std::optional<Response>> before(Exchange& exchange, Slot&) override {
      ++asked;
      EXPECT_NE(exchange.request.route, 0) << "for counting";
      if (!refuses) return std::optional<Response>();
      return std::optional(problem(401));
    }
    bool refuses = true;
    int asked = 0;
  } guard;
  Router::Route route{
      .pattern = *Pattern::parse("/guarded/{x}"), .upgrades = true, .id = 100, .binding = bound_to(guard)};
  route.handlers[static_cast<std::size_t>(Method::get)] = &handler;
  route.handlers[static_cast<std::size_t>(Method::connect)] = &handler;
  ASSERT_TRUE(router.add(route));
  ASSERT_TRUE(add("/guarded/open"));
  ASSERT_TRUE(add("/guarded"));
  const Method all[] = {Method::get,   Method::head,    Method::post,  Method::put,  Method::delete_,
                        Method::patch, Method::options, Method::trace, Method::other};
  for (const Method method : all) EXPECT_EQ(ask("/guarded/a", method).status, 401) << name_of(method);
  EXPECT_EQ(ask("/guarded/a", Method::connect, Version::http2, "websocket").status, 401);
  EXPECT_EQ(guard.asked, 10);
  EXPECT_EQ(ask("/guarded").status, 200);
  EXPECT_EQ(ask("/guarded/open").status, 200);
  EXPECT_EQ(ask("/guarded/a/b").status, 404);
  EXPECT_EQ(guard.asked, 10);
  guard.refuses = false;
  EXPECT_EQ(ask("/guarded/a").status, 200);
  EXPECT_EQ(ask("/guarded/a", Method::post).status, 405);
  EXPECT_EQ(ask("/guarded/a", Method::options).status, 204);
}

TEST_F(RouterTest, APreflightPassesTheRoutesFilters) {
  struct Guard final : FilterOf<Guard> {
    core::Async<std::optional<Response>> before(Exchange&, Slot&) override { return std::optional(problem(401)); }
  } guard;
  Router::Route route{.pattern = *Pattern::parse("/guarded"), .id = 1, .binding = bound_to(guard)};
  // Even a handler for OPTIONS must not run.
  for (const Method method : {Method::get, Method::put, Method::options}) {
    route.handlers[static_cast<std::size_t>(method)] = &handler;
  }
  ASSERT_TRUE(router.add(route));
  const auto status = [this](Method method, std::vector<Field> fields, std::string_view path = "/guarded") {
    exchange.reset();
    request = {};
    request.method = method;
    request.path = request.segments = path;
    request.fields = fields;
    const int answered = router.handle(exchange).take().status;
    exchange.end({});
    return answered;
  };
  const Field origin{"Origin", "https://a.example"};
  const Field wanted{"access-control-request-method", "PUT"};
  EXPECT_EQ(status(Method::options, {origin, wanted}), 204);
  EXPECT_EQ(status(Method::options, {origin, wanted}, "/none"), 404);
  EXPECT_EQ(status(Method::options, {origin}), 401);
  EXPECT_EQ(status(Method::options, {wanted}), 401);
  for (const Method method : {Method::get, Method::head, Method::put, Method::post, Method::trace}) {
    EXPECT_EQ(status(method, {origin, wanted}), 401) << name_of(method);
  }
}

TEST_F(RouterTest, AFolderIsFoundWithoutItsSlash) {
  const auto add_folder = [this](const char* pattern, bool folder) {
    Router::Route route{.pattern = *Pattern::parse(pattern), .folder = folder, .id = ++routes};
    route.handlers[static_cast<std::size_t>(Method::get)] = &handler;
    names[routes] = pattern;
    return router.add(route);
  };
  ASSERT_TRUE(add_folder("/{file...}", true));
  ASSERT_TRUE(add_folder("/f/{file...}", true));
  ASSERT_TRUE(add_folder("/f/g/{file...}", true));
  ASSERT_TRUE(add_folder("/own/{file...}", true));
  ASSERT_TRUE(add_folder("/other/{rest...}", false));
  ASSERT_TRUE(add("/own"));
  ASSERT_TRUE(add("/{slug}"));
  for (const auto& [path, pattern, value] :
       std::initializer_list<std::array<const char*, 3>>{{"/f", "/f/{file...}", ""},
                                                         {"/f/", "/f/{file...}", ""},
                                                         {"/f/x", "/f/{file...}", "x"},
                                                         {"/f/g", "/f/g/{file...}", ""},
                                                         {"/f/gg", "/f/{file...}", "gg"},
                                                         {"/other", "/{slug}", "other"},
                                                         {"/ff", "/{slug}", "ff"}}) {
    EXPECT_EQ(match(path), pattern) << path;
    EXPECT_EQ(request.path_values[0], value) << path;
  }
  EXPECT_EQ(match("/own"), "/own");
}

TEST_F(RouterTest, TheSameShapeTwiceIsRefused) {
  EXPECT_TRUE(add("/a/{x}"));
  EXPECT_FALSE(add("/a/{y}"));
  EXPECT_TRUE(add("/a/{x:int}"));
  EXPECT_TRUE(add("/{rest...}"));
  EXPECT_FALSE(add("/{other...}"));
}

TEST(Pattern, RefusesWhatIsNone) {
  for (const char* text : {"", "films", "/{", "/}", "/a{b}", "/{}", "/{1a}", "/{a:float}", "/{a...}/b", "/{a}/{a}",
                           "//a", "/a//b", "/a/../b", "/{a b}", "/.", "/{a:int...}", "/a/*", "/a/**"}) {
    EXPECT_FALSE(Pattern::parse(text)) << text;
  }
  for (const char* text : {"/", "/a", "/a/", "/{a}", "/{a:int}/x", "/{a...}", "/a.b/{c_1}"}) {
    EXPECT_TRUE(Pattern::parse(text)) << text;
  }
}

TEST_F(RouterTest, AnAnswerNeedsItsBindingAlone) {
  struct Waiting final : FilterOf<Waiting> {
    core::Async<std::optional<Response>> before(Exchange&, Slot&) override { return wait(); }
    core::Task<std::optional<Response>> wait() {
      co_await core::Sleep(reactor, reactor.now() + 1s);
      co_return std::nullopt;
    }
    core::SimulatedReactor reactor{1};
  } filter;
  const auto binding = bound_to(filter);
  const auto kept = std::make_shared<int>(7);
  binding->keep(kept);
  auto replaced = std::make_unique<Router>();
  Router::Route route{.pattern = *Pattern::parse("/a"), .id = 3, .binding = binding};
  route.handlers[static_cast<std::size_t>(Method::get)] = &handler;
  ASSERT_TRUE(replaced->add(route));
  request.path = request.segments = "/a";
  core::TaskGroup tasks;
  int status = 0;
  tasks.spawn([](Router& from, Exchange& asking, int& into) -> core::Task<void> {
    into = (co_await from.handle(asking)).status;
  }(*replaced, exchange, status));
  EXPECT_EQ(binding->pins(), 1u);
  replaced.reset();
  while (!tasks.empty()) filter.reactor.turn(filter.reactor.timers().next());
  EXPECT_EQ(status, 200);
  EXPECT_EQ(kept.use_count(), 2);
  exchange.reset();
  EXPECT_EQ(binding->pins(), 0u);
}

TEST_F(RouterTest, ARequestWithoutARoutePinsABindingToo) {
  const auto nowhere = std::make_shared<Binding>();
  Router bare(nowhere);
  for (const std::string_view path : {"/missing", "*"}) {
    request = {};
    request.path = request.segments = path;
    EXPECT_EQ(bare.handle(exchange).take().status, path == "*" ? 204 : 404);
    EXPECT_TRUE(exchange.pin.holds(*nowhere));
    exchange.reset();
  }
  EXPECT_EQ(nowhere->pins(), 0u);
}

// Routes by host, and several routes with one path.
class RoutesTest : public RouterTest {
 public:
  struct Wanted {
    std::string name;
    std::string_view pattern;
    std::string host = {};
    std::vector<Condition> conditions = {};
    std::vector<Method> methods = {Method::get, Method::post};
    bool folder = false;
    bool passes_on = false;
    std::shared_ptr<Binding> binding = nullptr;
  };
  bool add(const Wanted& wanted) {
    Router::Route route{.pattern = *Pattern::parse(wanted.pattern),
                        .host = wanted.host,
                        .conditions = wanted.conditions,
                        .folder = wanted.folder,
                        .passes_on = wanted.passes_on,
                        .id = ++routes,
                        .binding = wanted.binding};
    for (const Method method : wanted.methods) route.handlers[static_cast<std::size_t>(method)] = &handler;
    names[routes] = wanted.name;
    return router.add(route);
  }
  struct Asked {
    std::string_view path;
    std::string_view authority = "other.example";
    std::vector<Field> fields = {};
    std::string_view query = {};
    Method method = Method::get;
  };
  Response ask(const Asked& asked) {
    exchange.reset();
    request = {};
    request.method = asked.method;
    request.segments = request.path = asked.path;
    request.authority = asked.authority;
    request.fields = asked.fields;
    request.query = asked.query;
    Response response = router.handle(exchange).take();
    exchange.end({});
    return response;
  }
  std::string match(const Asked& asked) {
    const Response response = ask(asked);
    return response.status == 200 ? names[request.route] : std::to_string(response.status);
  }
  static Condition field(std::string name, std::optional<std::string> value) {
    return {Condition::Of::field, std::move(name), std::move(value)};
  }
  static Condition query(std::string name, std::optional<std::string> value) {
    return {Condition::Of::query, std::move(name), std::move(value)};
  }
};

TEST_F(RoutesTest, AHostsOwnRoutesAddToThoseOfAllHosts) {
  ASSERT_TRUE(add({.name = "all", .pattern = "/x"}));
  ASSERT_TRUE(add({.name = "all's y", .pattern = "/y"}));
  ASSERT_TRUE(add({.name = "a", .pattern = "/x", .host = "a.example.com"}));
  ASSERT_TRUE(add({.name = "below", .pattern = "/x", .host = "*.example.com"}));
  ASSERT_TRUE(add({.name = "below's rest", .pattern = "/{rest...}", .host = "*.example.com"}));
  ASSERT_TRUE(add({.name = "com", .pattern = "/x", .host = "*.com"}));
  ASSERT_TRUE(add({.name = "six", .pattern = "/x", .host = "::1"}));
  EXPECT_EQ(match({.path = "/x"}), "all");
  EXPECT_EQ(match({.path = "/x", .authority = ""}), "all");
  for (const char* same :
       {"a.example.com", "A.Example.COM", "a.example.com.", "a.example.com:8080", "a.example.com.:1"}) {
    EXPECT_EQ(match({.path = "/x", .authority = same}), "a") << same;
  }
  EXPECT_EQ(match({.path = "/x", .authority = "b.example.com"}), "below");
  EXPECT_EQ(match({.path = "/x", .authority = "c.b.example.com:1"}), "below");
  EXPECT_EQ(match({.path = "/y", .authority = "a.example.com"}), "below's rest") << "a host goes before a path";
  EXPECT_EQ(match({.path = "/x", .authority = "example.com"}), "com") << "a domain is not below itself";
  EXPECT_EQ(match({.path = "/x", .authority = "xexample.com"}), "com");
  EXPECT_EQ(match({.path = "/y", .authority = "example.com"}), "all's y");
  EXPECT_EQ(match({.path = "/x", .authority = "com"}), "all");
  EXPECT_EQ(match({.path = "/x", .authority = "[::1]:80"}), "six");
  EXPECT_EQ(match({.path = "/z", .authority = "com"}), "404");
  EXPECT_EQ(match({.path = "/x", .authority = std::string(300, 'a') + ".com"}), "all") << "no name is as long";
  EXPECT_FALSE(add({.name = "again", .pattern = "/x", .host = "*.com"}));
}

TEST_F(RoutesTest, ValuesOfAPathThatAHostDoesNotHaveAreForgotten) {
  ASSERT_TRUE(add({.name = "host", .pattern = "/{a}/{b}/x", .host = "a.example"}));
  ASSERT_TRUE(add({.name = "all", .pattern = "/{a}/{b...}"}));
  EXPECT_EQ(match({.path = "/1/2/y", .authority = "a.example"}), "all");
  EXPECT_EQ(request.path_values[0], "1");
  EXPECT_EQ(request.path_values[1], "2/y");
}

TEST_F(RoutesTest, MoreConditionsGoFirstAndNoneThatHoldMeansNoSuchPath) {
  ASSERT_TRUE(add({.name = "rest", .pattern = "/api/{rest...}"}));
  ASSERT_TRUE(add({.name = "two", .pattern = "/api/x", .conditions = {field("X-Version", "2")}}));
  ASSERT_TRUE(add(
      {.name = "two beta", .pattern = "/api/x", .conditions = {field("X-Version", "2"), query("beta", std::nullopt)}}));
  EXPECT_EQ(match({.path = "/api/x"}), "rest");
  EXPECT_EQ(request.path_values[0], "x");
  EXPECT_EQ(match({.path = "/api/x", .fields = {{"x-version", "2"}}}), "two");
  EXPECT_EQ(match({.path = "/api/x", .fields = {{"x-version", "3"}}}), "rest");
  EXPECT_EQ(match({.path = "/api/x", .fields = {{"x-version", "2"}}, .query = "a=1&beta"}), "two beta");
  EXPECT_EQ(match({.path = "/api/x", .fields = {{"x-version", "2"}}, .query = "a=1&bet%61=0"}), "two beta");
  EXPECT_EQ(match({.path = "/api/x", .query = "beta=1"}), "rest");
  ASSERT_TRUE(add({.name = "none", .pattern = "/api/x"}));
  EXPECT_EQ(match({.path = "/api/x", .query = "beta=1"}), "none");
  EXPECT_FALSE(add({.name = "again", .pattern = "/api/x", .conditions = {field("x-VERSION", "2")}}));
}

TEST_F(RoutesTest, NoSpellingThatAServerCouldReadInAnotherWayPassesByAFilter) {
  using namespace std::string_view_literals;
  struct Passes final : FilterOf<Passes> {
  } guard, other;
  ASSERT_TRUE(add({.name = "all", .pattern = "/{rest...}", .passes_on = true}));
  ASSERT_TRUE(add({.name = "admin", .pattern = "/admin/{rest...}", .passes_on = true, .binding = bound_to(guard)}));
  ASSERT_TRUE(add({.name = "open", .pattern = "/admin/open", .passes_on = true, .binding = bound_to(guard)}));
  ASSERT_TRUE(add({.name = "other", .pattern = "/admin/other", .passes_on = true, .binding = bound_to(other)}));
  ASSERT_TRUE(add({.name = "here", .pattern = "/here/{x}"}));
  for (const auto bad : {"/admin\0x"sv, "/admin\\x"sv, "/admin;a=1/x"sv, "/\0admin/x"sv, "/;/admin/x"sv,
                         "/admin/x;y\0../other"sv, "/admin\0other"sv, "/admin/other;x"sv}) {
    const bool leads_back = bad.contains("..");  // the handler must refuse dot segments
    EXPECT_EQ(match({.path = bad}), bad.starts_with("/admin/") && leads_back ? "admin" : "400") << bad;
  }
  EXPECT_EQ(match({.path = "/a\0b;c\\d"sv}), "all");
  EXPECT_EQ(request.path_values[0], "a\0b;c\\d"sv);
  EXPECT_EQ(match({.path = "/admin/a\0b"sv}), "admin");
  EXPECT_EQ(request.path_values[0], "a\0b"sv);
  EXPECT_EQ(match({.path = "/admin\0open"sv}), "400");
  EXPECT_EQ(match({.path = "/admin/open;x"sv}), "admin") << "the same filters";
  EXPECT_EQ(match({.path = "/here/a\0b"sv}), "here") << "nobody else reads it";
}

TEST_F(RoutesTest, MethodsMayHaveRoutesOfTheirOwn) {
  ASSERT_TRUE(add({.name = "read", .pattern = "/x", .methods = {Method::get}}));
  ASSERT_TRUE(add({.name = "write", .pattern = "/x", .methods = {Method::post, Method::put}}));
  ASSERT_TRUE(add({.name = "two", .pattern = "/x", .conditions = {field("v", "2")}, .methods = {Method::delete_}}));
  EXPECT_FALSE(add({.name = "again", .pattern = "/x", .methods = {Method::put, Method::patch}}));
  EXPECT_EQ(match({.path = "/x"}), "read");
  EXPECT_EQ(match({.path = "/x", .method = Method::head}), "read");
  EXPECT_EQ(match({.path = "/x", .method = Method::put}), "write");
  EXPECT_EQ(match({.path = "/x", .fields = {{"v", "2"}}, .method = Method::put}), "write");
  EXPECT_EQ(match({.path = "/x", .fields = {{"v", "2"}}, .method = Method::delete_}), "two");
  Response refused = ask({.path = "/x", .method = Method::delete_});
  EXPECT_EQ(refused.status, 405);
  EXPECT_EQ(refused.fields.get("allow"), "GET, HEAD, POST, PUT, OPTIONS");
  refused = ask({.path = "/x", .fields = {{"v", "2"}}, .method = Method::patch});
  EXPECT_EQ(refused.status, 405);
  EXPECT_EQ(refused.fields.get("allow"), "GET, HEAD, POST, PUT, DELETE, OPTIONS");
}

TEST_F(RoutesTest, APreflightGoesToTheRouteOfTheMethodThatItAsksFor) {
  struct Answers final : FilterOf<Answers> {
    explicit Answers(int status) : status(status) {}
    std::optional<Response> preflight(Exchange&) override {
      Response response;
      response.status = status;
      return response;
    }
    const int status;
  } read(201), write(202);
  for (auto* filter : {&read, &write}) {
    Router::Route route{.pattern = *Pattern::parse("/x"), .id = ++routes, .binding = bound_to(*filter)};
    const Method method = filter == &read ? Method::get : Method::post;
    route.handlers[static_cast<std::size_t>(method)] = &handler;
    ASSERT_TRUE(router.add(route));
  }
  const auto preflight = [this](std::string_view method) {
    return ask({.path = "/x",
                .fields = {{"Origin", "http://a"}, {"Access-Control-Request-Method", method}},
                .method = Method::options})
        .status;
  };
  EXPECT_EQ(preflight("GET"), 201);
  EXPECT_EQ(preflight("HEAD"), 201);
  EXPECT_EQ(preflight("POST"), 202);
}

TEST(Condition, TwoOfOneNameWithOtherValuesExcludeEachOther) {
  const Condition one{Condition::Of::field, "X-A", "1"};
  EXPECT_TRUE(one.excludes({Condition::Of::field, "x-a", "2"}));
  EXPECT_FALSE(one.excludes({Condition::Of::field, "x-a", "1"}));
  EXPECT_FALSE(one.excludes({Condition::Of::field, "x-a", std::nullopt}));
  EXPECT_FALSE(one.excludes({Condition::Of::field, "x-b", "2"}));
  EXPECT_FALSE(one.excludes({Condition::Of::query, "X-A", "2"}));
}

}  // namespace
}  // namespace sluice::http
