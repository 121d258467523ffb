// Search as you type, and home: the same box, with what is new below it. Without a question, the newest memories are listed. On a
// wide screen the selected memory is shown beside the list.

import { html, lazy, useState, useEffect, useRef, useLoad, useKeys, LongList, Chip, Day, Icon, Inline, Notice, ErrorNotice, RelevanceBar, Type, splitTitle, isTime, memoryId, typeName, visible, inlineText, baseName, shortId } from "../ui.js";
import { call, revision, project, session } from "../api.js";
import { route, refine, go, enter, address, everywhere } from "../state.js";
import { t } from "../texts.js";

const Home = lazy(() => import("./home.js"));
const memoryView = () => import("./memory.js");
const MemoryCard = lazy(memoryView, "MemoryCard");
const ROW_HEIGHT = 44, MATCH_HEIGHT = 62; // as in style.css
const FIRST_LIST = 50;
const MAX_HITS = 60;
const MAX_LIST = 20000;
const PREVIEW_MS = 150;
const LEAD_LETTERS = 30; // shown before the first match of a line
const SEEN_LETTERS = 45; // of a title, also in a narrow list
const paletteKey = `${navigator.platform?.startsWith("Mac") ? "⌘" : "Ctrl"} K`;

// As many hits as the window shows: each costs time, and more are loaded when the list is scrolled.
const firstHits = () => Math.min(MAX_HITS, Math.max(12, Math.ceil(innerHeight / MATCH_HEIGHT) + 4));

// The server finishes a search also if nobody waits for it any more. So one search runs at a time; when it ends, the newest
// text is searched for, and those typed in between never are.
let running = null;
async function inTurn(work, abort) {
  while (running) {
    await running.catch(() => {});
    abort.throwIfAborted();
  }
  running = work();
  try {
    return await running;
  } finally {
    running = null;
  }
}

// The value that has not changed for a while.
function useSettled(value, key, delay) {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), settled ? delay : 0);
    return () => clearTimeout(timer);
  }, [key]);
  return settled;
}

function filters(query) {
  return {
    types: query.type ? query.type.split(",") : [],
    tags: query.tag ? query.tag.split(",") : [],
    since: query.since || null,
    projects: query.in !== undefined ? [query.in] : null,
    all_projects: everywhere.value,
    include_superseded: query.old === "1",
    include_expired: query.old === "1",
  };
}

async function find(query, limit, k, abort) {
  const text = (query.q || "").trim();
  const from = performance.now();
  if (text) {
    const reply = await inTurn(() => call("memory.search", { query: text, k, explain: true, token_budget: 0, ...filters(query) }), abort);
    return { question: text, ...reply, more: reply.hits.length >= k, took: performance.now() - from };
  }
  const reply = await call("memory.list", { limit, due: query.due === "1", ...filters(query) }, abort);
  return { question: "", hits: reply.memories, notes: reply.notes, more: reply.more, listed: true, took: performance.now() - from };
}

const timeUnderstood = (hits) => {
  for (const hit of hits) {
    const part = (hit.explanation || []).find(({ name }) => name === "time");
    if (part) return part.note.split(";")[0];
  }
  return "";
};

export default function Search() {
  const { query, view } = route.value;
  const text = query.q || "";
  const home = view !== "search" && !text;
  const [limit, setLimit] = useState(FIRST_LIST);
  const [k, setK] = useState(firstHits);
  const [selected, setSelected] = useState(0);
  const input = useRef(null);
  const { data: found, error, loading } = useLoad((abort) => (home ? null : find(query, limit, k, abort)), [home, JSON.stringify(query), limit, k, everywhere.value, project.value, revision.value.memories]);
  const data = home ? null : found;
  const narrowed = query.type || query.tag || query.since || query.due || query.in !== undefined;
  const counted = Boolean(data?.listed && data.more && !narrowed);
  const { data: stats } = useLoad((abort) => (counted ? call("memory.stats", {}, abort) : null), [counted, project.value, revision.value.memories]);
  const all = counted && stats ? (everywhere.value ? stats.chunks : stats.project.coverage.chunks) : 0;
  const [unfolded, setUnfolded] = useState("");
  const folded = Boolean(data?.nothing_relevant && data.hits.length && unfolded !== data.question);
  const hits = (!folded && data?.hits) || [];
  useEffect(() => { setSelected(0); setK(firstHits()); }, [query.q, query.type, query.tag, query.since]);
  useEffect(() => input.current?.focus(), [home]);
  const at = Math.min(selected, hits.length - 1);
  const hit = hits[at];
  const more = () => (data.listed ? setLimit(Math.min(MAX_LIST, limit * 5)) : setK(MAX_HITS));
  const shown = useSettled(hit && { hit, listed: data.listed, question: query.q }, `${hit?.id} ${data?.question}`, PREVIEW_MS);
  const open = (index) => hits[index] && go("memory", [memoryId(hits[index])], query.q ? { q: query.q } : {});
  const move = (step) => setSelected(Math.max(0, Math.min(hits.length - 1, at + step)));
  useKeys({
    "/": () => input.current.focus(),
    j: () => move(1),
    k: () => move(-1),
    ArrowDown: () => move(1),
    ArrowUp: () => move(-1),
    Enter: () => open(at),
    x: () => hit && memoryView().then(({ deleteMemory }) => deleteMemory(hit)),
    e: () => hit && go("memory", [memoryId(hit)], { do: "edit", q: query.q }),
    s: () => hit && go("memory", [memoryId(hit)], { do: "supersede", q: query.q }),
    Escape: () => (query.q ? refine({ q: "" }) : go("home")),
  });
  const write = (event) => (view === "search" ? refine({ q: event.target.value }) : enter("search", [], { q: event.target.value }));
  const typed = (event) => {
    if (event.key === "ArrowDown" || event.key === "Escape") { event.target.blur(); event.preventDefault(); }
    if (event.key === "Enter") { event.preventDefault(); event.target.blur(); if (!loading) open(at); }
  };
  const time = data && !data.listed ? timeUnderstood(hits) : "";
  const notes = data?.notes || [];
  return html`<div class="search ${home ? "home" : hits.length ? "" : "empty"}">
    <h1 class=${home ? "" : "sr-only"}>${home ? html`${t.home.title} <span>${new Date().toLocaleDateString("en-GB", { weekday: "long", day: "numeric", month: "long" })}</span>` : t.nav.search}</h1>
    ${home && html`<p class="muted small">${t.home.intro}</p>`}
    <header class="search-head">
      <div class="search-box"><${Icon} name="search" /><input ref=${input} type="search" value=${text} placeholder=${t.search.placeholder} aria-label=${t.search.label}
        autocomplete="off" spellcheck=${false} maxlength="2000" onInput=${write} onKeyDown=${typed} /><kbd>${home ? paletteKey : "/"}</kbd></div>
      ${home ? html`<${Lists} />` : html`<${FilterRow} query=${query} time=${time} />`}
    </header>
    ${home ? html`<${Home} />` : html`<div class="columns">
      <section class="results" data-question=${data?.question} aria-label=${data?.listed ? t.search.recent : t.search.results}>
        ${error && html`<${ErrorNotice} error=${error} />`}
        ${data?.nothing_relevant && data.hits.length > 0 && html`<${Notice} kind="calm" title=${data.nothing_relevant}><p>${t.search.weakWhy}</p>
          ${folded && html`<button type="button" class="unfold" onClick=${() => setUnfolded(data.question)}>${t.search.unfold(data.hits.length)}</button>`}<//>`}
        ${notes.filter((note) => !hits.length || !isCoverage(note)).map((note) => html`<${Notice}><${Note} text=${note} /><//>`)}
        ${data && !folded && !hits.length && !notes.length && html`<${Notice} kind="calm" title=${data.listed ? "" : t.search.nothing}><p>${data.listed ? t.search.emptyStore : t.search.weakWhy}</p><//>`}
        ${hits.length > 0 ? html`<${LongList} items=${hits} heightOf=${heightOf} selected=${at} label=${data.listed ? t.search.recent : t.search.results}
          onSelect=${(index) => { setSelected(index); if (!matchMedia("(min-width: 1020px)").matches) open(index); }} onOpen=${open}
          onEnd=${data.more && (data.listed ? limit < MAX_LIST : k < MAX_HITS) ? more : null}
          Row=${Hit} />` : html`<span class="grow"></span>`}
        ${hits.length > 0 && notes.filter(isCoverage).map((note) => html`<p class="results-foot muted"><span title=${visible(note)}>${visible(note.replace("chunks", "sections").split(";")[0])}</span></p>`)}
        <footer class="results-foot muted"><span class="count" aria-live="polite">${data ? countOf(data, hits, { folded, all }) : t.loading}</span>${loading && data ? html`<span class="busy">…</span>` : ""}
          ${hits.length > 0 && !data.listed && html`<span class="legend-line"><i class="relevance-key"></i>${t.search.legend}</span>`}</footer>
      </section>
      <section class="preview" aria-label=${t.memory}>
        ${hit && shown ? html`<${MemoryCard} id=${memoryId(shown.hit)} hit=${shown.listed ? null : shown.hit} question=${shown.question} />` : html`<p class="muted hint">${t.search.pick}</p>`}
      </section>
    </div>`}
  </div>`;
}

const isCoverage = (note) => /^[\d,]+ of [\d,]+ chunks have|^vectors are being/.test(note);

function Note({ text }) {
  const [id] = text.match(/^[0-9a-f]{16}\b/) || [""];
  return html`${id && html`<a class="mono" href=${address("memory", [id])}>${shortId(id)}</a>`}${visible(text.slice(id.length))}`;
}

// How many there are, of how many, and how long it took.
function countOf({ listed, more, took, coverage }, hits, { folded, all }) {
  if (listed) return more ? t.search.listedOf(hits.length, all) : t.search.listed(hits.length);
  return `${folded ? t.search.folded : t.search.hits(hits.length, more)} ${t.search.searched(coverage?.chunks || 0, took)}`;
}

// Lists to choose instead of a question.
function Lists() {
  const types = ["decision", "correction", "preference", "lesson"];
  return html`<nav class="lists" aria-label=${t.home.lists}><a href=${address("search")}>${t.search.recent}</a>
    ${types.map((type) => html`<a href=${address("search", [], { type })}>${t.home.types[type]}</a>`)}</nav>`;
}

function FilterRow({ query, time }) {
  const active = [
    ...(query.type ? query.type.split(",").map((type) => ["type", type]) : []),
    ...(query.tag ? query.tag.split(",").map((tag) => ["tag", tag]) : []),
    ...(query.in !== undefined ? [["in", query.in]] : []),
    ...(query.due ? [["due", t.search.due]] : []),
  ];
  const remove = (name, value) => refine({ [name]: name === "in" || name === "due" ? undefined : (query[name] || "").split(",").filter((each) => each !== value).join(",") });
  return html`<div class="filters">
    <label class="inline"><span class="sr-only">${t.search.timeLabel}</span><select value=${query.since || ""} onChange=${(event) => refine({ since: event.target.value })}>
      ${Object.entries(t.search.time).map(([value, label]) => html`<option value=${value}>${label}</option>`)}</select></label>
    <label class="inline"><input type="checkbox" checked=${query.old === "1"} onChange=${(event) => refine({ old: event.target.checked ? "1" : "" })} /> ${t.search.includeOld}</label>
    ${active.map(([name, value]) => html`<button type="button" class="chip active" title=${t.search.remove(value)} aria-label=${t.search.remove(value)} onClick=${() => remove(name, value)}>
      ${name === "tag" ? "#" : ""}${name === "in" ? baseName(value) : name === "type" ? typeName(value) : visible(value)} <${Icon} name="close" /></button>`)}
    ${time && html`<span class="chip understood" title=${t.search.understood(time)}><${Icon} name="timeline" /> ${visible(time)}</span>`}
  </div>`;
}

const addTo = (list, value) => [...new Set([...(list ? list.split(",") : []), value])].join(",");

// The lines of a row: the title with what matched in it, and below it the matched line if that is another, or what is true now. A title with a match
// near its end has two lines.
const lines = new WeakMap();

function linesOf(hit) {
  if (!lines.has(hit)) lines.set(hit, readLines(hit));
  return lines.get(hit);
}

// A line below the title, or a second one of it; without a match or a successor there is neither, and 10,000 texts need not be read for their heights.
const heightOf = (hit) => ((hit.matches?.length || hit.lifecycle?.successor) && (linesOf(hit).below || linesOf(hit).whole) ? MATCH_HEIGHT : ROW_HEIGHT);

function readLines(hit) {
  const { title } = splitTitle(hit.content, hit.heading);
  const letters = [...(hit.snippet || "")];
  const matches = hit.matches || [];
  const words = [...new Set(matches.map(([from, to]) => letters.slice(from, to).join("").toLowerCase()))];
  const lower = title.toLowerCase();
  const spans = words.flatMap((word) => [...lower.matchAll(new RegExp(`(?<![\\p{L}\\p{N}])${RegExp.escape?.(word) ?? word.replace(/[^\p{L}\p{N}]/gu, "\\$&")}`, "gu"))].map(({ index }) => [[...lower.slice(0, index)].length, [...lower.slice(0, index + word.length)].length]));
  spans.sort(([a], [b]) => a - b);
  const below = hit.lifecycle?.successor ? { now: hit.lifecycle.successor } : words.some((word) => !lower.includes(word)) ? matchLine(letters, matches, title) : null;
  return { title: title || hit.heading || baseName(hit.source), spans, below, whole: !below && spans.at(-1)?.[1] > SEEN_LETTERS };
}

// The part of the snippet that has a match which the title does not show, from a little before it.
function matchLine(letters, matches, title) {
  const text = letters.join("");
  const at = title ? text.indexOf(title) : -1;
  const after = at < 0 ? 0 : [...text.slice(0, at + title.length)].length;
  const first = matches.find(([from]) => from >= after);
  if (!first) return null;
  let from = after;
  if (first[0] - from > LEAD_LETTERS) from = letters.indexOf(" ", first[0] - LEAD_LETTERS) + 1 || from;
  if (from > first[0]) from = first[0];
  const cut = from > after ? 1 : 0;
  return { text: (cut ? "…" : "") + letters.slice(from).join(""), spans: matches.filter(([start]) => start >= from).map(([start, end]) => [start - from + cut, end - from + cut]) };
}

function Hit({ item: hit }) {
  const { title, spans, below, whole } = linesOf(hit);
  const heading = isTime(hit.heading) || hit.heading === title ? "" : hit.heading;
  const stale = ["drifted", "gone"].includes(hit.freshness?.verdict);
  const base = project.value || session.value?.project || "";
  const file = `${hit.source}:${hit.start_line}`;
  return html`<div class="hit ${hit.lifecycle?.superseded_by || hit.lifecycle?.expired ? "old" : ""} ${hit.confidence === "weak" ? "weak" : ""}">
    <p class="hit-title ${whole ? "whole" : "cut"}" dir="auto" title=${inlineText(title)}><${Inline} text=${title} spans=${spans} /></p>
    ${below && html`<p class="hit-below cut" dir="auto">${below.now ? html`${t.search.now} <${Inline} text=${below.now} />` : html`<${Inline} text=${below.text} spans=${below.spans} />`}</p>`}
    <div class="hit-foot">
      ${hit.relevance !== undefined && html`<${RelevanceBar} relevance=${hit.relevance} />`}
      <${Type} type=${hit.type} title=${t.search.onlyType(hit.type)} onClick=${() => refine({ type: addTo(route.value.query.type, hit.type) })} />
      <span class="place" title=${visible(file)}>${visible(baseName(hit.source))}${heading && html` <${Icon} name="next" />${visible(heading)}`}</span>
      ${hit.date && html`<${Day} date=${hit.date} />`}
      ${stale && html`<${Chip} kind="warn" title=${(hit.freshness.findings || []).map((each) => `${visible(each.name)} ${visible(each.change)}`).join("\n")}>${t.card.fresh[hit.freshness.verdict] || hit.freshness.verdict}<//>`}
      ${hit.trust && hit.trust.tier !== "semantic_candidate" && html`<${Chip} kind="trust" title=${visible(hit.trust.reason)}>${t.tiers[hit.trust.tier] || hit.trust.tier}<//>`}
      ${hit.project !== base && html`<${Chip} title=${t.search.onlyProject(hit.project || t.everywhere)} onClick=${() => refine({ in: hit.project })}>${visible(baseName(hit.project))}<//>`}
      ${hit.tags.slice(0, 3).map((tag) => html`<${Chip} kind="tag" title=${t.search.onlyTag(tag)} onClick=${() => refine({ tag: addTo(route.value.query.tag, tag) })}>#${visible(tag)}<//>`)}
    </div>
  </div>`;
}
