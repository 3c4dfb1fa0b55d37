"use strict";

const pageSize = 20;
const byId = (id) => document.getElementById(id);
const search = { q: "", offset: 0, controller: null };

async function getJson(path, signal) {
  const response = await fetch(path, { headers: { Accept: "application/json" }, signal });
  if (!response.ok) {
    const problem = await response.json().catch(() => ({}));
    throw new Error(problem.detail || problem.title || `The server answered ${response.status}`);
  }
  return response.json();
}

function element(name, text, attributes = {}) {
  const node = document.createElement(name);
  node.textContent = text;
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

const title = (film) => film.name_en ?? film.slug;

function filmRow(film) {
  const row = document.createElement("tr");
  const cell = document.createElement("td");
  cell.append(element("a", title(film), { href: `#film/${encodeURIComponent(film.slug)}` }));
  row.append(cell);
  row.append(element("td", film.blob.release_date ?? ""));
  row.append(element("td", film.popularity ?? "–", { class: "number" }));
  return row;
}

async function runSearch() {
  search.controller?.abort();
  search.controller = new AbortController();
  const query = new URLSearchParams({ limit: pageSize + 1, offset: search.offset });
  if (search.q) query.set("q", search.q);
  try {
    const found = await getJson(`films?${query}`, search.controller.signal);
    const shown = found.slice(0, pageSize);
    byId("films").replaceChildren(...shown.map(filmRow));
    byId("previous").disabled = search.offset === 0;
    byId("next").disabled = found.length <= pageSize;
    byId("search-status").textContent = shown.length
      ? `Films ${search.offset + 1} to ${search.offset + shown.length}`
      : `No film’s title contains “${search.q}”.`;
  } catch (error) {
    if (error.name !== "AbortError") byId("search-status").textContent = error.message;
  }
}

async function showFilm(slug) {
  const path = `films/${encodeURIComponent(slug)}`;
  const panel = byId("film");
  try {
    const [film, tags] = await Promise.all([getJson(path), getJson(`${path}/tags`)]);
    const about = film.blob;
    const facts = [
      ["Released", about.release_date],
      ["Runtime", about.runtime && `${about.runtime} minutes`],
      ["Genres", about.genres?.join(", ")],
      ["Languages", about.languages?.join(", ")],
      ["Rating", about.rating && `${about.rating.average} (${about.rating.votes} votes)`],
    ];
    byId("film-title").textContent = title(film);
    byId("film-overview").textContent = about.overview ?? "";
    byId("film-facts").replaceChildren(
      ...facts.filter(([, value]) => value).flatMap(([name, value]) => [element("dt", name), element("dd", value)]));
    byId("film-tags").replaceChildren(...tags.map(({ tag }) => element("li", tag)));
    byId("film-json").hidden = false;
    byId("film-json").href = path;
  } catch (error) {
    byId("film-title").textContent = slug;
    byId("film-overview").textContent = error.message;
    byId("film-facts").replaceChildren();
    byId("film-tags").replaceChildren();
    byId("film-json").hidden = true;
  }
  panel.hidden = false;
  panel.focus();
  panel.scrollIntoView({ block: "nearest" });
}

function followHash() {
  const found = location.hash.match(/^#film\/(.+)$/);
  if (found) showFilm(decodeURIComponent(found[1]));
}

byId("search-form").addEventListener("submit", (event) => {
  event.preventDefault();
  search.q = byId("q").value.trim();
  search.offset = 0;
  runSearch();
});
byId("previous").addEventListener("click", () => {
  search.offset = Math.max(0, search.offset - pageSize);
  runSearch();
});
byId("next").addEventListener("click", () => {
  search.offset += pageSize;
  runSearch();
});
window.addEventListener("hashchange", followHash);
runSearch();
followHash();
