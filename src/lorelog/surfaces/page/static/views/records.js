// Records: tasks, decisions, failures and evidence with their threads, trust and its reason; and the pages of the wiki.

import { html, useState, useLoad, useKeys, useRef, Chip, Copy, Day, Notice, ErrorNotice, Section, Dialog, Inline, Markdown, Skeleton, splitTitle, typeClass, visible, showDate, showDay, shortId, shortPath, baseName, plural } from "../ui.js";
import { call, revision, project, session } from "../api.js";
import { route, everywhere, address, enter, go, refine, say } from "../state.js";
import { t } from "../texts.js";

const r = t.records;
const LIBRARIES = { decisions: "artifact.find_decisions", failures: "artifact.find_failures", evidence: "artifact.find_evidence" };
const TABS = ["tasks", ...Object.keys(LIBRARIES), "wiki"];
const own = () => project.value || session.value?.project || "";

export default function RecordsView() {
  const tab = TABS.includes(route.value.path[0]) ? route.value.path[0] : "tasks";
  const id = route.value.path.slice(1).join("/");
  const { q = "", status = "" } = route.value.query;
  const { data, error } = useLoad((abort) => loadList(tab, q, status, abort), [tab, q, status, everywhere.value, project.value, revision.value.records]);
  const [decide, setDecide] = useState(false);
  const items = data?.tab === tab ? data.items : [];
  const at = items.findIndex((item) => item.id === id);
  const move = (step) => items.length && enter("records", [tab, ...items[Math.max(0, Math.min(items.length - 1, at + step))].id.split("/")], { q, status });
  const field = useRef(null);
  useKeys({ j: () => move(1), k: () => move(-1), "/": () => field.current?.focus(), Escape: () => id && go("records", [tab], { q, status }) });
  const shown = id || items[0]?.id || "";
  return html`<div class="records ${id ? "has-choice" : ""}">
    <div class="records-list">
      <header class="records-head">
        <div class="line"><h1>${t.nav.records}</h1><span class="grow"></span><button type="button" onClick=${() => setDecide(true)}>${r.decide}</button></div>
        <nav class="tabs" aria-label=${r.tabsLabel}>${TABS.map((name) => html`<a href=${address("records", [name])} aria-current=${name === tab ? "page" : null}>${r.tabs[name]}</a>`)}</nav>
        ${tab !== "wiki" && html`<div class="filters"><input ref=${field} type="search" aria-label=${r.search} placeholder=${r.search} value=${q} onInput=${(event) => refine({ q: event.currentTarget.value })} />
          ${tab === "tasks" && html`<select aria-label=${r.status} value=${status} onChange=${(event) => refine({ status: event.currentTarget.value })}>${Object.entries(r.statuses).map(([value, text]) => html`<option value=${value}>${text}</option>`)}</select>`}</div>`}
      </header>
      ${error && html`<${ErrorNotice} error=${error} />`}
      ${!error && data?.tab !== tab && html`<${Skeleton} lines=${8} />`}
      ${data?.tab === tab && items.length === 0 && html`<p class="empty muted">${q ? t.search.nothing : r.empty[tab]}</p>`}
      <ul class="record-rows">${items.map((item) => html`<li><a href=${address("records", [tab, ...item.id.split("/")], { q, status })} aria-current=${item.id === shown ? "true" : null}><${Row} tab=${tab} item=${item} /></a></li>`)}</ul>
    </div>
    <div class="records-detail" key=${tab + shown}>
      ${id && html`<p class="only-small"><a class="back" href=${address("records", [tab], { q, status })}>← ${r.tabs[tab]}</a></p>`}
      ${shown && (tab === "wiki" ? html`<${WikiPage} page=${shown} />` : tab === "tasks" ? html`<${Task} id=${shown} />` : html`<${RecordCard} id=${shown} />`)}
    </div>
    ${decide && html`<${WriteDialog} title=${r.decide} help=${r.decideHelp} op="artifact.decision" done=${r.sayDecided} onClose=${() => setDecide(false)} onWritten=${(written) => go("records", ["decisions", written.artifact_id])} />`}
  </div>`;
}

async function loadList(tab, query, status, abort) {
  const scope = { all_projects: everywhere.value };
  if (tab === "tasks") {
    const { hits } = await call("task.search", { query, status, k: 200, ...scope }, abort);
    return { tab, items: hits.map((hit) => ({ ...hit, id: hit.task_id })) };
  }
  if (tab === "wiki") {
    const { pages } = await call("artifact.read_wiki", scope, abort);
    const first = (page) => (page.page === "index.md" ? 0 : page.page.includes("/") ? 2 : 1);
    return { tab, items: pages.map((page) => ({ ...page, id: page.page })).sort((a, b) => first(a) - first(b)) };
  }
  const { results } = await call(LIBRARIES[tab], { query, k: 100, ...scope }, abort);
  return { tab, items: results.map((item) => ({ ...item, id: item.artifact_id })) };
}

// As a row of the search: the first sentence, and below it what it is.
const RowText = ({ text, children }) => html`<p class="hit-title cut" dir="auto"><${Inline} text=${splitTitle(text).title || text} /></p><div class="hit-foot">${children}</div>`;

function Row({ tab, item }) {
  if (tab === "wiki") return html`<${RowText} text=${item.page === "index.md" ? r.wikiIndex : item.title}>${visible(item.page.replace(/\/.*/, "/"))}<//>`;
  const elsewhere = item.project !== own() && html`<${Chip}>${visible(baseName(item.project))}<//>`;
  if (tab === "tasks") return html`<${RowText} text=${item.goal}><${Status} status=${item.status} /><${Day} date=${item.updated_at} /><${TrustChip} trust=${item.trust} />${elsewhere}<//>`;
  return html`<${RowText} text=${item.text}><${Kind} kind=${KIND_OF[tab]} /><${Day} date=${item.at} /><span class="cut">${visible(item.writer)}</span><${TrustChip} trust=${item.trust} />${elsewhere}<//>`;
}

// States and kinds are marked as the types of memories are, in their colours.
const COLOURS = { in_progress: "preference", completed: "fact", failed: "correction", blocked: "lesson", decision: "decision", evidence: "fact", failure: "correction", verification: "preference" };
const Mark = ({ name, text }) => html`<span class=${typeClass(COLOURS[name] || "turn")}>${visible(text || name)}</span>`;
const Status = ({ status }) => html`<${Mark} name=${status} text=${r.states[status]} />`;
const KIND_OF = { decisions: "decision", failures: "failure", evidence: "evidence" };
const Kind = ({ kind }) => html`<${Mark} name=${kind} text=${r.kinds[kind]} />`;

// The usual trust, that of a record by one writer, is said once for a thread and not in lists.
const isUsual = (trust) => trust.tier === "canonical_record" && trust.promotion !== "refused" && !trust.tainted && !trust.signed && !trust.verified_by.length;

function TrustChip({ trust }) {
  if (isUsual(trust)) return null;
  const verified = trust.tier === "verified_record" || trust.verified_by.length > 0;
  const kind = trust.tainted || trust.promotion === "refused" ? "warn" : verified ? "trust" : "";
  return html`<${Chip} kind=${kind} title=${visible(trust.reason)}>${t.tiers[verified ? "verified_record" : trust.tier] || trust.tier}${trust.signed ? ` · ${r.signed}` : ""}${trust.tainted ? ` · ${r.tainted}` : ""}<//>`;
}

// a task

async function loadTask(id, abort) {
  const [task, state] = await Promise.all([call("task.get", { task_id: id }, abort), call("task.resume", { task_id: id }, abort)]);
  return { ...task, state: state.resume };
}

function Task({ id }) {
  const { data, error } = useLoad((abort) => loadTask(id, abort), [id, revision.value.records, project.value]);
  if (error) return html`<${ErrorNotice} error=${error} />`;
  if (!data) return html`<${Skeleton} lines=${8} />`;
  const { task, artifacts, state } = data;
  return html`<article class="card" aria-label=${r.task}>
    <header class="card-head"><p class="card-meta"><${Status} status=${task.status} /> <span>${r.begunBy(visible(task.writer), showDay(task.started_at))}</span><span class="grow"></span><${Copy} text=${task.task_id} title=${task.task_id}>${shortId(task.task_id)}<//></p>
      <h2 class="card-title" dir="auto"><${Inline} text=${task.goal || task.task_id} /></h2></header>
    <${State} state=${state} />
    <${Section} title=${r.thread} aside=${plural(artifacts.length, "record")}><${Thread} records=${artifacts} /><//>
  </article>`;
}

function State({ state }) {
  const lists = ["blockers", "what_worked", "what_failed", "validation", "followups"].filter((name) => state[name].length);
  const rows = [
    state.latest_summary && [r.latest, html`<${Inline} text=${state.latest_summary} />`],
    state.next_step && [r.fields.next_step, html`<${Inline} text=${state.next_step} />`],
    ...lists.map((name) => [r.fields[name], html`<ul class="plain-list">${state[name].map((text) => html`<li><${Inline} text=${text} /></li>`)}</ul>`]),
    state.decisions.length && [r.tabs.decisions, html`<ul class="plain-list">${state.decisions.map((item) => html`<li><a href=${address("records", ["decisions", item.artifact_id])}><${Inline} text=${item.text} /></a></li>`)}</ul>`],
    state.open_runs.length && [r.openRuns, html`<ul class="plain-list">${state.open_runs.map((run) => html`<li><code>${visible(run.command || run.tool_name)}</code> <span class="muted">${showDate(run.started_at)}</span></li>`)}</ul>`],
  ].filter(Boolean);
  if (!rows.length) return null;
  return html`<dl class="facts">${rows.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

// a thread of records

// Records in the order of the ledger; replies stand below what they reply to.
function Thread({ records, focus = "" }) {
  const known = new Set(records.map((record) => record.artifact_id));
  const replies = (id) => records.filter((record) => record.reply_to_artifact_id === id);
  const tree = (list) => html`<ol class="thread">${list.map((record) => html`<li key=${record.artifact_id}><${Record} record=${record} focus=${record.artifact_id === focus} />${replies(record.artifact_id).length > 0 && tree(replies(record.artifact_id))}</li>`)}</ol>`;
  return html`${records.some((record) => isUsual(record.trust)) && html`<p class="muted small">${r.usualTrust}</p>`}${tree(records.filter((record) => !known.has(record.reply_to_artifact_id)))}`;
}

// What an agent or a person wrote, as Markdown; text of a tool stays as it is.
function RecordText({ text, trust }) {
  if (trust.tainted) return html`<p class="record-text" dir="auto">${visible(text)}</p>`;
  return text.includes("\n") ? html`<${Markdown} text=${text} />` : html`<p class="record-text" dir="auto"><${Inline} text=${text} /></p>`;
}

const TEXTS = ["goal", "summary", "hypothesis", "motivation", "method_summary", "scientific_question", "next_step", "why_chosen", "requested_action"];
const LISTS = ["blockers", "what_worked", "what_failed", "validation", "uncertainty", "followups", "inputs", "outputs", "expected_outputs"];

function Record({ record, focus }) {
  const [verb, setVerb] = useState("");
  const [main, ...more] = TEXTS.filter((name) => record[name]);
  const value = record.metric_name && `${record.metric_name} = ${record.metric_value}`;
  const judged = record.supports_claim === undefined || record.supports_claim === null ? "" : record.supports_claim ? r.supports : r.contradicts;
  const judges = ["verification", "review"].includes(record.artifact_kind);
  return html`<div class="record ${focus ? "focus" : ""} ${record.trust.tainted ? "tainted" : ""}" id=${`record-${record.artifact_id}`} aria-current=${focus ? "true" : null}>
    <p class="line small"><${Kind} kind=${record.artifact_kind} />${judged && html`<span class=${record.supports_claim ? "s-fresh" : "s-gone"}>${judged}</span>`}
      <span>${visible(record.writer || r.nobody)}</span><span class="muted"><${Day} date=${record.at} /></span><${TrustChip} trust=${record.trust} /><span class="grow"></span><span class="record-verbs">${!judges && html`<button type="button" class="plain small" onClick=${() => setVerb("confirm")}>${r.confirm}</button><button type="button" class="plain small" onClick=${() => setVerb("dispute")}>${r.dispute}</button>`}<${Copy} text=${record.artifact_id} title=${record.artifact_id}>${record.artifact_id.slice(0, 13)}<//></span></p>
    ${main && html`<${RecordText} text=${record[main]} trust=${record.trust} />`}
    ${(more.length > 0 || LISTS.some((name) => record[name]?.length) || record.command || value) && html`<dl class="facts">
      ${more.map((name) => html`<div><dt>${r.fields[name] || name}</dt><dd><${Inline} text=${record[name]} /></dd></div>`)}
      ${record.command && html`<div><dt>${r.fields.command}</dt><dd><code>${visible(record.command)}</code></dd></div>`}
      ${value && html`<div><dt>${r.fields.metric}</dt><dd>${visible(value)}</dd></div>`}
      ${LISTS.filter((name) => record[name]?.length).map((name) => html`<div><dt>${r.fields[name] || name}</dt><dd><ul class="plain-list">${record[name].map((text) => html`<li><${Inline} text=${text} /></li>`)}</ul></dd></div>`)}</dl>`}
    ${record.content && html`<div class="quoted-page">${record.trust.tainted ? html`<pre>${visible(record.content)}</pre>` : html`<${Markdown} text=${record.content} />`}</div>`}
    <${Why} record=${record} />
    ${verb && html`<${WriteDialog} title=${r[verb]} help=${r.verifyHelp} op="artifact.verification" args=${{ reply_to_artifact_id: record.artifact_id, supports_claim: verb === "confirm" }} quoted=${record[main]} done=${r.sayVerified} onClose=${() => setVerb("")} />`}
  </div>`;
}

// The reason of a record's trust, with the records that it rests on.
function Why({ record }) {
  const { trust } = record;
  const link = (id) => html`<a href=${address("records", ["evidence", id])}>${id.slice(0, 13)}</a> `;
  const parts = [
    !isUsual(trust) && html`${visible(trust.reason)}${trust.verified_by.length > 0 && html`: ${trust.verified_by.map(link)}`}`,
    trust.promotion === "refused" && `${r.verifiesNothing}: ${visible(trust.promotion_reason)}`,
    record.supersedes && html`${r.supersedes} ${link(record.supersedes)}`,
    record.origin !== "agent" && `${r.from} ${t.origins[record.origin] || visible(record.origin)}`,
  ].filter(Boolean);
  return parts.length > 0 && html`<p class="why small muted">${parts.map((part, index) => html`${index > 0 && " · "}${part}`)}</p>`;
}

async function loadRecord(id, abort) {
  const found = await call("artifact.get", { artifact_id: id }, abort);
  if (!found.found) return { ...found, thread: [] };
  return { ...found, thread: (await call("artifact.list_thread", { thread_id: found.artifact.thread_id }, abort)).artifacts };
}

function RecordCard({ id }) {
  const { data, error } = useLoad((abort) => loadRecord(id, abort), [id, revision.value.records, project.value]);
  if (error) return html`<${ErrorNotice} error=${error} />`;
  if (!data) return html`<${Skeleton} lines=${8} />`;
  if (!data.found) return html`<${Notice} kind="warn">${data.notes.map(visible)}<//>`;
  const { artifact, superseded_by: newer, thread } = data;
  return html`<article class="card" aria-label=${r.record}>
    <header class="card-head"><p class="card-meta"><${Kind} kind=${artifact.artifact_kind} /><${Day} date=${artifact.at} /><${TrustChip} trust=${artifact.trust} /><span class="muted">${visible(artifact.trust.reason)}</span>${artifact.task_id && html`<span class="grow"></span><a href=${address("records", ["tasks", artifact.task_id])}>${r.toTask}</a>`}</p>
      <h2 class="card-title" dir="auto"><${Inline} text=${splitTitle(artifact.summary || artifact.goal || "").title || r.kinds[artifact.artifact_kind] || artifact.artifact_kind} /></h2></header>
    ${newer.map((record) => html`<${Notice} kind="warn">${r.superseded} <a href=${address("records", [route.value.path[0], record.artifact_id])}><${Inline} text=${splitTitle(record.summary || record.artifact_id).title} /></a><//>`)}
    <${Section} title=${r.thread} aside=${plural(thread.length, "record")}><${Thread} records=${thread} focus=${artifact.artifact_id} /><//>
  </article>`;
}

// writing a record, and the wiki

function WriteDialog({ title, help, op, args = {}, quoted = "", done, onClose, onWritten }) {
  const [summary, setSummary] = useState("");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const write = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const written = await call(op, { ...args, summary, origin: "user" });
      say(written.notes[0] || done);
      onClose();
      onWritten?.(written);
    } catch (failure) {
      setError(failure);
      setBusy(false);
    }
  };
  return html`<${Dialog} title=${title} onClose=${onClose}><form onSubmit=${write}>
    ${quoted && html`<blockquote class="said">${visible(quoted)}</blockquote>`}
    <label>${r.summary}<textarea rows="4" required value=${summary} onInput=${(event) => setSummary(event.currentTarget.value)}></textarea></label>
    <p class="muted small">${help}</p>
    ${error && html`<${ErrorNotice} error=${error} />`}
    <footer><button type="button" onClick=${onClose}>${t.cancel}</button><button class="primary" disabled=${busy || !summary.trim()}>${title}</button></footer>
  </form><//>`;
}

function WikiPage({ page }) {
  const { data, error } = useLoad((abort) => call("artifact.read_wiki", { page, all_projects: everywhere.value }, abort), [page, everywhere.value, project.value, revision.value.records]);
  if (error) return html`<${ErrorNotice} error=${error} />`;
  if (!data) return html`<${Skeleton} lines=${8} />`;
  const follow = (link) => (link.record ? address("records", ["evidence", link.record]) : address("records", ["wiki", ...link.page.split("/")]));
  return html`<article class="card wiki" aria-label=${visible(data.title)}><${Markdown} text=${data.text} wiki=${follow} />
    <p class="muted small">${r.wikiHelp} <${Copy} text="lorelog wiki build">lorelog wiki build<//></p></article>`;
}
