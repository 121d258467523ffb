// The inbox: what the user said and nobody filed, proposals of judges and agents, summaries, imports and guards, each to approve or refuse.

import { html, useState, useEffect, useLoad, useKeys, Chip, Notice, ErrorNotice, Dialog, Markdown, visible, showDate, shortId, baseName } from "../ui.js";
import { call, callConfirmed, revision, project, session as server } from "../api.js";
import { route, refine, address, go, everywhere, say } from "../state.js";
import { t } from "../texts.js";
import { localTime } from "./timeline.js";
import { BackTest } from "./told_guards.js";

const KINDS = ["statement", "proposal", "rule", "guard", "summary", "import"];
const scope = (item) => (item.project ? { project: item.project } : {});

export function Inbox() {
  const kind = route.value.query.kind || "";
  const [decided, setDecided] = useState(0);
  const [selected, setSelected] = useState(0);
  const [wording, setWording] = useState(null);
  const { data, error } = useLoad(
    (abort) => call("review.list", { all_projects: everywhere.value }, abort),
    [everywhere.value, project.value, revision.value.memories, revision.value.deliveries, decided],
  );
  const counts = Object.groupBy(data?.items || [], (item) => item.kind);
  const items = (data?.items || []).filter((item) => !kind || item.kind === kind);
  const at = Math.max(0, Math.min(selected, items.length - 1));
  useEffect(() => { document.querySelector(".inbox-item.selected")?.scrollIntoView({ block: "nearest" }); }, [at]);
  const decide = async (item, verb, more = {}) => {
    try {
      const verdict = { id: item.id, kind: item.kind, label: verb, ...more };
      const [reply] = (await call("review.decide", { verdicts: [verdict], ...scope(item) })).decisions;
      const undo = { approve: item.becomes_rule && reply.result && (() => callConfirmed("memory.delete", { id: reply.result }, reply.result)), refuse: item.kind !== "guard" && item.deletes && (() => call("memory.restore", { id: item.id })) }[verb];
      say((verb === "approve" ? t.told.sayApproved : t.told.sayRefused)[item.kind], undo ? () => undo().then(() => setDecided((count) => count + 1), (problem) => say(problem.message)) : null);
      setDecided((count) => count + 1);
      setWording(null);
    } catch (problem) {
      say(problem.message);
    }
  };
  const current = items[at];
  useKeys({
    j: () => setSelected(Math.min(items.length - 1, at + 1)),
    k: () => setSelected(Math.max(0, at - 1)),
    a: () => current && decide(current, "approve"),
    r: () => current && decide(current, "refuse"),
    e: () => current?.becomes_rule && setWording(current),
    Escape: () => go("told"),
  });
  return html`
    <p class="muted">${t.told.inboxIntro}</p>
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${!data && !error && html`<p class="muted">${t.loading}</p>`}
    ${data?.items.length > 0 && html`<div class="filters" role="group" aria-label=${t.told.filterLabel}>${["", ...KINDS].filter((name) => !name || counts[name]).map((name) => html`<button type="button" class="chip ${kind === name ? "active" : ""}" aria-pressed=${kind === name} onClick=${() => refine({ kind: name })}>${name ? t.told.kindsOf[name] : t.told.kinds[""]} ${name ? counts[name].length : data.items.length}</button>`)}</div>`}
    ${data && !items.length && html`<${Notice} kind="calm"><p>${t.told.inboxEmpty}</p><//>`}
    <ul class="inbox">${items.map((item, index) => html`<${Item} key=${`${item.kind} ${item.id}`} item=${item} selected=${index === at} onSelect=${() => setSelected(index)} decide=${decide} onWord=${() => setWording(item)} />`)}</ul>
    ${wording && html`<${WordDialog} item=${wording} onClose=${() => setWording(null)} onApprove=${(text) => decide(wording, "approve", { text })} />`}`;
}

function Item({ item, selected, onSelect, decide, onWord }) {
  const here = project.value || server.value?.project;
  const isGuard = item.kind === "guard";
  const does = item.kind === "import" && item.becomes_rule ? "importRule" : item.kind;
  const open = isGuard ? item.source && address("memory", [item.source]) : address("memory", [item.id]);
  return html`<li class="inbox-item ${selected ? "selected" : ""}" aria-current=${selected ? "true" : null} onClick=${onSelect} onFocusIn=${onSelect}>
    <div class="inbox-head">
      <${Chip} kind=${{ guard: "warn", rule: "type", statement: "type", proposal: "type" }[item.kind] || ""}>${t.told.kindsOf[item.kind]}<//>
      ${!isGuard && item.type !== item.kind && html`<span class="muted small">${visible(item.type)}</span>`}
      <span class="muted small">${t.told.origin[item.origin] || visible(item.origin)}</span>
      ${item.sessions > 1 && html`<${Chip}>${t.told.sessions(item.sessions)}<//>`}
      ${item.session && html`<a class="mono small" href=${address("timeline", [], { session: item.session })}>${visible(shortId(item.session))}</a>`}
      ${item.project !== here && html`<${Chip} title=${item.project}>${visible(baseName(item.project))}<//>`}
      <span class="grow"></span><time class="muted small">${showDate(localTime(item.date))}</time>
      ${open && html`<a class="small" href=${open}>${t.memory}</a>`}
    </div>
    ${isGuard && html`<p><code>${visible(item.conditions)}</code></p>`}
    <${Markdown} text=${item.text} />
    ${item.about && html`<p class="muted small" dir="auto">${t.told.about}: ${visible(item.about)}</p>`}
    ${isGuard && html`<${BackTest} id=${item.id} project=${item.project} />`}
    <div class="verbs">
      <button type="button" class=${selected ? "primary" : ""} title=${t.told.approveDoes[does]} onClick=${() => decide(item, "approve")}>${t.told.approve}</button>
      ${isGuard && html`<button type="button" onClick=${() => decide(item, "approve", { action: "block" })}>${t.told.approveBlock}</button>`}
      ${item.becomes_rule && html`<button type="button" onClick=${onWord}>${t.told.edit}</button>`}
      <button type="button" class="danger" title=${t.told.refuseDoes[item.kind]} onClick=${() => decide(item, "refuse")}>${t.told.refuse}</button>
      <span class="muted small does">${t.told.approve}: ${t.told.approveDoes[does]} ${t.told.refuse}: ${t.told.refuseDoes[item.kind]}</span>
    </div></li>`;
}

function WordDialog({ item, onClose, onApprove }) {
  const [text, setText] = useState(item.text);
  const submit = (event) => {
    event.preventDefault();
    onApprove(text);
  };
  return html`<${Dialog} title=${t.told.wordTitle} onClose=${onClose}><form onSubmit=${submit}>
    <label>${t.told.wordLabel}<textarea rows="5" value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>
    <p class="muted small">${t.told.wordFrom}: ${visible(item.text)}</p>
    <footer><button type="button" onClick=${onClose}>${t.cancel}</button><button type="submit" class="primary" disabled=${!text.trim()}>${t.told.approve}</button></footer>
  </form><//>`;
}
