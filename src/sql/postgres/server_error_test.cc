#include "sql/postgres/server_error.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace sluice::sql::postgres {
namespace {

std::uint32_t parameter_of(std::string_view context) {
  const ServerError error({.severity = "ERROR", .sqlstate = "22P02", .message = "invalid", .where = context});
  return error.rule ? error.rule->parameter : 0;
}

// PostgreSQL's translations: en, de, es, fr, it, ja, ka, ko, ru, sv, uk.
constexpr std::array parameters{
    "unnamed portal parameter $12",       "unbenanntes Portal Parameter $12", "portal sin nombre, parámetro 12",
    "paramètre de portail non nommé $12", "parametro portale senza nome $12", "無名ポータルパラメータ $12",
    "უსახელო პორტალის პარამეტრი $12",     "이름없는 포탈 $12 매개 변수",      "неименованный портал, параметр $12",
    "ej namngiven portalparameter $12",   "параметр порталу без назви $12",
};

TEST(ServerError, FindsTheParameterInEveryLanguage) {
  for (const std::string context : parameters) {
    EXPECT_EQ(parameter_of(context), 12u) << context;
    EXPECT_EQ(parameter_of(context + " = 'costs $3'"), 12u) << context;
    EXPECT_EQ(parameter_of("JSON-Daten, Zeile 1: {\"a\": $4\n" + context), 12u) << context;
  }
}

TEST(ServerError, TakesNoOtherNumberForAParameter) {
  for (const char* const context : {
           "",
           "JSON data, line 1: {\"cost\":\"$2",
           "Datos JSON, línea 1: {\"parámetro 2",
           "SQL-Anweisung »SELECT $2«",
           "instruction SQL « SELECT $2 »",
           "SQL statement \"SELECT $2\"\nPL/pgSQL function f(integer) line 3 at RAISE",
           "unnamed portal with parameters: $1 = 'x', $2 = 'y'",
           "portal sin nombre con parámetros: $1 = 'x', $2 = 'y'",
           "función SQL «f» en la sentencia 2",
           "COPY sluice_stage, línea 3",
       }) {
    EXPECT_EQ(parameter_of(context), 0u) << context;
  }
}

TEST(StagedPlace, IsFoundInEveryLanguage) {
  const std::vector<std::string> columns{"name", "score", "first name"};
  for (const auto& [before, between, after] : {
           std::array<std::string, 3>{"COPY sluice_stage, line ", ", column ", ": \"name 4\""},
           {"COPY sluice_stage, Zeile ", ", Spalte ", ": »name 4«"},
           {"COPY sluice_stage, línea ", ", columna ", ": entrada nula"},
           {"COPY sluice_stage, ligne ", ", colonne ", " : « name 4 »"},
           {"sluice_stageのCOPY、行 ", "、列 ", ": \"name 4\""},
           {"COPY sluice_stage, ხაზი ", ", სვეტი ", ": \"name 4\""},
           {"sluice_stage 복사, ", "번째 줄, ", " 열: \"name 4\""},
           {"COPY sluice_stage, ", "행, ", " 열: null 입력"},
           {"COPY sluice_stage, строка ", ", столбец ", ": \"name 4\""},
           {"COPY sluice_stage, 行 ", ", 列 ", ": \"name 4\""},
       }) {
    for (const std::string& column : columns) {
      std::string context = before;
      context.append("31").append(between).append(column).append(after);
      for (const std::string inner : {"", "JSON-Daten, Zeile 7: {\"COPY sluice_stage, line 9, column name\n"}) {
        const StagedPlace place = staged_place(inner + context + "\nCOPY sluice_stage, line 8, column name", columns);
        EXPECT_EQ(place.line, 31u) << context;
        EXPECT_EQ(place.column, column) << context;
      }
    }
    const StagedPlace row = staged_place(before + "31: \"name\tscore\"", columns);
    EXPECT_EQ(row.line, 31u) << before;
    EXPECT_EQ(row.column, "") << before;
  }
  // A column may have the same name as the word for it.
  EXPECT_EQ(
      staged_place("COPY sluice_stage, Zeile 1, Spalte note: 1", std::vector<std::string>{"Spalte", "note"}).column,
      "note");
  EXPECT_EQ(staged_place("COPY films, line 3, column name: 1", columns).line, 0u);
  EXPECT_EQ(staged_place("", columns).line, 0u);
}

}  // namespace
}  // namespace sluice::sql::postgres
