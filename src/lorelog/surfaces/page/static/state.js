// The address of what is shown, and what a person chose for this browser.

import { signal, effect } from "./vendor/signals.js";
import { project } from "./api.js";

export const route = signal(read());
export const theme = signal(load("theme", "system")); // system, light, dark
export const everywhere = signal(load("everywhere", "") === "yes"); // all projects, not only the shown one
export const toast = signal(null); // { text, undo }
export const waiting = signal({ data: null, error: null }); // the inbox: how much waits, and the first of it
export const openMemory = signal(null); // the memory that is shown, as the palette needs it: { title, verbs: [{ name, key, icon, act }] }

function load(name, initial) {
  try {
    return localStorage.getItem(`lorelog.${name}`) || initial;
  } catch {
    return initial;
  }
}

function keep(name, value) {
  try {
    localStorage.setItem(`lorelog.${name}`, value);
  } catch {
    // A browser may forbid it; the choice then lasts as long as the tab.
  }
}

effect(() => keep("everywhere", everywhere.value ? "yes" : "no"));
effect(() => {
  keep("theme", theme.value);
  document.documentElement.dataset.theme = theme.value;
});

// "#/memory/ID?project=…" is the view `memory` with the path ["ID"] and the query.
function read() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  const query = Object.fromEntries(new URLSearchParams(search));
  if (query.project !== undefined) {
    project.value = query.project;
    delete query.project;
    try {
      sessionStorage.setItem("lorelog.project", project.value);
    } catch {
      // as above
    }
  }
  return { view: parts[0] || "home", path: parts.slice(1), query };
}

try {
  project.value ||= sessionStorage.getItem("lorelog.project") || "";
} catch {
  // as above
}

addEventListener("hashchange", () => {
  route.value = read();
});

export function address(view, path = [], query = {}) {
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value != null)).toString();
  return `#/${[view, ...path].map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

// The inbox is a part of the view told.
export const placeOf = (name) => (name === "inbox" ? ["told", [name]] : [name]);

export const go = (view, path, query) => {
  location.hash = address(view, path, query);
};

// The same at once, without waiting for the browser's event: the next letter that is typed belongs to the new view.
export function enter(view, path = [], query = {}) {
  history.pushState(null, "", address(view, path, query));
  route.value = { view, path, query };
}

// Change the query of the shown view without a new entry in the history: for what changes with every key.
export function refine(query) {
  const next = { ...route.value.query, ...query };
  for (const name of Object.keys(next)) if (next[name] === "" || next[name] == null) delete next[name];
  route.value = { ...route.value, query: next };
  history.replaceState(null, "", address(route.value.view, route.value.path, next)); // last: Safari throws after 100 calls in 10 s
}

let timer = 0;
export function say(text, undo = null) {
  clearTimeout(timer);
  toast.value = { text, undo };
  timer = setTimeout(() => {
    toast.value = null;
  }, undo ? 10000 : 4000);
}
