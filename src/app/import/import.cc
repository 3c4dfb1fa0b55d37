#include "app/import/import.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/body/format.h"
#include "api/set_endpoint.h"
#include "api/set_rows.h"
#include "app/commands/exit_code.h"
#include "app/config/load.h"
#include "app/import/checkpoint.h"
#include "app/log/redaction.h"
#include "app/prepare/loop.h"
#include "base/grouped.h"
#include "sql/open.h"
#include "sql/set/set.h"
#include "sql/set/table.h"

namespace sluice::app::import {
namespace {

constexpr std::size_t read_bytes = 256 << 10;
constexpr Duration told_each = 200ms;  // interval of the progress line, on a terminal
constexpr Duration logged_each = 10s;  // interval of progress lines, otherwise

// An error that ends an import: a sentence, and the program's exit code.
struct Fault {
  std::string text;
  int code = exit_failure;
};
template <class T>
using Outcome = std::expected<T, Fault>;

std::unexpected<Fault> fault(std::string text, int code = exit_failure) {
  return std::unexpected(Fault{std::move(text), code});
}

std::string describe(const sql::Error& error) {
  return error.sqlstate.empty() ? error.message : error.message + " (" + error.sqlstate + ")";
}

std::optional<api::BodyFormat> format_named(std::string_view name) {
  using api::BodyFormat;
  constexpr std::array<std::pair<std::string_view, BodyFormat>, 4> formats{
      {{"csv", BodyFormat::csv}, {"csj", BodyFormat::csj}, {"ndjson", BodyFormat::ndjson}, {"json", BodyFormat::json}}};
  const auto known = std::ranges::find(formats, name, &std::pair<std::string_view, BodyFormat>::first);
  return known == formats.end() ? std::nullopt : std::optional(known->second);
}

class Input {
 public:
  static Outcome<Input> open(const std::string& path) {
    Input input;
    input.path_ = path == "-" ? "standard input" : path;
    if (path == "-") {
      input.file_ = STDIN_FILENO;
      return input;
    }
    input.file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat about{};
    if (input.file_ < 0 || ::fstat(input.file_, &about) != 0) return fault(path + ": " + std::strerror(errno));
    if (S_ISREG(about.st_mode)) input.size_ = static_cast<std::uint64_t>(about.st_size);
    return input;
  }
  Input(Input&& other) noexcept
      : file_(std::exchange(other.file_, -1)),
        path_(std::move(other.path_)),
        size_(other.size_),
        done_(other.done_),
        first_(std::move(other.first_)),
        buffer_(std::move(other.buffer_)) {}
  ~Input() {
    if (file_ > STDIN_FILENO) ::close(file_);
  }

  // Empty at the end of the file. Valid until the next call.
  Outcome<std::string_view> next() {
    if (!first_.empty()) {
      buffer_ = std::exchange(first_, {});
      return std::string_view(buffer_);
    }
    buffer_.resize(read_bytes);
    ssize_t got = 0;
    do {
      got = ::read(file_, buffer_.data(), buffer_.size());
    } while (got < 0 && errno == EINTR);
    if (got < 0) return fault(path_ + ": " + std::strerror(errno));
    done_ += static_cast<std::uint64_t>(got);
    return std::string_view(buffer_).substr(0, static_cast<std::size_t>(got));
  }
  // The next call of next() returns these bytes.
  void put_back(std::string bytes) { first_ = std::move(bytes); }

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::optional<std::uint64_t> size() const { return size_; }
  [[nodiscard]] std::uint64_t done() const { return done_; }

 private:
  Input() = default;
  int file_ = -1;
  std::string path_;
  std::optional<std::uint64_t> size_;
  std::uint64_t done_ = 0;
  std::string first_;
  std::string buffer_;
};

class Import {
 public:
  Import(const Options& options, std::FILE* out, std::FILE* err)
      : options_(options), out_(out), err_(err), told_at_(loop_.reactor->clock()), began_(told_at_) {}

  int run() {
    const auto done = work();
    end_line();
    if (done) return exit_ok;
    // Without finished rows there is nothing to resume, and the checkpoint would prevent another import.
    if (checkpoint_begun_ && checkpoint_.rows == 0) ::unlink(checkpoint_path_.c_str());
    std::fputs(("sluice: " + done.error().text + "\n").c_str(), err_);
    return done.error().code;
  }

 private:
  Outcome<void> work() {
    const auto format = format_of_file();
    if (!format) return std::unexpected(format.error());
    if (auto read = read_delimiter(*format); !read) return read;
    if (auto opened = open_database(); !opened) return opened;
    auto input = Input::open(options_.file);
    if (!input) return std::unexpected(input.error());
    if (auto described = describe_table(); !described) return described;
    const auto columns = columns_of(*format, *input);
    if (!columns) return std::unexpected(columns.error());
    if (auto planned = make_plan(*format, *columns); !planned) return planned;
    if (auto begun = begin_checkpoint(); !begun) return begun;
    if (auto written = write(*format, *input); !written) return written;
    end_line();
    if (!checkpoint_path_.empty()) ::unlink(checkpoint_path_.c_str());
    const auto seconds = std::chrono::duration<double>(loop_.reactor->clock() - began_).count();
    fmt::print(out_, "{}: {} rows: {} {}inserted, {} updated, {} unchanged, in {:.1f} s\n", options_.table,
               grouped(rows_), grouped(sum_.inserted), options_.dry_run ? "would be " : "", grouped(sum_.updated),
               grouped(sum_.unchanged), seconds);
    return {};
  }

  Outcome<api::BodyFormat> format_of_file() const {
    std::string_view name = options_.format;
    if (name.empty()) {
      const auto dot = options_.file.rfind('.');
      if (dot != options_.file.npos) name = std::string_view(options_.file).substr(dot + 1);
    }
    if (const auto format = format_named(name)) return *format;
    return fault(options_.file + ": say what it holds: --format csv, csj, ndjson or json", exit_usage);
  }

  Outcome<void> read_delimiter(api::BodyFormat format) {
    const std::string& wanted = options_.delimiter;
    if (wanted.empty()) return {};
    if (format != api::BodyFormat::csv) return fault("--delimiter is for csv", exit_usage);
    delimiter_ = wanted == "\\t" ? '\t' : wanted.front();
    const bool one = wanted.size() == 1 || delimiter_ == '\t';
    if (!one || static_cast<unsigned char>(delimiter_) >= 0x80 || std::string_view("\"\r\n").contains(delimiter_)) {
      return fault("--delimiter is one character of ASCII, and neither a quote nor a line end", exit_usage);
    }
    return {};
  }

  Outcome<void> open_database() {
    const std::string& wanted = options_.database;
    if (wanted.contains(':')) {
      database_options_.url.value = wanted;
      Redaction().append_address(target_, wanted);
    } else {
      const auto config = config::load(options_.configuration, config::process_environment);
      if (!config) return fault("the configuration is wrong\n" + config.error().text(), exit_configuration);
      const auto& databases = config->options.databases;
      const auto named = std::ranges::find(databases, wanted, [](const auto& one) { return one.name.value; });
      if (!wanted.empty() && named == databases.end()) {
        return fault(fmt::format("there is no [database.{}] in {}", wanted, options_.configuration), exit_usage);
      }
      if (wanted.empty() && databases.size() != 1) {
        return fault(
            databases.empty() ? options_.configuration + " has no database" : "say which database: --database NAME",
            exit_usage);
      }
      const auto& chosen = wanted.empty() ? databases.front() : *named;
      database_options_ = chosen.value;
      target_ = chosen.name.value + " ";
      Redaction().append_address(target_, chosen.value.url.value);
    }
    database_options_.pool = 1;
    auto shared = sql::open_shared(database_options_);
    if (!shared) return fault(describe(shared.error()));
    shared_ = std::move(*shared);
    auto opened = sql::open_database(database_options_, *loop_.reactor, loop_.mailbox, loop_.threads, shared_.get());
    if (!opened) return fault(describe(opened.error()));
    database_ = std::move(*opened);
    dialect_ = database_options_.dialect();
    return {};
  }

  Outcome<void> describe_table() {
    auto table = loop_.run(sql::describe_table(*database_, dialect_, options_.table));
    if (!table) return fault(describe(table.error()));
    table_ = std::move(*table);
    for (const std::string& key : options_.keys) {
      if (table_.find(key) == nullptr)
        return fault(fmt::format("{} has no column \"{}\"", options_.table, key), exit_usage);
    }
    keys_ = options_.keys;
    if (keys_.empty()) {
      if (auto read = read_primary_key(); !read) return read;
    }
    for (const std::string& key : keys_) {
      if (!table_.find(key)->generated) continue;
      return fault(
          fmt::format("the database makes the values of the key \"{}\" itself: --key names another{}", key,
                      dialect_ == sql::Dialect::postgres ? ", or declare it GENERATED BY DEFAULT AS IDENTITY" : ""),
          exit_usage);
    }
    return {};
  }

  Outcome<void> read_primary_key() {
    // The database parses the table's name, which is quoted as in the statements that write.
    const bool sqlite = dialect_ == sql::Dialect::sqlite;
    const std::string text = sqlite ? "SELECT name FROM pragma_table_info(:table) WHERE pk > 0 ORDER BY pk"
                                    : "SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = "
                                      "i.indrelid AND a.attnum = ANY "
                                      "(i.indkey) WHERE i.indisprimary AND i.indrelid = to_regclass(:table::text)";
    const auto statement = loop_.run(database_->prepare_writing(text, {}));
    if (!statement) return fault(describe(statement.error()));
    const auto dot = options_.table.rfind('.');
    const std::string name = !sqlite                      ? table_.name
                             : dot == options_.table.npos ? options_.table
                                                          : options_.table.substr(dot + 1);
    const sql::Argument argument{.text = name};
    const auto transaction = database_->begin({});
    const auto found = loop_.run(transaction->finish(*statement, {&argument, 1}, SIZE_MAX));
    if (!found) return fault(describe(found.error()));
    for (std::size_t row = 0; row < found->rows.rows; ++row) keys_.emplace_back(found->rows.row(row)[0].view());
    if (keys_.empty()) {
      return fault(
          fmt::format("{} has no primary key: say by which columns rows are the same: --key NAME", options_.table),
          exit_usage);
    }
    return {};
  }

  // Returns the columns that the file has. For JSON objects these are all columns, because any row may have further
  // members; a column that a row leaves out is not changed.
  Outcome<std::vector<std::string>> columns_of(api::BodyFormat format, Input& input) {
    std::vector<std::string> all;
    for (const auto& column : table_.columns) {
      if (!column.generated) all.push_back(column.name);
    }
    if (format == api::BodyFormat::json || format == api::BodyFormat::ndjson) {
      // "a.b" would be read from a nested object "a".
      std::erase_if(all, [](const std::string& name) { return name.contains('.'); });
      return all;
    }
    api::Shape shape{.names = all, .delimiter = delimiter_};
    take_generated(shape);
    const auto reader = api::RowReader::make(format, shape);
    std::string seen;
    for (auto next = reader->next();; next = reader->next()) {
      using Next = api::RowReader::Next;
      if (next == Next::need_more) {
        const auto piece = input.next();
        if (!piece) return std::unexpected(piece.error());
        seen += *piece;
        piece->empty() ? reader->finish() : reader->feed(*piece);
        continue;
      }
      if (next == Next::bad_row || next == Next::broken) return std::unexpected(rows_fault({&reader->fault(), 1}));
      if (next == Next::row) {
        const auto row = reader->row();
        std::vector<std::string> there;
        for (std::size_t i = 0; i < all.size(); ++i) {
          if (row[i].kind != api::Value::Kind::missing) there.push_back(all[i]);
        }
        all = std::move(there);
      }
      break;  // the main loop reads a file without rows to its end
    }
    input.put_back(std::move(seen));
    for (const std::string& key : keys_) {
      if (std::ranges::find(all, key) == all.end()) {
        return fault(fmt::format("{} has no column \"{}\", which is the key of {}; --key names another", input.path(),
                                 key, options_.table));
      }
    }
    return all;
  }

  // The table's own export contains generated columns.
  void take_generated(api::Shape& shape) const {
    for (const auto& column : table_.columns) {
      if (column.generated) shape.names.push_back(column.name);
    }
  }

  Outcome<void> make_plan(api::BodyFormat format, const std::vector<std::string>& columns) {
    const bool objects = format == api::BodyFormat::json || format == api::BodyFormat::ndjson;
    const http::Method method = objects ? http::Method::patch : http::Method::put;
    endpoint_.path = {options_.table};
    method_options_.table = {options_.table};
    method_options_.set = {true};
    for (const std::string& name : columns) {
      Named<api::ColumnOptions> column;
      column.name = {name};
      column.value.key = std::ranges::find(keys_, name) != keys_.end();
      method_options_.columns.push_back(std::move(column));
    }
    auto set = api::set_options(method, method_options_, pattern_);
    auto prepared = loop_.run(sql::prepare_set(*database_, dialect_, table_, std::move(set), {}));
    if (!prepared) return fault(describe(prepared.error()));
    plan_.emplace(method, endpoint_, method_options_, pattern_, std::move(*prepared));
    plan_->shape.delimiter = delimiter_;
    take_generated(plan_->shape);
    plan_->take_types(table_);
    target_ += " " + table_.name;
    for (const std::string& name : columns) target_ += " " + sql::quoted_identifier(name);
    std::vector<std::string> keys = keys_;
    std::ranges::sort(keys);
    target_ += " by";
    for (const std::string& name : keys) target_ += " " + sql::quoted_identifier(name);
    std::ranges::replace(target_, '\n', ' ');
    return {};
  }

  // Loads the checkpoint of an earlier run, or writes a new one.
  Outcome<void> begin_checkpoint() {
    if (options_.dry_run || options_.file == "-") return {};
    checkpoint_path_ = options_.file + ".sluice-import";
    checkpoint_.target = target_;
    if (!options_.restart) {
      auto found = Checkpoint::load(checkpoint_path_);
      if (!found) return fault(found.error());
      // An earlier run that ended before its first batch has nothing to resume.
      if (*found && (*found)->rows != 0) {
        if ((*found)->target != target_) {
          return fault(fmt::format("{} is of another import ({}): say --restart to begin this one", checkpoint_path_,
                                   (*found)->target));
        }
        resumed_ = **found;
        checkpoint_ = *resumed_;
      }
    }
    // Saves the checkpoint now, to find out before the first batch whether it can be written.
    if (auto saved = checkpoint_.save(checkpoint_path_); !saved) return fault(saved.error());
    checkpoint_begun_ = true;
    return {};
  }

  Outcome<void> write(api::BodyFormat format, Input& input) {
    const http::Exchange nobody{};
    api::SetRows rows(*plan_, format, nobody);
    std::unique_ptr<sql::Staging> staging;
    std::uint64_t staged = 0;
    RowsHash hash;
    const auto take_batch = [&]() -> Outcome<void> {
      const std::uint64_t count = rows.pending();
      if (count == 0) return {};
      hash.add(rows.values());
      rows_ += count;
      if (resumed_ && rows_ <= resumed_->rows) {
        rows.clear();
        if (rows_ == resumed_->rows && hash.value() == resumed_->hash) {
          end_line();
          fmt::print(err_, "{}: {} rows are there already\n", options_.table, grouped(rows_));
          resumed_.reset();
        } else if (rows_ == resumed_->rows) {
          return fault(fmt::format("the first {} rows of {} have changed since they were written: say --restart",
                                   grouped(rows_), input.path()));
        }
        return {};
      }
      if (!staging) staging = database_->stage(plan_->set, {});
      if (auto added = loop_.run(rows.hand_over(*staging)); !added) return fault(describe(added.error()));
      staged += count;
      return staged >= options_.batch ? apply(staging, staged, hash) : Outcome<void>{};
    };
    while (!rows.ended()) {
      // First skips exactly the rows that an earlier run has written, whatever its batch size was.
      const std::uint64_t most = resumed_ ? resumed_->rows - rows_ : options_.batch - staged;
      if (rows.take(most)) {
        if (rows.faults().empty()) {
          if (auto taken = take_batch(); !taken) return taken;
        }
        tell(input);
        continue;
      }
      if (rows.ended()) break;
      const auto piece = input.next();
      if (!piece) return std::unexpected(piece.error());
      piece->empty() ? rows.reader().finish() : rows.reader().feed(*piece);
    }
    if (!rows.faults().empty()) return std::unexpected(rows_fault(rows.faults()));
    if (auto taken = take_batch(); !taken) return taken;
    if (resumed_) {
      return fault(fmt::format("{} has fewer rows than the {} that were written of it: say --restart", input.path(),
                               grouped(resumed_->rows)));
    }
    return staging ? apply(staging, staged, hash) : Outcome<void>{};
  }

  Outcome<void> apply(std::unique_ptr<sql::Staging>& staging, std::uint64_t& staged, const RowsHash& hash) {
    auto outcome = loop_.run(staging->apply({}, {.commit = !options_.dry_run, .retries = 3, .deadline = never}));
    staging.reset();
    if (!outcome) return fault(describe(outcome.error()) + told_so_far());
    if (!outcome->faults.empty()) {
      std::vector<api::RowFault> faults;
      for (const auto& one : outcome->faults) faults.push_back(api::SetRows::fault_of(one));
      return std::unexpected(rows_fault(faults));
    }
    sum_.inserted += outcome->inserted;
    sum_.updated += outcome->updated;
    sum_.unchanged += outcome->unchanged;
    staged = 0;
    checkpoint_.rows = rows_;
    checkpoint_.hash = hash.value();
    if (checkpoint_path_.empty()) return {};
    if (auto saved = checkpoint_.save(checkpoint_path_); !saved) return fault(saved.error() + told_so_far());
    return {};
  }

  // In the style of a compiler: FILE:LINE: what is wrong.
  Fault rows_fault(std::span<const api::RowFault> faults) {
    end_line();
    for (const api::RowFault& one : faults) {
      fmt::print(err_, "{}:{}: {}{}{}\n", options_.file, one.line, one.pointer, one.pointer.empty() ? "" : ": ",
                 one.reason);
    }
    return {fmt::format("{} cannot be taken{}", faults.size() == 1 ? "a row" : fmt::format("{} rows", faults.size()),
                        told_so_far())};
  }

  std::string told_so_far() const {
    if (options_.dry_run) return "; nothing has been written, as it was a dry run";
    if (checkpoint_.rows == 0) return "; nothing has been written";
    return fmt::format("; the first {} rows have been written, and the same command goes on behind them",
                       grouped(checkpoint_.rows));
  }

  void tell(const Input& input) {
    const bool terminal = ::isatty(::fileno(err_)) != 0;
    const Instant now = loop_.reactor->clock();
    if (now - told_at_ < (terminal ? told_each : logged_each)) return;
    told_at_ = now;
    const double seconds = std::chrono::duration<double>(now - began_).count();
    std::string text = fmt::format("{}: {} rows", options_.table, grouped(rows_));
    if (const auto size = input.size(); size && *size != 0) {
      const double part = static_cast<double>(input.done()) / static_cast<double>(*size);
      text += fmt::format(", {:.0f} %", 100 * part);
      if (part > 0.01) text += fmt::format(", {:.0f} s left", seconds / part * (1 - part));
    }
    text += fmt::format(", {} rows/s", grouped(static_cast<std::uint64_t>(static_cast<double>(rows_) / seconds)));
    fmt::print(err_, "{}{}", terminal ? "\r\x1b[K" : "", text + (terminal ? "" : "\n"));
    std::fflush(err_);
    line_open_ = terminal;
  }
  void end_line() {
    if (std::exchange(line_open_, false)) std::fputs("\r\x1b[K", err_);
  }

  const Options& options_;
  std::FILE* const out_;
  std::FILE* const err_;
  Loop loop_;
  sql::DatabaseOptions database_options_;
  std::unique_ptr<sql::SharedDatabase> shared_;
  std::unique_ptr<sql::Database> database_;
  sql::Dialect dialect_{};
  char delimiter_ = ',';
  sql::Table table_;
  std::vector<std::string> keys_;
  api::EndpointOptions endpoint_;
  api::MethodOptions method_options_;
  const http::Pattern pattern_;
  std::optional<api::SetWritePlan> plan_;
  std::string target_;
  std::string checkpoint_path_;  // empty: no checkpoint is used
  Checkpoint checkpoint_;
  bool checkpoint_begun_ = false;      // this import has written it
  std::optional<Checkpoint> resumed_;  // until its rows have been skipped
  std::uint64_t rows_ = 0;             // rows of the file read so far
  sql::SetOutcome sum_;
  Instant told_at_;
  const Instant began_;
  bool line_open_ = false;
};

}  // namespace

int run_import(const Options& options, std::FILE* out, std::FILE* err) { return Import(options, out, err).run(); }

}  // namespace sluice::app::import
