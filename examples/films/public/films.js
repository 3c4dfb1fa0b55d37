"use strict";

const byId = (id) => document.getElementById(id);
const form = byId("search-form");
const sorting = document.querySelectorAll("[data-sort]");
let loading; // aborts the list that is being read
let shown = {}; // the parts of the address that the page shows

async function get(path, signal) {
  const response = await fetch(path, { headers: { Accept: "application/json" }, signal });
  if (!response.ok) {
    const problem = await response.json().catch(() => ({}));
    throw new Error(problem.detail || problem.title || `The server answered ${response.status}`);
  }
  return response;
}
const getJson = async (path) => (await get(path)).json();

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

// The query of the page's address is that of /films. This is the query of the first page with other conditions or another order.
function queryWith(changes) {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries({ ...changes, after: "", before: "", offset: "" })) {
    if (value) query.set(name, value);
    else query.delete(name);
  }
  // A film without a popularity would be the most popular one.
  if (query.get("popularity") === "is.not_null") query.delete("popularity");
  if (query.get("sort")?.endsWith("popularity") && !query.has("popularity")) query.set("popularity", "is.not_null");
  return `?${query}`;
}

// The address of each page that `Link` names; the page always asks for the count.
function pagesOf(response) {
  const links = (response.headers.get("Link") ?? "").matchAll(/<([^>]*)>; rel="(\w+)"/g);
  return Object.fromEntries([...links].map(([, reference, relation]) => {
    const query = new URL(reference, response.url).searchParams;
    query.delete("count");
    return [relation, `?${query}`];
  }));
}

function showPages(pages) {
  if (!pages.prev) delete pages.first;
  for (const link of document.querySelectorAll(".pages a")) {
    if (pages[link.rel]) link.href = pages[link.rel];
    else link.removeAttribute("href");
  }
}

function showConditions() {
  const query = new URLSearchParams(location.search);
  form.q.value = query.get("q") ?? "";
  form.adult.value = query.get("adult") ?? "";
  form.least.value = query.get("popularity")?.replace(/^gte\./, "") ?? ""; // a number field drops all else
  for (const link of sorting) {
    const column = link.dataset.sort;
    const order = { [column]: "ascending", [`-${column}`]: "descending" }[query.get("sort")];
    link.closest("th").ariaSort = order ?? null;
    link.href = queryWith({ sort: order === "ascending" ? `-${column}` : column });
  }
}

async function showList() {
  loading?.abort();
  loading = new AbortController();
  const { signal } = loading;
  showConditions();
  byId("films").ariaBusy = "true";
  const query = new URLSearchParams(location.search);
  query.set("count", "exact");
  let films = [], pages = {}, status;
  try {
    const response = await get(`films?${query}`, signal);
    films = await response.json();
    pages = pagesOf(response);
    const total = Number(response.headers.get("X-Total-Count"));
    status = total === 1 ? "1 film" : `${total.toLocaleString("en")} films`;
  } catch (error) {
    status = error.message;
  }
  if (signal.aborted) return;
  byId("films").replaceChildren(...films.map(filmRow));
  byId("films").ariaBusy = "false";
  byId("search-status").textContent = status;
  showPages(pages);
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

function show() {
  const { search, hash } = location;
  const film = hash.match(/^#film\/(.+)$/);
  if (!film) byId("film").hidden = true;
  if (search !== shown.search) showList();
  if (film && hash !== shown.hash) showFilm(decodeURIComponent(film[1]));
  shown = { search, hash };
}

function go(query) {
  if (query.slice(1) !== location.search.slice(1)) history.pushState(null, "", query + location.hash);
  delete shown.search; // the same list is loaded again
  show();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const least = form.least.value;
  go(queryWith({ q: form.q.value.trim(), adult: form.adult.value, popularity: least && `gte.${least}` }));
});
form.adult.addEventListener("change", () => form.requestSubmit());
byId("search").addEventListener("click", (event) => {
  const link = event.target.closest('a[href^="?"]');
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go(link.getAttribute("href"));
});
window.addEventListener("popstate", show);
show();
