#include "app/commands/store_gc.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <ctime>
#include <expected>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "app/commands/exit_code.h"
#include "app/config/text.h"
#include "app/prepare/loop.h"
#include "files/blob_folder.h"
#include "http/blob.h"
#include "sql/open.h"

namespace sluice::app {
namespace {

constexpr Duration query_patience = 1h;

// A compact hash: one million take 32 MB.
using Digest = std::array<std::uint8_t, 32>;

Digest digest_of(std::string_view hash) {
  const auto value = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  Digest digest;
  for (std::size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<std::uint8_t>(value(hash[2 * i]) << 4 | value(hash[2 * i + 1]));
  }
  return digest;
}

core::Task<std::expected<std::vector<Digest>, std::string>> hashes_in_use(sql::Database& database,
                                                                          const std::string& text, bool is_sqlite,
                                                                          Instant deadline) {
  const auto said = [](const sql::Error& error) {
    if (error.sqlstate.empty()) return error.message;
    const std::string hint = error.sqlstate == "42501" ? "; --url names a login with more rights" : "";
    return error.message + " (" + error.sqlstate + ")" + hint;
  };
  auto statement = co_await database.prepare(text, {});
  if (!statement) co_return std::unexpected(said(statement.error()));
  if (statement->columns.size() != 1 || !statement->parameters.empty()) {
    co_return std::unexpected("it must return one column, the hashes, and have no parameters");
  }
  // Rows that row security hides also use files. With this setting PostgreSQL fails instead of hiding rows.
  std::vector<sql::Setting> settings;
  if (!is_sqlite) settings.push_back({.name = "row_security", .value = "off"});
  auto cursor = co_await database.query(*statement, {}, {.deadline = deadline, .settings = settings});
  if (!cursor) co_return std::unexpected(said(cursor.error()));
  std::vector<Digest> digests;
  for (bool last = false; !last;) {
    const auto block = co_await (*cursor)->next();
    if (!block) co_return std::unexpected(said(block.error()));
    for (std::size_t i = 0; i < block->rows; ++i) {
      const sql::Field& field = block->row(i)[0];
      if (field.is_null()) continue;
      if (!http::is_blob_hash(field.view())) {
        co_return std::unexpected("it returns something that is no hash of a file");
      }
      digests.push_back(digest_of(field.view()));
    }
    last = block->last;
  }
  std::ranges::sort(digests);
  const auto [first, end] = std::ranges::unique(digests);
  digests.erase(first, end);
  co_return digests;
}

}  // namespace

int collect_garbage(const config::Config& config, bool dry_run, const std::string& url, std::FILE* out,
                    std::FILE* errors) {
  if (!url.empty() && config.options.databases.size() > 1) {
    fmt::print(errors, "sluice: --url is for a configuration with one database\n");
    return exit_usage;
  }
  Loop loop;
  int code = exit_ok;
  std::size_t looked_at = 0;
  for (const auto& [name, store] : config.options.stores) {
    const auto failed = [&](const std::string& why) {
      fmt::print(errors, "sluice: store {}: {}; nothing is removed\n", name.value, why);
      code = exit_failure;
    };
    if (store.used.value.empty()) {
      fmt::print(errors, "sluice: store {}: there is no \"used\" that says what is in use; it is left alone\n",
                 name.value);
      continue;
    }
    ++looked_at;
    // Files sent after this point are younger than `grace`, so they are kept even if no row refers to them yet.
    const std::int64_t sent_before =
        std::time(nullptr) - std::chrono::duration_cast<std::chrono::seconds>(store.grace).count();
    const auto database = std::ranges::find(config.options.databases, store.database.value,
                                            [](const auto& one) -> const std::string& { return one.name.value; });
    sql::DatabaseOptions options = database->value;
    if (!url.empty()) {
      options.url.value = url;
      options.folder.clear();
    }
    auto opened = sql::open_database(options, *loop.reactor, loop.mailbox, loop.threads, nullptr);
    if (!opened) {
      failed(opened.error().message);
      continue;
    }
    const auto used =
        loop.run(hashes_in_use(**opened, store.used.value, options.is_sqlite(), loop.reactor->now() + query_patience));
    if (!used) {
      failed("\"used\": " + used.error());
      continue;
    }
    if (!std::filesystem::exists(store.path.value)) {
      fmt::print(out, "store {}: there are no files\n", name.value);
      continue;
    }
    const auto folder = files::BlobFolder::open(store.path.value);
    if (!dry_run) folder->remove_leftovers();
    const auto sweep =
        folder->sweep([&](std::string_view hash) { return std::ranges::binary_search(*used, digest_of(hash)); },
                      sent_before, !dry_run);
    if (!sweep) {
      fmt::print(errors, "sluice: store {}: {}\n", name.value, std::generic_category().message(sweep.error()));
      code = exit_failure;
      continue;
    }
    fmt::print(out, "store {}: {} files, {} in use, {} unused and younger than {}, {} {} ({} bytes)\n", name.value,
               sweep->files, sweep->used, sweep->young, config::format_duration(store.grace), sweep->removed,
               dry_run ? "would be removed" : "removed", sweep->removed_bytes);
    if (used->size() > sweep->used) {
      fmt::print(errors, "sluice: store {}: {} files are in use, and missing\n", name.value,
                 used->size() - sweep->used);
      code = exit_failure;
    }
  }
  if (looked_at == 0) {
    fmt::print(errors, "sluice: no [store.NAME] has \"used\"\n");
    return exit_configuration;
  }
  return code;
}

}  // namespace sluice::app
