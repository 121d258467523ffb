// One memory: the whole section, where it stands and came from, what became of it, and every verb on it.

import { html, useState, useEffect, useLoad, useKeys, Chip, Copy, Notice, ErrorNotice, Section, Markdown, ScoreTable, visible, showDate, shortId, shortPath, plural } from "../ui.js";
import { call, callConfirmed, openInEditor, revision, project, session } from "../api.js";
import { route, go, refine, say, address } from "../state.js";
import { t } from "../texts.js";
import { EditDialog, SupersedeDialog, ExpiryDialog, ForgetDialog } from "./memory_verbs.js";

// The id in the anchor stays when the text changes; that of a chunk does not, but its first characters differ from others'.
export const memoryId = (memory) => memory.anchor?.memory || memory.id;

export async function deleteMemory(memory) {
  const id = memoryId(memory);
  try {
    await callConfirmed("memory.delete", { id }, id);
    say(t.card.sayDeleted, () => restoreMemory(id));
  } catch (error) {
    say(error.message);
  }
}

export async function restoreMemory(id) {
  try {
    await call("memory.restore", { id });
    say(t.card.sayRestored);
  } catch (error) {
    say(error.message);
  }
}

export default function MemoryView() {
  const id = route.value.path[0] || "";
  const { query } = route.value;
  const back = () => (history.length > 1 ? history.back() : go("search"));
  useKeys({ Escape: back, "/": () => go("search") });
  return html`<div class="memory-view"><h1 class="sr-only">${t.memory}</h1>
    <p><a class="back" href=${address("search", [], { q: query.q })}>← ${t.card.back}</a></p>
    <${MemoryCard} key=${id} id=${id} full question=${query.q} verb=${query.do} /></div>`;
}

async function loadMemory(id, abort) {
  const state = await call("memory.get", { id }, abort);
  if (!state.memory) return { state, section: null };
  return { state, section: await call("memory.expand", { id, cues: true }, abort) };
}

export function MemoryCard({ id, hit, question, full = false, verb = "" }) {
  const { data, error } = useLoad((abort) => loadMemory(id, abort), [id, revision.value.memories, project.value]);
  const [dialog, setDialog] = useState(verb);
  const section = data?.section;
  const close = () => {
    setDialog("");
    if (route.value.query.do) refine({ do: "" });
  };
  const keys = { e: () => setDialog("edit"), s: () => setDialog("supersede"), x: () => deleteMemory(section), o: () => document.querySelector(".conversation summary")?.click() };
  useKeys(full && section ? keys : { o: keys.o });
  const Verb = { edit: EditDialog, supersede: SupersedeDialog, expire: ExpiryDialog }[dialog];
  return html`
    ${error ? html`<${ErrorNotice} error=${error} />` : !data ? html`<p class="muted">${t.loading}</p>` : section ? html`<${Card} ...${{ id, data, hit, question, full, onVerb: setDialog }} />` : html`<${Absent} id=${id} state=${data.state} />`}
    ${Verb && section && html`<${Verb} id=${id} section=${section} onClose=${close} />`}
    ${dialog === "forget" && html`<${ForgetDialog} id=${id} section=${section} onClose=${close} />`}`;
}

function Card({ id, data, hit, question, full, onVerb }) {
  const { state, section } = data;
  return html`<article class="card" aria-label=${t.memory}>
    <${Head} section=${section} onVerb=${onVerb} />
    <${States} state=${state} section=${section} />
    <${Markdown} text=${section.content} headless />
    ${section.notes.map((note) => html`<${Notice}>${visible(note)}<//>`)}
    <div class="card-blocks">
      ${hit?.explanation && html`<${Section} title=${t.why}><${ScoreTable} parts=${hit.explanation} score=${hit.score} /><${Judge} id=${id} question=${question} /><//>`}
      <${Facts} section=${section} />
      <${NowWas} state=${state} section=${section} />
      <${Mentions} freshness=${section.freshness} />
      <${Cues} id=${id} section=${section} />
      <${Deliveries} id=${id} full=${full} />
      <${Conversation} id=${id} section=${section} />
    </div>
  </article>`;
}

function Absent({ id, state }) {
  if (!state.deleted) return html`<${Notice} kind="calm" title=${shortId(id)}><p>${t.card.gone}</p><//>`;
  if (state.forgotten) return html`<${Notice} kind="calm" title=${t.card.forgottenTitle}><p>${t.card.forgotten(showDate(state.deleted_at))}</p><//>`;
  return html`<${Notice} kind="calm" title=${t.card.deletedTitle}><p>${t.card.deleted(showDate(state.deleted_at))}</p>
    <button type="button" onClick=${() => restoreMemory(id)}>${t.card.restore}</button><//>`;
}

function Head({ section, onVerb }) {
  const base = section.project || project.value || session.value?.project || "";
  return html`<header class="card-head">
    <div class="card-title">
      ${section.type && html`<a class="chip type" href=${address("search", [], { type: section.type })}>${visible(section.type)}</a>`}
      <h2 class="cut">${visible(section.heading_path.slice(-2).join(" › ") || shortPath(section.source, base))}</h2>
      <span class="grow"></span><time class="muted">${showDate(section.date)}</time>
      <${Copy} text=${shortId(section.id)} title=${memoryId(section)}>${shortId(section.id)}<//>
    </div>
    <div class="verbs" role="toolbar" aria-label=${t.memory}>
      <button type="button" onClick=${() => onVerb("edit")} title="e">${t.card.edit}</button>
      <button type="button" onClick=${() => onVerb("supersede")} title="s">${t.card.supersede}</button>
      <button type="button" onClick=${() => onVerb("expire")}>${t.card.expire}</button>
      <button type="button" onClick=${() => deleteMemory(section)} title="x">${t.card.delete}</button>
      <button type="button" class="danger" onClick=${() => onVerb("forget")}>${t.card.forget}</button>
    </div>
  </header>`;
}

function States({ state, section }) {
  const lifecycle = section.lifecycle || {};
  return html`
    ${state.superseded_by && html`<${Notice} kind="warn">${t.card.isSuperseded} <a href=${address("memory", [state.superseded_by])}>${shortId(state.superseded_by)}</a><//>`}
    ${state.expired && html`<${Notice} kind="warn">${t.card.expired(lifecycle.expires || "")}<//>`}
    ${lifecycle.due && html`<${Notice} kind="warn">${t.card.due}<//>`}`;
}

function Facts({ section }) {
  const anchor = section.anchor || {};
  const base = section.project || project.value || session.value?.project || "";
  const rows = [
    [t.card.where, html`<${Copy} text=${`${section.source}:${section.start_line}`} title=${section.source}>${visible(shortPath(section.source, base))}:${section.start_line}–${section.end_line}<//> <${OpenEditor} section=${section} />`],
    ["Project", visible(section.project || t.everywhere)],
    ["From", html`${t.origins[section.origin] || section.origin}${anchor.host ? ` · ${visible(anchor.host)}` : ""}${anchor.session ? html` · <a href=${address("timeline", [], { session: anchor.session })}>session ${visible(shortId(anchor.session))}</a>` : ""}`],
    ["Trust", html`${t.tiers[section.trust.tier] || section.trust.tier} <span class="muted">${visible(section.trust.reason)}</span>`],
    anchor.branch && ["Branch", visible(`${anchor.branch} ${shortId(anchor.commit)}`)],
    section.tags.length && ["Tags", section.tags.map((tag) => html`<a class="chip tag" href=${address("search", [], { tag })}>#${visible(tag)}</a> `)],
    section.lifecycle?.expires && ["Expires", section.lifecycle.expires],
    section.lifecycle?.review_after && ["Review from", section.lifecycle.review_after],
    ["Length", plural(section.tokens, "token")],
  ].filter(Boolean);
  return html`<${Section} title=${t.card.facts}><dl class="facts">${rows.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl><//>`;
}

// A terminal editor cannot be opened from here: its command is copied instead.
function OpenEditor({ section }) {
  const command = `lorelog open ${shortId(section.id)}`;
  if (!session.value?.editor || section.trust.tier.endsWith("_record")) return html`<${Copy} text=${command}>lorelog open<//>`;
  const open = () =>
    openInEditor(memoryId(section)).then(
      (reply) => say(reply.opened ? t.card.sayOpened(session.value.editor) : t.card.sayOpenYourself(reply.command)),
      (error) => say(error.message),
    );
  return html`<button type="button" class="link" onClick=${open}>${t.card.openIn(session.value.editor)}</button>`;
}

function Judge({ id, question }) {
  if (!question) return null;
  const judge = async (relevance) => {
    try {
      await call("memory.feedback", { id, query: question, relevance });
      say(t.search.marked);
    } catch (error) {
      say(error.message);
    }
  };
  return html`<p class="judge"><button type="button" onClick=${() => judge("relevant")}>${t.search.relevant}</button>
    <button type="button" onClick=${() => judge("irrelevant")}>${t.search.irrelevant}</button></p>`;
}

async function loadOther(ids, abort) {
  const replies = await Promise.all(ids.slice(0, 6).map((id) => call("memory.get", { id }, abort).catch(() => null)));
  return replies.map((reply, index) => ({ id: ids[index], memory: reply?.memory }));
}

function NowWas({ state, section }) {
  const before = (section.anchor?.supersedes || "").split(",").filter((id) => id && id !== section.anchor.memory);
  const now = state.superseded_by ? [state.superseded_by] : [];
  const { data } = useLoad((abort) => (now.length || before.length ? loadOther([...now, ...before], abort) : []), [now.join(), before.join(), revision.value.memories]);
  if (!now.length && !before.length) return null;
  const other = (id) => (data || []).find((each) => each.id === id);
  const column = (title, ids) => html`<div><h4>${title}</h4>${ids.map((id) => html`<div class="version"><a href=${address("memory", [id])}>${shortId(other(id)?.memory?.id || id)}</a> <time class="muted">${showDate(other(id)?.memory?.date)}</time>
    ${other(id)?.memory ? html`<${Markdown} text=${other(id).memory.content} headless />` : null}</div>`)}</div>`;
  const self = html`<div><h4>${now.length ? t.card.was : t.card.now}</h4><div class="version here"><time class="muted">${showDate(section.date)}</time><${Markdown} text=${section.content} headless /></div></div>`;
  return html`<${Section} title=${t.card.nowWas}><div class="now-was">${now.length ? html`${self}${column(t.card.now, now)}` : html`${column(t.card.was, before)}${self}`}</div><//>`;
}

function Mentions({ freshness }) {
  if (!freshness.findings.length && !freshness.unmerged) return null;
  return html`<${Section} title=${t.card.mentions}><ul class="plain-list">${freshness.findings.map((each) => html`<li><code>${visible(each.name)}</code> <span class="state s-${each.freshness || each.verdict}">${t.card.fresh[each.freshness || each.verdict] || ""}</span> ${each.change && html`<span class="muted">${visible(each.change)}</span>`}</li>`)}
    ${freshness.unmerged && html`<li class="muted">on the branch ${visible(freshness.unmerged)}, not merged</li>`}</ul><//>`;
}

function Cues({ id, section }) {
  const { data } = useLoad((abort) => call("guard.list", { all_projects: true }, abort), [id, revision.value.deliveries]);
  const cues = section.anchor?.cues || [];
  const guards = (data?.guards || []).filter((guard) => guard.memory === id);
  const derived = section.derived_cues || [];
  if (!cues.length && !derived.length && !guards.length) return null;
  return html`${cues.length > 0 && html`<${Section} title=${t.card.cues}><p>${cues.map((cue) => html`<code class="chip">${visible(cue)}</code> `)}</p><//>`}
    ${derived.length > 0 && html`<${Section} title=${t.card.cues} aside=${t.card.derivedCues}><p>${derived.map((cue) => html`<code class="chip">${visible(cue)}</code> `)}</p><//>`}
    ${guards.length > 0 && html`<${Section} title=${t.card.guards}><ul class="plain-list">${guards.map((guard) => html`<li><a href=${address("told", ["guards"])}>${shortId(guard.id)}</a> <${Chip} kind=${guard.state === "on" ? "trust" : ""}>${guard.state} · ${guard.action}<//> <code>${visible([guard.tool, guard.command, ...guard.paths, guard.content].filter(Boolean).join(" "))}</code></li>`)}</ul><//>`}`;
}

function Deliveries({ id, full }) {
  const { data } = useLoad((abort) => call("delivery.list", { memory: id, all_projects: true, limit: 20 }, abort), [id, revision.value.deliveries]);
  if (!data || (!full && !data.total_count)) return null;
  const use = (memory) => (memory?.used == null ? t.card.unknownUse : memory.used ? t.card.used : t.card.unused);
  return html`<${Section} title=${t.card.deliveries} aside=${data.total_count ? plural(data.total_count, "time") : ""}>
    ${data.total_count === 0 && html`<p class="muted">${t.card.never}</p>`}
    <ul class="plain-list">${data.deliveries.map((each) => html`<li><time class="muted">${showDate(each.at)}</time> ${visible(each.host)} · <a href=${address("told", [], { session: each.session })}>${visible(shortId(each.session))}</a> · ${visible(each.kind)}${each.cue && html` · <code>${visible(each.cue)}</code>`} <span class="muted">${use(each.memories.find((memory) => memory.id === id))}</span></li>`)}</ul><//>`;
}

function Conversation({ id, section }) {
  const [open, setOpen] = useState(false);
  const { data, error } = useLoad((abort) => (open ? call("memory.transcript", { place: id, context: 2 }, abort) : null), [open, id]);
  useEffect(() => { if (open && data) document.querySelector(".turn.focus")?.scrollIntoView({ block: "nearest" }); }, [open, data]);
  if (!section.transcript) return null;
  return html`<details class="block conversation" onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary class="block-title">${t.card.conversation}<span class="aside">${section.transcript.tokens ? plural(section.transcript.tokens, "token") : ""}</span></summary>
    ${open && !section.transcript.exists && html`<p class="muted">${t.card.conversationGone}</p>`}
    ${open && error && section.transcript.exists && html`<${ErrorNotice} error=${error} />`}
    ${data && html`<ol class="turns">${data.turns.map((turn) => html`<li class="turn ${turn.id === data.focus ? "focus" : ""}" aria-current=${turn.id === data.focus ? "true" : null}>
      <p class="muted"><time>${showDate(turn.time)}</time> turn ${turn.number} of ${data.total}</p>
      ${turn.user && html`<blockquote class="said" dir="auto">${visible(turn.user)}</blockquote>`}
      ${turn.tools.length > 0 && html`<details><summary>${plural(turn.tools.length, "tool call")}</summary><ul class="plain-list">${turn.tools.map((tool) => html`<li class=${tool.failed ? "failed" : ""}><code>${visible(tool.name)}</code> <span class="mono">${visible(tool.input.slice(0, 300))}</span></li>`)}</ul></details>`}
      ${turn.assistant && html`<${Markdown} text=${turn.assistant} />`}</li>`)}</ol>`}
  </details>`;
}
