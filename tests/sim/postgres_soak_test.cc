// The real PostgreSQL client against a scripted server on a simulated network. Every value identifies the request that
// it answers, so that a mixed-up answer is found; every query ends with its whole answer or with an error. A write that
// succeeds is committed once, and one that is refused is not committed.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/simulated_reactor.h"
#include "net/stream.h"
#include "simulation.h"
#include "sql/postgres/database.h"
#include "sql/postgres/types.h"

namespace sluice::sim {
namespace {

using core::Task;
using sql::Failure;

constexpr std::uint32_t int8_oid = 20;
constexpr std::uint32_t text_oid = 25;

// ---- The rows of an answer ----

std::optional<std::string> text_of(std::uint64_t id, std::uint64_t row, std::string_view role) {
  for (const char c : role) id = id * 257 + static_cast<unsigned char>(c);
  const std::uint64_t mixed = id * 31 + row * 7;
  if (mixed % 11 == 0) return std::nullopt;
  return pattern(id ^ (row << 32), mixed % 97 == 0 ? 9000 : mixed % 150);
}

// ---- The server ----

// Faults and notices of the server. Probabilities are per message, except where noted.
struct Chaos {
  double notice = 0;   // NOTICE, ParameterStatus and NOTIFY before the answer
  double forget = 0;   // per Sync: prepared statements are gone, as after DISCARD ALL
  double end = 0;      // FATAL, as when an administrator ends the session
  double drop = 0;     // the connection is reset
  double hang = 0;     // no answer for a minute
  double garbage = 0;  // bytes that no server sends
  double refuse = 0;   // per session: no connection slot
  double finish = 0;   // the connection ends in order, without a message
  double demote = 0;   // per session: all sessions before it are on a standby now
  double wait = 0;     // the commit of an implicit transaction waits for a standby
  Duration think = 2ms;
};

// How the server ends a session at one step, which is a message that it has received. `silence`: it never answers
// again.
enum class End : std::uint8_t { none, fatal, finish, reset, silence };

class FakeServer {
 public:
  // `reads_only`: a statement that reads must find a session that is read-only.
  FakeServer(core::Reactor& reactor, std::uint64_t seed, const Chaos& chaos, bool reads_only)
      : reactor_(reactor), listener_(reactor), random_(seed), chaos_(chaos), reads_only_(reads_only) {
    if (!reactor.listen(listener_.handle(), address(), {})) std::abort();
    tasks_.spawn(accept());
  }
  static core::Address address() { return *core::Address::parse("127.0.0.1:5432"); }
  [[nodiscard]] std::size_t sessions() const { return tasks_.size() - 1; }

  std::uint64_t cancelled = 0;
  std::uint64_t ended = 0;  // sessions that the server itself ended
  std::uint64_t refused_writes = 0;
  std::map<std::uint64_t, int> committed;        // how often, by the write's id
  std::map<std::uint64_t, std::string> writers;  // the roles of the committed writes
  std::set<std::uint64_t> unreplicated;          // committed, but a cancel has ended the wait for the standby
  std::uint64_t shared_writes = 0;               // committed by a Sync
  std::uint64_t pipelined_writes = 0;            // while the next request was there
  End end = End::none;
  std::uint64_t end_at = 0;  // counted over all sessions, from 1
  std::uint64_t steps = 0;

  // All sessions are on a standby from now on; new sessions are on its successor.
  void demote() {
    for (const auto& [key, session] : sessions_) session->standby = true;
  }
  void end_all(bool reset) {
    for (const auto& [key, session] : sessions_) {
      if (reset) reactor_.reset_on_close(session->stream.handle());
      session->stream.end_read();
    }
  }

 private:
  struct Session {
    explicit Session(core::Reactor& reactor, std::uint64_t seed) : stream(reactor), random(seed) {}
    net::Stream stream;
    Random random;
    Buffer in;
    std::string out;
    std::map<std::string, std::string, std::less<>> statements;
    std::string bound;  // statement of the unnamed portal
    std::vector<std::string> values;
    std::uint32_t key = 0;
    bool has_portal = false;
    bool skips = false;  // after an error, until Sync
    bool standby = false;
    bool read_only = false;  // default_transaction_read_only
    char transaction = 'I';  // as in ReadyForQuery
    std::string role;        // until the end of the transaction
    struct Write {
      std::uint64_t id = 0;
      bool fails_at_commit = false;  // as by a deferred constraint
    };
    std::vector<Write> written;  // by the open transaction
    bool running = false;
    bool cancelled = false;
  };

  Task<void> accept() {
    for (;;) {
      (void)co_await listener_.readable(never);
      auto session = std::make_unique<Session>(reactor_, random_.next());
      const auto accepted = reactor_.accept(listener_.handle(), session->stream.handle(), nullptr);
      if (!accepted) {
        co_await Sleep(reactor_, 10ms);
      } else if (*accepted) {
        tasks_.spawn(serve(std::move(session)));
      }
    }
  }

  static void put_u16(std::string& out, std::size_t value) {
    out += static_cast<char>(value >> 8);
    out += static_cast<char>(value);
  }
  static void put_u32(std::string& out, std::uint64_t value) {
    put_u16(out, (value >> 16) & 0xffff);
    put_u16(out, value & 0xffff);
  }
  static std::uint32_t u32(std::string_view bytes) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  }
  static void say(Session& session, char type, std::string_view payload = {}) {
    session.out += type;
    put_u32(session.out, payload.size() + 4);
    session.out += payload;
  }
  static void say_error(Session& session, std::string_view severity, std::string_view state, std::string_view message) {
    std::string payload;
    for (const auto& [code, text] : {std::pair{'S', severity}, {'V', severity}, {'C', state}, {'M', message}}) {
      payload += code;
      payload += text;
      payload += '\0';
    }
    payload += '\0';
    say(session, 'E', payload);
  }
  static void fail(Session& session, std::string_view state, std::string_view message) {
    say_error(session, "ERROR", state, message);
    session.skips = true;
    if (session.transaction == 'T') session.transaction = 'E';
  }
  static void say_ready(Session& session) { say(session, 'Z', std::string_view(&session.transaction, 1)); }
  static void complete(Session& session, const std::string& tag) {
    say(session, 'C', std::string_view(tag.c_str(), tag.size() + 1));
  }

  Task<bool> fill(Session& session) {
    const auto got = co_await session.stream.read(session.in, session.random.between(1, 20'000), never);
    co_return got && *got != 0;
  }
  // Sends `out` in random pieces.
  Task<bool> flush(Session& session) {
    std::string_view left = session.out;
    while (!left.empty()) {
      const std::size_t size = session.random.chance(0.3) ? session.random.between(1, left.size()) : left.size();
      iovec part{const_cast<char*>(left.data()), size};
      if (!co_await session.stream.write({&part, 1}, 600s)) co_return false;
      left.remove_prefix(size);
      if (!left.empty() && session.random.chance(0.3)) co_await Sleep(reactor_, session.random.up_to(2ms));
    }
    session.out.clear();
    co_return true;
  }
  // Receives one message into `payload`. Returns its type, or 0 at the end of the connection.
  Task<char> receive(Session& session, std::string& payload, bool startup = false) {
    const std::size_t head = startup ? 4 : 5;
    for (;;) {
      const std::string_view bytes = session.in.view();
      if (bytes.size() >= head) {
        const std::size_t size = u32(bytes.substr(head - 4));
        if (bytes.size() >= size + head - 4) {
          const char type = startup ? ' ' : bytes[0];
          payload = bytes.substr(head, size - 4);
          session.in.consume(size + head - 4);
          co_return type;
        }
      }
      // Sends all answers before it waits.
      if (!session.out.empty() && !co_await flush(session)) co_return 0;
      if (!co_await fill(session)) co_return 0;
    }
  }

  Task<void> serve(std::unique_ptr<Session> owned) {
    Session& session = *owned;
    std::string payload;
    if (co_await receive(session, payload, true) == 0) co_return;
    if (u32(payload) != 80877102 && co_await ends(session)) co_return;
    if (u32(payload) == 80877102) {  // CancelRequest
      co_await Sleep(reactor_, session.random.up_to(3ms));
      const auto other = sessions_.find(u32(std::string_view(payload).substr(4)));
      if (other != sessions_.end() && other->second->running) other->second->cancelled = true;
      co_return;
    }
    if (session.random.chance(chaos_.refuse)) {
      say_error(session, "FATAL", "53300", "sorry, too many clients already");
      (void)co_await flush(session);
      co_return;
    }
    if (session.random.chance(chaos_.demote)) demote();
    session.read_only = payload.contains("default_transaction_read_only");
    session.key = ++last_key_;
    sessions_[session.key] = &session;
    struct Leaving {
      FakeServer& server;
      std::uint32_t key;
      ~Leaving() { server.sessions_.erase(key); }
    } leaving{*this, session.key};

    say(session, 'R', std::string(4, '\0'));
    say(session, 'S', std::string("server_version\00015.4\0", 20));
    std::string key;
    put_u32(key, session.key);
    put_u32(key, 4711);
    say(session, 'K', key);
    say(session, 'Z', "I");
    for (;;) {
      const char type = co_await receive(session, payload);
      if (type == 0 || type == 'X') co_return;
      if (co_await ends(session) || co_await misbehaves(session)) co_return;
      co_await Sleep(reactor_, session.random.chance(0.1) ? session.random.up_to(chaos_.think) : Duration(0));
      if (type == 'S') {
        if (session.transaction == 'I') {
          if (session.skips) end_transaction(session);
          shared_writes += session.written.size();
          if (!co_await commit(session)) co_return;
        }
        session.skips = false;
        say_ready(session);
        if (session.random.chance(chaos_.forget)) session.statements.clear();
      } else if (!session.skips && !co_await obey(session, type, payload)) {
        co_return;
      }
    }
  }

  // Returns true if this step is the one that ends its session.
  Task<bool> ends(Session& session) {
    if (++steps != end_at || end == End::none) co_return false;
    ++ended;
    if (end == End::silence) co_await Sleep(reactor_, 600s);
    if (end == End::fatal) {
      say_error(session, "FATAL", "57P01", "terminating connection due to administrator command");
      (void)co_await flush(session);
    }
    if (end == End::reset) reactor_.reset_on_close(session.stream.handle());
    co_return true;
  }

  // Returns true if the session is over.
  Task<bool> misbehaves(Session& session) {
    Random& random = session.random;
    if (random.chance(chaos_.notice)) {
      say(session, 'N', std::string("SNOTICE\0C00000\0Mby the way\0\0", 28));
      say(session, 'S', std::string("application_name\0other\0", 23));
      std::string notification;
      put_u32(notification, 1);
      say(session, 'A', notification + std::string("channel\0payload\0", 16));
    }
    if (random.chance(chaos_.hang)) co_await Sleep(reactor_, 60s);
    if (random.chance(chaos_.end)) {
      ++ended;
      say_error(session, "FATAL", "57P01", "terminating connection due to administrator command");
      (void)co_await flush(session);
      co_return true;
    }
    if (random.chance(chaos_.finish)) {
      ++ended;
      (void)co_await flush(session);
      co_return true;
    }
    if (random.chance(chaos_.garbage)) {
      ++ended;
      session.out = "\x7f" + pattern(random.next(), random.below(50));
      (void)co_await flush(session);
      co_return true;
    }
    if (random.chance(chaos_.drop)) {
      ++ended;
      session.out.resize(random.below(session.out.size() + 1));
      (void)co_await flush(session);
      reactor_.reset_on_close(session.stream.handle());
      co_return true;
    }
    co_return false;
  }

  // Returns false if the session is over.
  Task<bool> obey(Session& session, char type, const std::string& payload) {
    std::string_view rest = payload;
    const auto string = [&rest] {
      const std::string_view text = rest.substr(0, rest.find('\0'));
      rest.remove_prefix(text.size() + 1);
      return std::string(text);
    };
    const auto number = [&rest](std::size_t bytes) {
      std::size_t value = 0;
      for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | static_cast<unsigned char>(rest[i]);
      rest.remove_prefix(bytes);
      return value;
    };
    switch (type) {
      case 'Q':
        command(session, string());
        say_ready(session);
        break;
      case 'P': {
        const std::string name = string();
        if (!name.empty() && session.statements.contains(name)) {
          fail(session, "42P05", "prepared statement already exists");
          break;
        }
        session.statements[name] = string();
        say(session, '1');
        break;
      }
      case 'C':
        rest.remove_prefix(1);
        session.statements.erase(string());
        say(session, '3');
        break;
      case 'D': {
        rest.remove_prefix(1);
        const auto described = session.statements.find(string());
        if (described == session.statements.end()) {
          fail(session, "26000", "prepared statement does not exist");
          break;
        }
        std::string types;
        put_u16(types, 3);
        for (int i = 0; i < 3; ++i) put_u32(types, text_oid);
        say(session, 't', types);
        if (described->second.starts_with("INSERT")) {
          say(session, 'n');
          break;
        }
        std::string columns;
        put_u16(columns, 3);
        for (const auto& [name, oid] : {std::pair{"id", int8_oid}, {"n", int8_oid}, {"t", text_oid}}) {
          columns += name;
          columns += '\0';
          put_u32(columns, 0);
          put_u16(columns, 0);
          put_u32(columns, oid);
          put_u16(columns, 8);
          put_u32(columns, 0xffffffff);
          put_u16(columns, 0);
        }
        say(session, 'T', columns);
        break;
      }
      case 'B': {
        (void)string();
        const std::string name = string();
        session.has_portal = session.statements.contains(name);
        if (!session.has_portal) {
          fail(session, "26000", "prepared statement does not exist");
          break;
        }
        session.bound = session.statements[name];
        for (std::size_t formats = number(2); formats != 0; --formats) (void)number(2);
        session.values.clear();
        for (std::size_t values = number(2); values != 0; --values) {
          const std::size_t size = number(4);
          session.values.emplace_back(rest.substr(0, size));
          rest.remove_prefix(size);
        }
        say(session, '2');
        break;
      }
      case 'E': {
        (void)string();
        session.running = true;
        const bool goes_on = co_await execute(session, number(4));
        session.running = session.cancelled = false;
        co_return goes_on;
      }
      default:
        ADD_FAILURE() << "the client sent a message of type " << type;
        co_return false;
    }
    co_return true;
  }

  // Obeys one of the client's own commands. Returns false if the text is another statement.
  bool command(Session& session, std::string_view text) {
    const auto is = [text](std::string_view begin) { return text.starts_with(begin); };
    if (is("BEGIN")) {
      session.transaction = 'T';
    } else if (is("COMMIT")) {
      if (session.transaction == 'E') {
        end_transaction(session);
        complete(session, "ROLLBACK");
        return true;
      }
      fail_commit(session);
      if (session.skips) return true;
      keep(session);
    } else if (is("ROLLBACK")) {
      end_transaction(session);
    } else if (is("SET default_transaction_read_only = on")) {
      session.read_only = true;
    } else if (is("RESET ALL") || is("SET default_transaction_read_only TO DEFAULT")) {
      session.read_only = false;
    } else if (!is("SET ") && !is("RESET ") && !is("UNLISTEN ") && !is("DISCARD ") && !is("SELECT 1 FROM ")) {
      return false;
    }
    complete(session, std::string(text.substr(0, text.find(' '))));
    return true;
  }
  void keep(Session& session) {
    for (const auto& write : session.written) {
      ++committed[write.id];
      writers[write.id] = session.role;
    }
    end_transaction(session);
  }
  static void fail_commit(Session& session) {
    const auto fails = [](const auto& write) { return write.fails_at_commit; };
    if (std::ranges::none_of(session.written, fails)) return;
    fail(session, "23503", "deferred " + std::to_string(session.written.front().id));
    end_transaction(session);
  }
  // The end of an implicit transaction. Returns false if the session is over.
  Task<bool> commit(Session& session) {
    fail_commit(session);
    if (session.written.empty()) {
      end_transaction(session);
      co_return true;
    }
    const std::uint64_t id = session.written.front().id;
    pipelined_writes += session.in.empty() ? 0 : 1;
    keep(session);
    if (!session.random.chance(chaos_.wait)) co_return true;
    // Waits for the standby.
    session.running = true;
    const Instant until = reactor_.now() + session.random.up_to(60s);
    while (reactor_.now() < until && !session.cancelled) co_await Sleep(reactor_, 5ms);
    session.running = false;
    if (!std::exchange(session.cancelled, false)) co_return true;
    unreplicated.insert(id);
    say(session, 'N', std::string("SWARNING\0C01000\0Mcanceling wait\0RSyncRepWaitForLSN\0\0", 52));
    co_return true;
  }
  static void end_transaction(Session& session) {
    session.transaction = 'I';
    session.role.clear();
    session.written.clear();
  }

  Task<bool> execute(Session& session, std::size_t limit) {
    if (session.has_portal && command(session, session.bound)) co_return true;
    if (session.has_portal && session.bound.starts_with("SELECT pg_catalog.set_config(")) {
      const std::size_t count = session.values.size() / 2;
      std::string row;
      put_u16(row, count);
      for (std::size_t i = 0; i < count; ++i) {
        if (session.values[2 * i] == "role") session.role = session.values[2 * i + 1];
        if (session.role == "stranger") {
          fail(session, "42501", "permission denied to set role \"stranger\"");
          co_return true;
        }
        put_u32(row, session.values[2 * i + 1].size());
        row += session.values[2 * i + 1];
      }
      say(session, 'D', row);
      say(session, 'C', std::string_view("SELECT 1\0", 9));
      co_return true;
    }
    if (session.values.size() != 3 || !session.has_portal) {
      ADD_FAILURE() << session.values.size() << " values";
      co_return false;
    }
    const std::uint64_t id = std::stoull(session.values[0]);
    if (session.bound.starts_with("INSERT")) {
      if (session.standby || session.read_only) {
        ++refused_writes;
        fail(session, "25006", "cannot execute INSERT in a read-only transaction");
      } else {
        if (session.values[2] == "unique") {
          fail(session, "23505", "duplicate " + std::to_string(id));
        } else {
          session.written.push_back({id, session.values[2] == "deferred"});
          complete(session, "INSERT 0 1");
        }
      }
      co_return true;
    }
    if (reads_only_ && !session.read_only) ADD_FAILURE() << "query " << id << " may write";
    const std::uint64_t count = std::stoull(session.values[1]);
    const bool fails = session.values[2] == "fail";
    for (std::uint64_t row = 0; row < count; ++row) {
      if (limit != 0 && row == limit) {
        say(session, 's');
        co_return true;
      }
      std::string values;
      put_u16(values, 3);
      for (const std::optional<std::string>& value :
           {std::optional(std::to_string(id)), std::optional(std::to_string(row)), text_of(id, row, session.role)}) {
        put_u32(values, value ? value->size() : 0xffffffff);
        if (value) values += *value;
      }
      say(session, 'D', values);
      if (session.out.size() > 8000 && session.random.chance(0.5)) {
        if (!co_await flush(session)) co_return false;
        if (co_await misbehaves(session)) co_return false;
        if (session.random.chance(0.1)) co_await Sleep(reactor_, session.random.up_to(chaos_.think));
        if (session.cancelled) {
          ++cancelled;
          fail(session, "57014", "canceling statement due to user request");
          co_return true;
        }
      }
    }
    if (fails) {
      fail(session, "22012", "division by zero in " + std::to_string(id));
    } else {
      const std::string tag = "SELECT " + std::to_string(count);
      say(session, 'C', std::string_view(tag.c_str(), tag.size() + 1));
    }
    co_return true;
  }

  core::Reactor& reactor_;
  net::Stream listener_;
  Random random_;
  Chaos chaos_;
  const bool reads_only_;
  std::map<std::uint32_t, Session*> sessions_;
  std::uint32_t last_key_ = 0;
  core::TaskGroup tasks_;
};

// ---- The clients ----

struct Tally {
  std::uint64_t asked = 0;
  std::uint64_t whole = 0;
  std::uint64_t left = 0;     // cursors destroyed before the end
  std::uint64_t refused = 0;  // errors of the statement itself, as intended
  std::uint64_t written = 0;
  std::map<Failure, std::uint64_t> failures;
};

sql::postgres::Options options() {
  sql::postgres::Options result;
  result.addresses = {FakeServer::address()};
  result.user = "somebody";
  result.database = "films";
  result.pool_size = 4;
  result.wait_ms = 30'000;
  result.statement_timeout_ms = 10'000;
  result.idle_ms = 20'000;
  result.pipeline = 16;
  return result;
}

class World {
 public:
  World(std::uint64_t seed, const core::Faults& faults, const Chaos& chaos, bool peaceful,
        const sql::postgres::Options& chosen = options())
      : reactor(seed, faults),
        server(reactor, seed + 1, chaos, chosen.prepared),
        peaceful_(peaceful),
        random_(seed + 2) {
    database = std::make_unique<sql::postgres::Database>(reactor, chosen);
    for (std::uint32_t id = 0; id < 3; ++id) {
      sql::Statement& statement = statements_[id];
      statement.id = {.slot = id, .serial = id + 1};
      statement.text = "SELECT id, n, t FROM rows($1, $2, $3) -- " + std::to_string(id);
      statement.parameters = {{"id", {}}, {"count", {}}, {"mode", {}}};
      statement.columns = {{"id", sql::postgres::builtin_type(int8_oid)},
                           {"n", sql::postgres::builtin_type(int8_oid)},
                           {"t", sql::postgres::builtin_type(text_oid)}};
      statement.one_row = id == 0;
    }
    write_.id = {.slot = 3, .serial = 4};
    write_.text = "INSERT INTO writes SELECT $1, $2, $3";
    write_.parameters = statements_[0].parameters;
    write_.may_fly = true;
  }

  void populate(int workers, int queries, Duration pause) {
    for (int i = 0; i < workers; ++i) clients.spawn(work(random_.next(), queries, pause));
  }
  bool run() {
    while (!clients.empty() && failures_ < 10) {
      if (reactor.deadlocked()) {
        ADD_FAILURE() << clients.size() << " clients wait for ever";
        return false;
      }
      reactor.turn(never);
    }
    return clients.empty();
  }
  void expect_nothing_left() {
    database.reset();
    // A session of the server may still sleep or wait for its standby, and then wait until it can send.
    const Instant end = reactor.now() + 1000s;
    while (!reactor.deadlocked() && reactor.now() < end) reactor.turn(end);
    EXPECT_TRUE(reactor.deadlocked());
    EXPECT_LE(reactor.open_handles(), 1 + server.sessions());
    if (peaceful_) {
      EXPECT_EQ(reactor.open_handles(), 1u) << "the listener";
    }
  }
  // Runs one query or write, whose time is returned.
  Task<void> measure(bool writes, std::uint64_t seed, Duration& took) {
    Random random(seed);
    const Instant begin = reactor.now();
    if (writes) {
      outcome = co_await write(random, false);
    } else {
      co_await ask(random);
    }
    took = reactor.now() - begin;
  }
  std::optional<bool> outcome;  // of the last measured write
  double write_share = 0.1;     // of the requests

  void check_writes() {
    for (const auto& [id, times] : server.committed) {
      if (times != 1) complain(id, "was committed " + std::to_string(times) + " times");
    }
    for (const std::uint64_t id : acknowledged_) {
      if (server.unreplicated.contains(id)) complain(id, "was acknowledged, and a cancel has ended its commit");
    }
  }

  void print(const char* name) {
    std::printf("%s: %llu queries: %llu whole, %llu left, %llu refused,", name, as_long(tally.asked),
                as_long(tally.whole), as_long(tally.left), as_long(tally.refused));
    std::printf(" %llu written, %llu by a Sync, %llu unreplicated, %llu writes refused,", as_long(tally.written),
                as_long(server.shared_writes), as_long(server.unreplicated.size()), as_long(server.refused_writes));
    for (const auto& [failure, count] : tally.failures)
      std::printf(" %llu x %d,", as_long(count), static_cast<int>(failure));
    const auto& counters = database->counters();
    std::printf(
        " shared %llu, exclusive %llu, overflows %llu, retries %llu, reprepared %llu, cancels %llu (%llu hit), lost "
        "%llu\n",
        as_long(counters.shared_requests), as_long(counters.exclusive_requests), as_long(counters.overflows),
        as_long(counters.retries), as_long(counters.reprepared), as_long(counters.cancels), as_long(server.cancelled),
        as_long(counters.lost));
  }
  static unsigned long long as_long(std::uint64_t value) { return value; }

  core::SimulatedReactor reactor;
  FakeServer server;
  std::unique_ptr<sql::postgres::Database> database;
  core::TaskGroup clients;
  Tally tally;

 private:
  void complain(std::uint64_t id, const std::string& what) {
    ++failures_;
    ADD_FAILURE() << "query " << id << ": " << what;
  }

  Task<void> work(std::uint64_t seed, int queries, Duration pause) {
    Random random(seed);
    for (int i = 0; i < queries; ++i) {
      co_await Sleep(reactor, random.up_to(pause));
      const Instant begin = reactor.now();
      const std::uint64_t unavailable = tally.failures[sql::Failure::unavailable];
      if (random.chance(write_share)) {
        co_await write_or_leave(random);
      } else {
        co_await ask(random);
      }
      if (reactor.now() - begin > 200s) complain(last_id_, "took too long");
      // Waits, as Retry-After tells clients to. Otherwise one long outage could use up most of the queries.
      if (tally.failures[sql::Failure::unavailable] != unavailable) co_await Sleep(reactor, random.up_to(10s));
    }
  }

  // At times the client leaves before its answer.
  Task<void> write_or_leave(Random& random) {
    if (!random.chance(0.1)) {
      (void)co_await write(random, true);
      co_return;
    }
    core::TaskGroup one;
    one.spawn(write_for_nobody(random));
    co_await Sleep(reactor, random.up_to(5ms));
    if (!one.empty()) ++tally.left;
    one.cancel();
  }
  Task<void> write_for_nobody(Random& random) { (void)co_await write(random, true); }

  // Whether it was committed; absent: that is unknown. `varies`: it may fail, and has a role.
  Task<std::optional<bool>> write(Random& random, bool varies) {
    const std::uint64_t id = ++last_id_;
    const std::string text = std::to_string(id);
    const std::string_view mode = !varies || random.chance(0.8) ? "write" : random.chance(0.5) ? "unique" : "deferred";
    const std::string role = varies && random.chance(0.4) ? "role" + std::to_string(random.below(5)) : "";
    const sql::Argument arguments[] = {{text}, {"1"}, {mode}};
    std::vector<sql::Setting> settings;
    if (!role.empty()) settings.push_back({"role", role});
    ++tally.asked;
    const auto transaction = database->begin({.settings = settings});
    const auto written = co_await transaction->finish(write_, arguments, 1);
    const auto found = server.committed.find(id);
    const bool is_committed = found != server.committed.end();
    if (written) {
      ++tally.written;
      acknowledged_.push_back(id);
      if (!is_committed || written->changes != 1) complain(id, "has succeeded and is not committed");
      if (server.writers[id] != role) complain(id, "was written as " + server.writers[id] + ", not as " + role);
      if (mode != "write") complain(id, "has not failed");
      co_return true;
    }
    const sql::Failure failure = written.error().failure;
    if (written.error().sqlstate.starts_with("235")) {
      ++tally.refused;
      const bool is_deferred = mode == "deferred";
      if (is_committed) complain(id, "is refused and committed");
      if (written.error().message != (is_deferred ? "deferred " : "duplicate ") + text) {
        complain(id, "got another one's error: " + written.error().message);
      }
      if (mode == "write" || written.error().at_commit != is_deferred) complain(id, "failed at the wrong moment");
      co_return false;
    }
    ++tally.failures[failure];
    if (failure == Failure::lost || failure == Failure::timed_out) co_return std::nullopt;
    if (is_committed) complain(id, "has failed and is committed: " + written.error().message);
    const bool is_demoted = written.error().sqlstate == "25006";
    const bool is_stale = failure == Failure::conflict;
    if (failure != Failure::unavailable && !is_stale) complain(id, written.error().message);
    if (peaceful_ && !is_demoted) complain(id, written.error().message);
    co_return false;
  }

  Task<void> ask(Random& random) {
    const sql::Statement& statement = statements_[random.below(3)];
    const std::uint64_t id = ++last_id_;
    std::uint64_t count = random.below(30);
    if (statement.one_row) {
      count = random.below(3);
    } else if (statement.id.slot == 2 && id / 400 % 2 != 0 && random.chance(0.3)) {
      // The pool learns how large a statement's results are; at times they are much larger.
      count = random.between(900, 6000);
    }
    const bool fails = random.chance(0.05);
    const bool slow = random.chance(0.05);
    const std::uint64_t leave_at = random.chance(0.1) ? random.below(count + 1) : count + 1;
    const std::string texts[] = {std::to_string(id), std::to_string(count), fails ? "fail" : "rows"};
    const sql::Argument arguments[] = {{texts[0]}, {texts[1]}, {texts[2]}};
    ++tally.asked;
    const std::string role = random.chance(0.4) ? "role" + std::to_string(random.below(5)) : "";
    const bool is_stranger = !role.empty() && random.chance(0.05);
    std::vector<sql::Setting> settings;
    if (!role.empty()) settings.push_back({"role", is_stranger ? "stranger" : role});

    auto cursor = co_await database->query(statement, arguments, {.settings = settings});
    if (!cursor && is_stranger && cursor.error().sqlstate == "42501") {
      if (cursor.error().failure != Failure::not_allowed) complain(id, "its role's error is told as something else");
      ++tally.refused;
      co_return;
    }
    if (!cursor) {
      failed(id, cursor.error(), fails);
      co_return;
    }
    // A query for one row returns at most two rows, and no error that follows them.
    const std::uint64_t most = statement.one_row ? std::min<std::uint64_t>(count, 2) : count;
    std::uint64_t row = 0;
    for (;;) {
      auto block = co_await (*cursor)->next();
      if (!block) {
        failed(id, block.error(), fails);
        co_return;
      }
      for (std::size_t i = 0; i < block->rows; ++i, ++row) {
        const auto fields = block->row(i);
        if (fields.size() != 3 || fields[0].view() != texts[0]) {
          complain(id, "got a row of query " + std::string(fields[0].view()));
          co_return;
        }
        const std::optional<std::string> text = text_of(id, row, role);
        if (fields[1].view() != std::to_string(row) || fields[2].is_null() != !text ||
            (text && fields[2].view() != *text)) {
          complain(id, "row " + std::to_string(row) + " is wrong");
          co_return;
        }
      }
      if (block->last) break;
      if (row > leave_at) {
        ++tally.left;
        co_return;
      }
      if (slow) co_await Sleep(reactor, random.up_to(500ms));
    }
    if (row != most) complain(id, std::to_string(row) + " rows instead of " + std::to_string(most));
    if (is_stranger) complain(id, "has read as a role that is refused");
    if (fails && !(statement.one_row && count >= 2)) complain(id, "has not failed");
    ++tally.whole;
  }

  void failed(std::uint64_t id, const sql::Error& error, bool fails) {
    if (error.sqlstate == "22012") {
      ++tally.refused;
      if (!fails || error.message != "division by zero in " + std::to_string(id))
        complain(id, "got another one's error");
      if (error.failure != Failure::bad_argument) complain(id, "its error is told as something else");
      return;
    }
    ++tally.failures[error.failure];
    if (peaceful_) complain(id, error.sqlstate + " " + error.message);
    // The server's faults are not reported as errors of the statement, unless the server forgets it on every attempt.
    const bool forgotten = error.sqlstate == "0A000" || error.sqlstate == "26000";
    if (error.failure == Failure::bad_argument || (error.failure == Failure::statement && !forgotten)) {
      complain(id, error.sqlstate + " " + error.message);
    }
  }

  bool peaceful_;
  Random random_;
  sql::Statement statements_[3];
  sql::Statement write_;
  std::vector<std::uint64_t> acknowledged_;  // writes
  std::uint64_t last_id_ = 0;
  int failures_ = 0;
};

core::Faults calm() {
  return {.short_read = 0.1, .short_write = 0.1, .would_block = 0.1, .split = 0.2, .stall = 0.001};
}
core::Faults storm() {
  core::Faults faults = calm();
  faults.reset = 0.001;
  faults.vanish = 0.0003;
  faults.refuse = 0.02;
  faults.accept_error = 0.05;
  faults.buffer = 30'000;
  return faults;
}
Chaos unrest() {
  return {.notice = 0.02,
          .forget = 0.01,
          .end = 0.001,
          .drop = 0.001,
          .hang = 0.0001,
          .garbage = 0.0003,
          .refuse = 0.05,
          .finish = 0.001,
          .demote = 0.05,
          .wait = 0.005};
}

constexpr int workers = 40;
// SLUICE_QUERIES makes the worlds smaller, for trying many seeds.
const int queries_each = [] {
  const char* given = std::getenv("SLUICE_QUERIES");
  return given != nullptr ? std::atoi(given) : sanitized ? 100 : 300;
}();

TEST(PostgresSoak, APeacefulServerAnswersEveryQuery) {
  World world(seed(), calm(), {.notice = 0.02}, true);
  world.populate(workers, queries_each, 300ms);
  ASSERT_TRUE(world.run());
  world.print("peace");
  EXPECT_EQ(world.tally.whole + world.tally.left + world.tally.refused + world.tally.written, world.tally.asked);
  EXPECT_GT(world.database->counters().shared_requests, world.tally.asked / 4);
  EXPECT_GT(world.database->counters().overflows, 0u);
  EXPECT_GT(world.database->counters().cancels, 0u);
  world.expect_nothing_left();
}

TEST(PostgresSoak, WhateverTheServerDoesEveryQueryEndsAndNoAnswersAreCrossed) {
  World world(seed() + 1, storm(), unrest(), false);
  world.populate(workers, queries_each, 300ms);
  ASSERT_TRUE(world.run());
  world.print("unrest");
  EXPECT_GT(world.tally.whole, world.tally.asked / 2);
  EXPECT_LT(world.tally.failures[Failure::statement], world.tally.asked / 100);
  EXPECT_GT(world.database->counters().retries, 0u);
  EXPECT_GT(world.database->counters().reprepared, 0u);
  EXPECT_GT(world.server.ended, 0u);
  EXPECT_GT(world.server.shared_writes, world.tally.written / 10);
  world.check_writes();
  world.expect_nothing_left();
}

TEST(PostgresSoak, WritesShareConnections) {
  auto chosen = options();
  chosen.pool_size = 2;
  Chaos chaos = unrest();
  chaos.wait = 0.05;
  World world(seed() + 5, storm(), chaos, false, chosen);
  world.write_share = 0.8;
  world.populate(workers, queries_each / 2, 20ms);
  ASSERT_TRUE(world.run());
  world.print("writes");
  EXPECT_GT(world.server.pipelined_writes, world.tally.written / 50);
  EXPECT_GT(world.server.unreplicated.size(), 0u);
  world.check_writes();
  world.expect_nothing_left();
}

// As behind PgBouncer in transaction mode: no prepared statements, and no shared requests.
TEST(PostgresSoak, WithoutPreparedStatements) {
  auto chosen = options();
  chosen.prepared = false;
  World world(seed() + 2, calm(), {.notice = 0.02, .forget = 0}, true, chosen);
  world.populate(10, queries_each, 300ms);
  ASSERT_TRUE(world.run());
  world.print("bouncer");
  EXPECT_EQ(world.database->counters().shared_requests, 0u);
  world.expect_nothing_left();
}

// A session ends at each step in turn: the start of the session, the settings, the statement and its commit.
class EndOfASession : public testing::TestWithParam<End> {};

constexpr Duration soon = 1500ms;  // the pause before another attempt to connect, and lost packets of the network

TEST_P(EndOfASession, AtAnyStepTheRequestIsAnsweredAndTheNextOneToo) {
  for (const bool writes : {false, true}) {
    std::uint64_t steps = 1;
    for (std::uint64_t step = 1; step <= steps; ++step) {
      SCOPED_TRACE((writes ? "write, step " : "read, step ") + std::to_string(step));
      World world(seed() + 100 + step, {}, {}, false);
      world.server.end = GetParam();
      world.server.end_at = step;
      Duration times[5] = {};
      bool has_ended = false;
      for (Duration& took : times) {
        const bool is_next = std::exchange(has_ended, world.server.ended != 0);
        if (GetParam() != End::silence) {
          // An old session is replaced at once, a young one after a pause.
          const Instant old = world.reactor.now() + 1100ms;
          while (world.reactor.now() < old) world.reactor.turn(old);
          // While they are idle. A request may not meet two ends, one after the other.
          if (&took == &times[4] && has_ended) world.server.end_all(GetParam() == End::reset);
        }
        world.clients.spawn(world.measure(writes, step, took));
        const Instant until = world.reactor.now() + soon;
        while (!world.clients.empty() && world.reactor.now() < until) world.reactor.turn(until);
        // A silent session keeps its own request until the timeout, but no later one.
        if (GetParam() != End::silence || is_next) {
          ASSERT_GT(took, 0ms);
        }
      }
      // Rows that the client has seen are not read again; other requests that read are.
      if (!writes) {
        EXPECT_EQ(world.tally.failures[Failure::unavailable], 0u);
      }
      ASSERT_TRUE(world.run());
      world.check_writes();
      steps = std::max(steps, std::min<std::uint64_t>(world.server.steps, 60));
      world.expect_nothing_left();
    }
    EXPECT_GT(steps, 10u);
  }
}

INSTANTIATE_TEST_SUITE_P(Ends, EndOfASession, testing::Values(End::fatal, End::finish, End::reset, End::silence));

TEST(PostgresSoak, WritesReachThePrimaryAfterARoleChange) {
  World world(seed() + 4, calm(), {}, true);
  world.populate(10, queries_each, 100ms);
  const Instant start = world.reactor.now();
  Duration took{};
  int refused = 0;
  for (int change = 1; change <= 5; ++change) {
    while (world.reactor.now() < start + change * 3s) world.reactor.turn(start + change * 3s);
    world.server.demote();
    for (world.outcome = false; world.outcome != true; ++refused) {
      ASSERT_LT(refused, 5 * 10);
      core::TaskGroup one;
      one.spawn(world.measure(true, 1, took));
      while (!one.empty()) world.reactor.turn(never);
      const Instant next = world.reactor.now() + 100ms;
      while (world.reactor.now() < next) world.reactor.turn(next);
    }
  }
  EXPECT_GT(world.server.refused_writes, 0u);
  ASSERT_TRUE(world.run());
  world.check_writes();
  world.print("roles");
}

TEST(PostgresSoak, TheSameSeedGivesTheSameHistory) {
  std::uint64_t histories[2];
  for (std::uint64_t& history : histories) {
    World world(seed() + 3, storm(), unrest(), false);
    world.populate(10, 20, 100ms);
    ASSERT_TRUE(world.run());
    history = world.reactor.history();
  }
  EXPECT_EQ(histories[0], histories[1]);
}

}  // namespace
}  // namespace sluice::sim
