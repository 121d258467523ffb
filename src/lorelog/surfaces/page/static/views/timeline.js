// Days and sessions across agents and projects: requests and outcomes. Today changes as turns are captured.

import { html, useState, useLoad, useKeys, Notice, ErrorNotice, Chip, DayName, Inline, Skeleton, Type, splitTitle, visible, baseName, dayName, localTime, shortId, shortPath } from "../ui.js";
import { call, revision, project, session as server } from "../api.js";
import { route, refine, address, go, everywhere } from "../state.js";
import { t } from "../texts.js";

const FIRST = 400;
const MAX = 20000;
const FEW_NOTES = 6;
const USUAL_BRANCHES = new Set(["main", "master"]);

const clock = (at) => (at.includes("T") ? at.split("T")[1].slice(0, 5) : "");
// Move the focus among the entries, as a list of links allows.
function focusEntry(step, selector) {
  const entries = [...document.querySelectorAll(selector)];
  const at = entries.indexOf(document.activeElement);
  const next = entries[Math.max(0, Math.min(entries.length - 1, at < 0 ? 0 : at + step))];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}

export default function Timeline() {
  const { query } = route.value;
  const since = query.since ?? "30d";
  const [limit, setLimit] = useState(FIRST);
  const filters = { limit, all_projects: everywhere.value, ...(query.session ? { session: query.session } : since && since !== "all" ? { since } : {}) };
  const { data, error, loading } = useLoad(
    (abort) => call("session.timeline", filters, abort),
    [JSON.stringify(filters), project.value, revision.value.memories, revision.value.sessions, revision.value.deliveries],
  );
  const { data: status } = useLoad((abort) => call("session.status", {}, abort), [revision.value.sessions]);
  useKeys({ j: () => focusEntry(1, ".tl-link"), k: () => focusEntry(-1, ".tl-link"), Escape: () => (query.session ? go("timeline") : go("search")) });
  const hosts = [...new Set((data?.sessions || []).map(({ host }) => host).filter(Boolean))].sort();
  const shown = (data?.sessions || []).filter(({ host }) => !query.host || host === query.host);
  const days = Object.entries(Object.groupBy(shown, ({ day }) => day));
  return html`<div class="timeline">
    <header class="view-head">
      <h1>${query.session ? t.timeline.one(visible(shortId(query.session))) : t.nav.timeline}</h1>
      ${query.session
        ? html`<a href=${address("timeline")}>← ${t.timeline.all}</a>`
        : html`<label class="inline"><span class="sr-only">${t.timeline.rangeLabel}</span><select value=${since} onChange=${(event) => refine({ since: event.target.value })}>
            ${Object.entries(t.timeline.range).map(([value, label]) => html`<option value=${value || "all"}>${label}</option>`)}</select></label>
          ${hosts.length > 1 && html`<label class="inline"><span class="sr-only">${t.timeline.hosts}</span><select value=${query.host || ""} onChange=${(event) => refine({ host: event.target.value })}>
            <option value="">${t.timeline.allHosts}</option>${hosts.map((host) => html`<option value=${host}>${visible(host)}</option>`)}</select></label>`}`}
      ${status?.waiting > 0 && html`<span class="chip understood">${t.timeline.waiting(status.waiting)}</span>`}
      <span class="muted small" role="status">${data && loading ? t.loading : ""}</span>
    </header>
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${!data && !error && html`<${Skeleton} lines=${10} />`}
    ${data && !days.length && html`<${Notice} kind="calm"><p>${since === "all" ? t.timeline.empty : t.timeline.emptyRange}</p><//>`}
    ${days.map(([day, sessions]) => html`<${Day} key=${day} day=${day} sessions=${sessions} whole=${Boolean(query.session)} />`)}
    ${data?.more && limit < MAX && html`<p><button type="button" onClick=${() => setLimit(Math.min(MAX, limit * 3))}>${t.timeline.older}</button></p>`}
  </div>`;
}

function Day({ day, sessions, whole }) {
  const { near, name } = dayName(day);
  const talks = sessions.filter(({ session }) => session);
  const turns = talks.reduce((sum, { turns: each }) => sum + each.length, 0);
  const notes = sessions.filter(({ session }) => !session).reduce((sum, { notes: each }) => sum + each.length, 0);
  return html`<section class="tl-day" aria-label=${`${near} ${name}`}>
    <h2><${DayName} day=${day} /> <span class="muted">${t.timeline.counts(talks.length, turns, notes)}</span></h2>
    ${[...talks, ...sessions.filter(({ session }) => !session)].map((each) => html`<${Session} key=${`${each.project} ${each.session}`} item=${each} whole=${whole} />`)}
  </section>`;
}

// A prompt that was captured as a correction is one entry: the turn, with the type of the statement.
function mergeEntries({ turns, notes }) {
  const said = (turn) => notes.find((note) => note.at === turn.at && note.text === turn.asked);
  const merged = new Set(turns.map(said));
  return [...turns.map((turn) => ({ ...turn, turn: true, said: said(turn)?.type })), ...notes.filter((note) => !merged.has(note))].sort((a, b) => a.at.localeCompare(b.at) || Number(Boolean(b.turn)) - Number(Boolean(a.turn)));
}

function Session({ item, whole }) {
  const here = project.value || server.value?.project;
  const entries = mergeEntries(item);
  const [all, setAll] = useState(whole || Boolean(item.session));
  const listed = all ? entries : entries.slice(-FEW_NOTES);
  const times = [clock(item.started), clock(item.ended)].filter(Boolean);
  return html`<article class="tl-session ${item.session ? "" : "loose"}">
    <header>
      <time>${times[0] === times[1] ? times[0] || "" : times.join("–")}</time>
      ${item.session
        ? html`<strong>${visible(item.host || "session")}</strong> <a href=${address("timeline", [], { session: item.session })}>${t.told.oneSession} <span class="mono">${visible(shortId(item.session))}</span></a>`
        : html`<strong>${t.timeline.added}</strong>`}
      ${item.branch && !USUAL_BRANCHES.has(item.branch) && html`<${Chip} title=${t.timeline.branch}>${visible(item.branch)}<//>`}
      ${item.project !== here && html`<${Chip} title=${item.project}>${visible(baseName(item.project))}<//>`}
      ${item.deliveries > 0 && html`<a class="small" href=${address("told", [], { session: item.session })}>${t.timeline.shown(item.deliveries, item.tokens)}</a>`}
    </header>
    ${item.session && !entries.length && html`<p class="muted small">${t.timeline.running}</p>`}
    <ol class="tl-entries">
      ${listed.map((entry) => html`<li key=${entry.memory} class=${entry.turn ? "turn-entry" : "note-entry"}>${entry.turn ? html`<${Turn} turn=${entry} />` : html`<${Note} note=${entry} base=${item.project} />`}</li>`)}
    </ol>
    ${listed.length < entries.length && html`<button type="button" class="plain small tl-more" onClick=${() => setAll(true)}>${t.timeline.more(entries.length - listed.length)}</button>`}
  </article>`;
}

// A short request is the title, of a long one the first sentence; the rest of it follows.
function Turn({ turn }) {
  const { title, rest } = splitTitle(`User asked: ${turn.asked}`);
  const more = rest.replace(/^User asked:\s*/, "");
  const lists = [["files", turn.files], ["commands", turn.commands], ["failed", turn.errors]].filter(([, lines]) => lines.length);
  return html`<time class="muted">${clock(turn.at)}</time>
    <div>${turn.said && html`<${Type} type=${turn.said} /> `}<a class="tl-link asked" dir="auto" href=${address("memory", [turn.memory])}><${Inline} text=${title || t.memory} /></a>
      ${more && html`<p class="asked-rest" dir="auto"><${Inline} text=${more} /></p>`}
      ${turn.outcome && html`<p class="outcome" dir="auto"><${Inline} text=${turn.outcome} /></p>`}
      ${turn.ended && html`<p class="failed small">${visible(turn.ended)}</p>`}
      ${lists.length > 0 && html`<details class="tl-details"><summary>${lists.map(([name, lines], index) => html`${index ? " · " : ""}<span class=${name === "failed" ? "failed" : ""}>${t.timeline[name](lines.length)}</span>`)}</summary>
        ${lists.map(([name, lines]) => html`<ul class="plain-list mono ${name === "failed" ? "failed" : ""}" aria-label=${t.timeline[name](lines.length)}>${lines.map((line) => html`<li>${visible(line)}</li>`)}</ul>`)}</details>`}</div>`;
}

function Note({ note, base }) {
  const { title } = splitTitle(note.text);
  return html`<time class="muted">${clock(note.at)}</time>
    <div class=${note.superseded ? "old" : ""}><${Type} type=${note.type} /> <a class="tl-link" dir="auto" href=${address("memory", [note.memory])}>${title ? html`<${Inline} text=${title} />` : visible(shortPath(note.source, base))}</a>
      ${!note.type && html` <span class="muted small">${visible(shortPath(note.source, base))} · ${t.timeline.sections(note.sections)}</span>`}
      ${note.superseded && html` <span class="muted small">${t.timeline.superseded}</span>`}
      ${note.origin && note.origin !== "user" && note.type && html` <span class="muted small">${t.told.origin[note.origin] || visible(note.origin)}</span>`}</div>`;
}
