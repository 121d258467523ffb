// One memory: its first sentence, its text, why it came up now, what became of it, where it comes from, and every verb on it.

import { html, useState, useEffect, useRef, useLoad, useKeys, loadForKey, Chip, Copy, Day, Icon, Inline, Menu, Notice, ErrorNotice, Section, Skeleton, Markdown, PartsBar, RelevanceBar, ScoreTable, Type, inlineText, isTime, memoryId, splitTitle, titleOf, visible, showDate, shortId, shortPath, baseName, plural } from "../ui.js";
import { call, callConfirmed, openInEditor, revision, project, session } from "../api.js";
import { route, go, refine, say, address, openMemory } from "../state.js";
import { t } from "../texts.js";

const loadVerbs = () => loadForKey(() => import("./memory_verbs.js")).then(({ module }) => module);

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
    <p><a class="back" href=${address("search", [], { q: query.q })}><${Icon} name="back" /> ${t.card.back}</a></p>
    <${MemoryCard} id=${id} full question=${query.q} verb=${query.do} /></div>`;
}

// A memory that is not there, or not any more, may be deleted or forgotten.
async function loadMemory(id, wasShown, abort) {
  const ask = () => call("memory.get", { id }, abort);
  const gone = wasShown && (await ask());
  if (gone && !gone.memory) return { id, section: null, state: gone };
  try {
    const section = await call("memory.expand", { id, cues: true }, abort);
    return { id, section, state: section.lifecycle || {} };
  } catch (error) {
    const state = error.code === "not_found" ? await ask() : null;
    if (!state || state.memory) throw error;
    return { id, section: null, state };
  }
}

// Until the next memory is there, the one before stays; verbs act on what is shown.
export function MemoryCard({ id: wanted, hit, question, full = false, verb = "" }) {
  const shown = useRef("");
  const { data, error } = useLoad((abort) => loadMemory(wanted, shown.current === wanted, abort), [wanted, revision.value.memories, project.value]);
  shown.current = data?.section ? data.id : "";
  const [Verb, setVerb] = useState(null);
  const { id, section } = data || {};
  const open = (name) => loadVerbs().then((module) => setVerb(() => module[name]), (error) => say(error.message));
  useEffect(() => { if (OPENED[verb]) open(OPENED[verb]); }, []);
  const close = () => {
    setVerb(null);
    if (route.value.query.do) refine({ do: "" });
  };
  const verbs = section ? memoryVerbs(section, open) : [];
  useEffect(() => {
    openMemory.value = section ? { title: inlineText(titleOf(section)), verbs } : null;
    return () => { openMemory.value = null; };
  }, [data]);
  const keys = Object.fromEntries(verbs.filter(({ key }) => key).map(({ key, act }) => [key, act]));
  const conversation = { o: () => document.querySelector(".conversation summary")?.click() };
  useKeys(full ? { ...keys, ...conversation } : conversation);
  return html`
    ${error ? html`<${ErrorNotice} error=${error} />` : !data ? html`<${Skeleton} lines=${5} />` : section ? html`<${Card} key=${id} ...${{ id, data, verbs, hit: hit && memoryId(hit) === id ? hit : null, question, stale: id !== wanted }} />` : html`<${Absent} id=${id} state=${data.state} />`}
    ${Verb && (section || Verb.name === "ForgetDialog") && html`<${Verb} id=${id} section=${section} onClose=${close} />`}`;
}

const OPENED = { edit: "EditDialog", supersede: "SupersedeDialog" }; // verbs that an address may name

// What can be done with a memory: the first two are buttons, the rest is in the menu, all are in the palette.
function memoryVerbs(section, open) {
  const copy = (text) => navigator.clipboard.writeText(text).then(() => say(t.copied), (error) => say(error.message));
  return [
    { name: t.card.edit, key: "e", icon: "edit", act: () => open("EditDialog") },
    { name: t.card.delete, does: t.card.deleteDoes, key: "x", icon: "delete", act: () => deleteMemory(section) },
    { name: t.card.supersede, key: "s", icon: "replace", act: () => open("SupersedeDialog") },
    { name: t.card.expire, icon: "expire", act: () => open("ExpiryDialog") },
    { name: t.card.openEditor, icon: "open", act: () => openEditor(section) },
    { name: t.card.copyText, icon: "copy", act: () => loadVerbs().then(({ withoutAnchor }) => copy(withoutAnchor(section.content).text)) },
    { name: t.card.forget, does: t.card.forgetDoes, icon: "forget", danger: true, act: () => open("ForgetDialog") },
  ];
}

// An editor that needs a terminal cannot be opened from here: its command is copied instead.
async function openEditor(section) {
  const command = `lorelog open ${shortId(section.id)}`;
  try {
    const reply = session.value?.editor && !section.trust.tier.endsWith("_record") ? await openInEditor(memoryId(section)) : { opened: false, command };
    if (reply.opened) return say(t.card.sayOpened(session.value.editor));
    await navigator.clipboard.writeText(reply.command).catch(() => {});
    return say(t.card.sayOpenYourself(reply.command));
  } catch (error) {
    return say(error.message);
  }
}

function Card({ id, data, verbs, hit, question, stale }) {
  const { state, section } = data;
  const heading = section.heading_path.at(-1) || "";
  const { title, rest } = splitTitle(section.content, heading);
  return html`<article class="card ${stale ? "stale" : ""}" aria-label=${t.memory}>
    <header class="card-head">
      <p class="card-meta"><${Type} type=${section.type} href=${address("search", [], { type: section.type })} title=${t.search.onlyType(section.type)} />
        <${Day} date=${section.date} /> ${section.tags.map((tag) => html`<a class="tag" href=${address("search", [], { tag })} title=${t.search.onlyTag(tag)}>#${visible(tag)}</a>`)}</p>
      <h2 class="card-title" dir="auto"><${Inline} text=${title || heading || baseName(section.source)} /></h2>
      <div class="verbs" role="toolbar" aria-label=${t.card.verbs}>
        ${verbs.slice(0, 2).map((verb) => html`<button type="button" onClick=${verb.act} title=${verb.key} aria-keyshortcuts=${verb.key}><${Icon} name=${verb.icon} />${verb.name}</button>`)}
        <${Menu} label=${t.card.more} items=${verbs.slice(2)} />
      </div>
    </header>
    <${States} state=${state} section=${section} />
    ${!isTime(heading) && heading !== title && html`<p class="muted card-heading">${visible(heading)}</p>`}
    <${Markdown} text=${rest} />
    ${section.notes.map((note) => html`<${Notice}>${visible(note)}<//>`)}
    <div class="card-blocks">
      ${hit?.explanation && html`<${WhyNow} ...${{ id, hit, question }} />`}
      <${History} ...${{ id, state, section }} />
      <${Source} ...${{ id, section }} />
    </div>
  </article>`;
}

function Absent({ id, state }) {
  if (!state.deleted) return html`<${Notice} kind="calm" title=${shortId(id)}><p>${t.card.gone}</p><//>`;
  if (state.forgotten) return html`<${Notice} kind="calm" title=${t.card.forgottenTitle}><p>${t.card.forgotten(showDate(state.deleted_at))}</p><//>`;
  return html`<${Notice} kind="calm" title=${t.card.deletedTitle}><p>${t.card.deleted(showDate(state.deleted_at))}</p>
    <button type="button" onClick=${() => restoreMemory(id)}>${t.card.restore}</button><//>`;
}

function States({ state, section }) {
  const lifecycle = section.lifecycle || {};
  return html`
    ${state.superseded_by && html`<${Notice} kind="warn">${t.card.isSuperseded} <a href=${address("memory", [state.superseded_by])}>${shortId(state.superseded_by)}</a><//>`}
    ${state.expired && html`<${Notice} kind="warn">${t.card.expired(lifecycle.expires || "")}<//>`}
    ${lifecycle.due && html`<${Notice} kind="warn">${t.card.due}<//>`}`;
}

// Relevance on the scale that all hits share, and below it the parts that the score is made of.
function WhyNow({ id, hit, question }) {
  return html`<${Section} title=${t.why}>
    <p class="why-now"><${RelevanceBar} relevance=${hit.relevance} /><strong>${t.relevanceIs(hit.relevance)}</strong>${hit.confidence && html`<span class="muted">${visible(hit.confidence)}</span>`}</p>
    <p class="muted small">${t.relevanceLegend}</p>
    <details class="parts"><summary>${t.parts.title}</summary><${PartsBar} parts=${hit.explanation} score=${hit.score} /><${ScoreTable} parts=${hit.explanation} score=${hit.score} /></details>
    <${Judge} id=${id} question=${question} /><//>`;
}

function History({ id, state, section }) {
  const days = [section.lifecycle?.expires && [t.card.expires, section.lifecycle.expires], section.lifecycle?.review_after && [t.card.review, section.lifecycle.review_after]].filter(Boolean);
  return html`<${Section} title=${t.card.history}>
    ${days.length > 0 && html`<${Facts} rows=${days} />`}
    <${NowWas} state=${state} section=${section} />
    <${Cues} id=${id} section=${section} />
    <${Deliveries} id=${id} /><//>`;
}

const Facts = ({ rows }) => html`<dl class="facts">${rows.filter(Boolean).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;

function Source({ id, section }) {
  const anchor = section.anchor || {};
  const base = section.project || project.value || session.value?.project || "";
  const lines = `${section.start_line}–${section.end_line}`;
  return html`<${Section} title=${t.card.source}>
    <${Facts} rows=${[
      [t.card.file, html`<span class="place-line"><code>${visible(shortPath(section.source, base))}</code> <button type="button" class="small" onClick=${() => openEditor(section)}><${Icon} name="open" />${t.card.openEditor}</button></span>`],
      [t.card.from, html`${t.origins[section.origin] || visible(section.origin)}${anchor.host ? `, ${visible(anchor.host)}` : ""}${anchor.session ? html`, <a href=${address("timeline", [], { session: anchor.session })}>session ${visible(shortId(anchor.session))}</a>` : ""}`],
      section.trust.tier !== "semantic_candidate" && [t.card.trust, html`${t.tiers[section.trust.tier] || section.trust.tier} <span class="muted">${visible(section.trust.reason)}</span>`],
    ]} />
    <${Mentions} freshness=${section.freshness} />
    <${Conversation} id=${id} section=${section} />
    <details class="fold"><summary>${t.card.details}</summary><${Facts} rows=${[
      [t.card.path, html`<${Copy} text=${`${section.source}:${section.start_line}`}>${visible(section.source)}:${lines}<//>`],
      [t.card.project, visible(section.project || t.everywhere)],
      anchor.branch && [t.card.branch, visible(`${anchor.branch} ${shortId(anchor.commit)}`)],
      [t.card.trust, html`${t.tiers[section.trust.tier] || section.trust.tier} <span class="muted">${visible(section.trust.reason)}</span>`],
      [t.card.length, plural(section.tokens, "token")],
      [t.card.day, showDate(section.date)],
      [t.card.id, html`<${Copy} text=${shortId(section.id)} title=${memoryId(section)}>${shortId(section.id)}<//>`],
    ]} /></details><//>`;
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
  const column = (title, ids) => html`<div><h5>${title}</h5>${ids.map((id) => html`<div class="version"><a href=${address("memory", [id])}>${shortId(other(id)?.memory?.id || id)}</a> <time class="muted">${showDate(other(id)?.memory?.date)}</time>
    ${other(id)?.memory ? html`<${Markdown} text=${other(id).memory.content} headless />` : null}</div>`)}</div>`;
  const self = html`<div><h5>${now.length ? t.card.was : t.card.now}</h5><div class="version here"><time class="muted">${showDate(section.date)}</time><${Markdown} text=${section.content} headless /></div></div>`;
  return html`<div class="part"><h4>${t.card.nowWas}</h4><div class="now-was">${now.length ? html`${self}${column(t.card.now, now)}` : html`${column(t.card.was, before)}${self}`}</div></div>`;
}

function Mentions({ freshness }) {
  if (!freshness.findings.length && !freshness.unmerged) return null;
  return html`<div class="part"><h4>${t.card.mentions}</h4><ul class="plain-list">${freshness.findings.map((each) => html`<li><code>${visible(each.name)}</code> <span class="state s-${each.freshness || each.verdict}">${t.card.fresh[each.freshness || each.verdict] || ""}</span> ${each.change && html`<span class="muted">${visible(each.change)}</span>`}</li>`)}
    ${freshness.unmerged && html`<li class="muted">on the branch ${visible(freshness.unmerged)}, not merged</li>`}</ul></div>`;
}

// All guards, asked for once until one changes: the same list serves each memory.
let guards = { revision: NaN, list: null };

function listGuards() {
  const { deliveries = 0 } = revision.value;
  if (guards.revision !== deliveries) {
    guards = { revision: deliveries, list: call("guard.list", { all_projects: true }) };
    guards.list.catch(() => { guards.revision = NaN; });
  }
  return guards.list;
}

function Cues({ id, section }) {
  const { data } = useLoad(listGuards, [revision.value.deliveries]);
  const cues = section.anchor?.cues || [];
  const guards = (data?.guards || []).filter((guard) => guard.memory === id);
  const derived = section.derived_cues || [];
  if (!cues.length && !derived.length && !guards.length) return null;
  const list = (each) => html`<p class="cues">${each.map((cue) => html`<code class="chip">${visible(cue)}</code> `)}</p>`;
  return html`${cues.length + derived.length > 0 && html`<div class="part"><h4>${t.card.cues}${derived.length > 0 && html` <span class="aside">${t.card.derivedCues}</span>`}</h4>${list(cues.length ? cues : derived)}</div>`}
    ${guards.length > 0 && html`<div class="part"><h4>${t.card.guards}</h4><ul class="plain-list">${guards.map((guard) => html`<li><a href=${address("told", ["guards"])}>${shortId(guard.id)}</a> <${Chip} kind=${guard.state === "on" ? "trust" : ""}>${guard.state} · ${guard.action}<//> <code>${visible([guard.tool, guard.command, ...guard.paths, guard.content].filter(Boolean).join(" "))}</code></li>`)}</ul></div>`}`;
}

function Deliveries({ id }) {
  const { data } = useLoad((abort) => call("delivery.list", { memory: id, all_projects: true, limit: 20 }, abort), [id, revision.value.deliveries]);
  if (!data) return null;
  const use = ({ used } = {}) => html`<span class="use ${used ? "yes" : ""}">${used == null ? t.card.unknownUse : used ? t.card.used : t.card.unused}</span>`;
  return html`<div class="part"><h4>${t.card.deliveries}${data.total_count > 0 && html` <span class="aside">${plural(data.total_count, "time")}</span>`}</h4>
    ${data.total_count === 0 && html`<p class="muted">${t.card.never}</p>`}
    <ul class="plain-list">${data.deliveries.map((each) => html`<li class="spaced"><${Day} date=${each.at} /> <a href=${address("told", [], { session: each.session })}>${visible(each.host)} ${visible(shortId(each.session))}</a> <span class="muted">${t.told.kinds[each.kind] || visible(each.kind)}</span>${each.cue && html` <code>${visible(each.cue)}</code>`} ${use(each.memories.find((memory) => memory.id === id))}</li>`)}</ul></div>`;
}

function Conversation({ id, section }) {
  const [open, setOpen] = useState(false);
  const { data, error } = useLoad((abort) => (open ? call("memory.transcript", { place: id, context: 2 }, abort) : null), [open, id]);
  useEffect(() => { if (open && data) document.querySelector(".turn.focus")?.scrollIntoView({ block: "nearest" }); }, [open, data]);
  if (!section.transcript) return null;
  return html`<details class="fold conversation" onToggle=${(event) => setOpen(event.currentTarget.open)}>
    <summary>${t.card.conversation}<span class="aside">${section.transcript.tokens ? plural(section.transcript.tokens, "token") : ""}</span></summary>
    ${open && !section.transcript.exists && html`<p class="muted">${t.card.conversationGone}</p>`}
    ${open && error && section.transcript.exists && html`<${ErrorNotice} error=${error} />`}
    ${data && html`<ol class="turns">${data.turns.map((turn) => html`<li class="turn ${turn.id === data.focus ? "focus" : ""}" aria-current=${turn.id === data.focus ? "true" : null}>
      <p class="muted"><time>${showDate(turn.time)}</time> request ${turn.number} of ${data.total}</p>
      ${turn.user && html`<blockquote class="said" dir="auto">${visible(turn.user)}</blockquote>`}
      ${turn.tools.length > 0 && html`<details><summary>${plural(turn.tools.length, "tool call")}</summary><ul class="plain-list">${turn.tools.map((tool) => html`<li class=${tool.failed ? "failed" : ""}><code>${visible(tool.name)}</code> <span class="mono">${visible(tool.input.slice(0, 300))}</span></li>`)}</ul></details>`}
      ${turn.assistant && html`<${Markdown} text=${turn.assistant} />`}</li>`)}</ol>`}
  </details>`;
}
