// Search as you type. Without a question, the newest memories. On a wide screen the selected memory is shown beside the list.

import { html, useState, useEffect, useRef, useLoad, useKeys, LongList, Chip, Notice, ErrorNotice, ScoreBar, Inline, visible, showDate, baseName, shortPath } from "../ui.js";
import { call, revision, project, session } from "../api.js";
import { route, refine, go, everywhere } from "../state.js";
import { t } from "../texts.js";
import { MemoryCard, deleteMemory, memoryId } from "./memory.js";

const ROW_HEIGHT = 88;
const FIRST_LIST = 50;
const MAX_HITS = 60;
const MAX_LIST = 20000;
const PREVIEW_MS = 150;

// As many hits as the window shows: each costs time, and more are loaded when the list is scrolled.
const firstHits = () => Math.min(MAX_HITS, Math.max(12, Math.ceil(innerHeight / ROW_HEIGHT) + 4));

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
  if (text) {
    const reply = await inTurn(() => call("memory.search", { query: text, k, explain: true, token_budget: 0, ...filters(query) }), abort);
    return { question: text, ...reply, more: reply.hits.length >= k };
  }
  const reply = await call("memory.list", { limit, ...filters(query) }, abort);
  return { question: "", hits: reply.memories, notes: reply.notes, more: reply.more, listed: true };
}

const timeUnderstood = (hits) => {
  for (const hit of hits) {
    const part = (hit.explanation || []).find(({ name }) => name === "time");
    if (part) return part.note.split(";")[0];
  }
  return "";
};

export default function Search() {
  const { query } = route.value;
  const text = query.q || "";
  const [limit, setLimit] = useState(FIRST_LIST);
  const [k, setK] = useState(firstHits);
  const [selected, setSelected] = useState(0);
  const input = useRef(null);
  const { data, error, loading } = useLoad((abort) => find(query, limit, k, abort), [JSON.stringify(query), limit, k, everywhere.value, project.value, revision.value.memories]);
  const [unfolded, setUnfolded] = useState("");
  const folded = Boolean(data?.nothing_relevant && data.hits.length && unfolded !== data.question);
  const hits = (!folded && data?.hits) || [];
  useEffect(() => { setSelected(0); setK(firstHits()); }, [query.q, query.type, query.tag, query.since]);
  useEffect(() => input.current?.focus(), []);
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
    x: () => hit && deleteMemory(hit),
    e: () => hit && go("memory", [memoryId(hit)], { do: "edit", q: query.q }),
    s: () => hit && go("memory", [memoryId(hit)], { do: "supersede", q: query.q }),
    Escape: () => refine({ q: "" }),
  });
  const typed = (event) => {
    if (event.key === "ArrowDown" || (event.key === "Escape")) { event.target.blur(); event.preventDefault(); }
    if (event.key === "Enter") { event.preventDefault(); event.target.blur(); if (!loading) open(at); }
  };
  const time = data?.listed ? "" : timeUnderstood(hits);
  const notes = data?.notes || [];
  const count = () => (data.listed ? t.search.listed(hits.length, data.more) : folded ? "" : t.search.hits(hits.length, data.more));
  return html`<div class="search ${hits.length ? "" : "empty"}">
    <h1 class="sr-only">${t.nav.search}</h1>
    <header class="search-head">
      <div class="search-box"><input ref=${input} type="search" value=${text} placeholder=${t.search.placeholder} aria-label=${t.search.label}
        autocomplete="off" spellcheck=${false} maxlength="2000" onInput=${(event) => refine({ q: event.target.value })} onKeyDown=${typed} /><kbd>/</kbd></div>
      <${FilterRow} query=${query} time=${time} />
    </header>
    <div class="columns">
      <section class="results" data-question=${data?.question} aria-label=${data?.listed ? t.search.recent : t.search.results}>
        <p class="count muted" aria-live="polite">${data ? count() : t.loading}${loading && data ? html` <span class="busy">…</span>` : ""}</p>
        ${error && html`<${ErrorNotice} error=${error} />`}
        ${data?.nothing_relevant && data.hits.length > 0 && html`<${Notice} kind="calm" title=${data.nothing_relevant}><p>${t.search.weakWhy}</p>
          ${folded && html`<button type="button" class="unfold" onClick=${() => setUnfolded(data.question)}>${t.search.unfold(data.hits.length)}</button>`}<//>`}
        ${notes.map((note) => html`<${Notice}>${visible(note)}<//>`)}
        ${data && !folded && !hits.length && !notes.length && html`<${Notice} kind="calm" title=${data.listed ? "" : t.search.nothing}><p>${data.listed ? t.search.emptyStore : t.search.weakWhy}</p><//>`}
        ${hits.length > 0 && html`<${LongList} items=${hits} rowHeight=${ROW_HEIGHT} selected=${at} label=${data.listed ? t.search.recent : t.search.results}
          onSelect=${(index) => { setSelected(index); if (!matchMedia("(min-width: 1020px)").matches) open(index); }} onOpen=${open}
          onEnd=${data.more && (data.listed ? limit < MAX_LIST : k < MAX_HITS) ? more : null}
          Row=${({ item }) => html`<${Hit} hit=${item} />`} />`}
      </section>
      <section class="preview" aria-label=${t.memory}>
        ${hit && shown ? html`<${MemoryCard} key=${memoryId(shown.hit)} id=${memoryId(shown.hit)} hit=${shown.listed ? null : shown.hit} question=${shown.question} />` : html`<p class="muted hint">${t.search.pick}</p>`}
      </section>
    </div>
  </div>`;
}

function FilterRow({ query, time }) {
  const active = [
    ...(query.type ? query.type.split(",").map((type) => ["type", type]) : []),
    ...(query.tag ? query.tag.split(",").map((tag) => ["tag", tag]) : []),
    ...(query.in !== undefined ? [["in", query.in]] : []),
  ];
  const remove = (name, value) => refine({ [name]: name === "in" ? undefined : (query[name] || "").split(",").filter((each) => each !== value).join(",") });
  return html`<div class="filters">
    <label class="inline"><span class="sr-only">${t.search.timeLabel}</span><select value=${query.since || ""} onChange=${(event) => refine({ since: event.target.value })}>
      ${Object.entries(t.search.time).map(([value, label]) => html`<option value=${value}>${label}</option>`)}</select></label>
    <label class="inline"><input type="checkbox" checked=${query.old === "1"} onChange=${(event) => refine({ old: event.target.checked ? "1" : "" })} /> ${t.search.includeOld}</label>
    ${active.map(([name, value]) => html`<button type="button" class="chip active" title=${t.search.remove(value)} aria-label=${t.search.remove(value)} onClick=${() => remove(name, value)}>
      ${name === "tag" ? "#" : ""}${name === "in" ? baseName(value) : visible(value)} ✕</button>`)}
    ${time && html`<span class="chip understood" title=${t.search.understood(time)}>◷ ${visible(time)}</span>`}
  </div>`;
}

const addTo = (list, value) => [...new Set([...(list ? list.split(",") : []), value])].join(",");

function firstLine(content) {
  const lines = content.replace(/<!--[\s\S]*?-->/g, "").split("\n").filter((line) => line.trim() && !line.startsWith("#"));
  return lines.join(" ").replace(/(^|\s)[-*] /g, "$1").replace(/[`*]/g, "").slice(0, 320);
}

function Hit({ hit }) {
  const heading = /^\d\d:\d\d/.test(hit.heading) ? "" : hit.heading;
  const stale = ["drifted", "gone"].includes(hit.freshness?.verdict);
  const base = project.value || session.value?.project || "";
  return html`<div class="hit ${hit.lifecycle?.superseded_by || hit.lifecycle?.expired ? "old" : ""}">
    <div class="hit-head">
      ${hit.type && html`<${Chip} kind="type" title=${t.search.onlyType(hit.type)} onClick=${() => refine({ type: addTo(route.value.query.type, hit.type) })}>${visible(hit.type)}<//>`}
      ${heading && html`<strong class="cut">${visible(heading)}</strong>`}
      <span class="grow"></span>
      ${stale && html`<${Chip} kind="warn" title=${(hit.freshness.findings || []).map((each) => `${each.name} ${each.change}`).join("\n")}>${t.card.fresh[hit.freshness.verdict] || hit.freshness.verdict}<//>`}
      ${hit.trust && hit.trust.tier !== "semantic_candidate" && html`<${Chip} kind="trust" title=${visible(hit.trust.reason)}>${t.tiers[hit.trust.tier] || hit.trust.tier}<//>`}
      ${hit.confidence && html`<span class="confidence c-${hit.confidence.replace(/\W+/g, "-")}" title=${`${Math.round(hit.relevance * 100)} %`}>${hit.confidence}</span>`}
      <time class="muted">${showDate(hit.date)}</time>
    </div>
    <div><p class="snippet" dir="auto">${hit.snippet !== undefined ? html`<${Inline} text=${hit.snippet} spans=${hit.matches} />` : visible(firstLine(hit.content))}</p>
      ${hit.lifecycle?.successor && html`<p class="successor cut" dir="auto">${t.search.now(visible(hit.lifecycle.successor))}</p>`}</div>
    <div class="hit-foot">
      ${hit.explanation && html`<${ScoreBar} parts=${hit.explanation} score=${hit.score} relevance=${hit.relevance} />`}
      <span class="place cut" title=${`${hit.source}:${hit.start_line}`}>${visible(shortPath(hit.source, hit.project || base))}:${hit.start_line}</span>
      ${hit.project !== base && html`<${Chip} title=${t.search.onlyProject(hit.project || t.everywhere)} onClick=${() => refine({ in: hit.project })}>${visible(baseName(hit.project))}<//>`}
      ${hit.tags.slice(0, 4).map((tag) => html`<${Chip} kind="tag" title=${t.search.onlyTag(tag)} onClick=${() => refine({ tag: addTo(route.value.query.tag, tag) })}>#${visible(tag)}<//>`)}
    </div>
  </div>`;
}
