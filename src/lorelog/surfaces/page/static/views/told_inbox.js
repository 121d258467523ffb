// The inbox: what the user said and nobody filed, proposals of judges and agents, summaries, imports and guards, each to approve or refuse.

import { html, useState, useEffect, useLoad, useKeys, Chip, Notice, ErrorNotice, Dialog, Inline, Markdown, Skeleton, Type, splitTitle, DayName, localTime, visible, showDate, shortId, baseName } from "../ui.js";
import { call, callConfirmed, revision, project, session as server } from "../api.js";
import { route, refine, address, go, everywhere, say } from "../state.js";
import { t } from "../texts.js";
import { BackTest } from "./told_guards.js";
import { Table } from "./told_table.js";

const KINDS = ["statement", "proposal", "rule", "guard", "rest", "summary", "import"];
const FIRST = 200;
const scope = (item) => (item.project ? { project: item.project } : {});
const keyOf = (item) => `${item.kind} ${item.id}`;
const isStatement = (item) => item.kind === "statement";
const groupOf = (item) => `${localTime(item.date).slice(0, 10)} ${item.project}`;

export function Inbox() {
  const kind = route.value.query.kind || "";
  const [decided, setDecided] = useState(0);
  const [selected, setSelected] = useState(0);
  const [wording, setWording] = useState(null);
  const [limit, setLimit] = useState(FIRST);
  const [marked, setMarked] = useState(new Set());
  const [closing, setClosing] = useState(false);
  const { data, error } = useLoad(
    (abort) => call("review.list", { kind, limit, all_projects: everywhere.value }, abort),
    [kind, limit, everywhere.value, project.value, revision.value.memories, revision.value.deliveries, decided],
  );
  const counts = data?.counts || {};
  const groups = Object.values(Object.groupBy(data?.items || [], groupOf));
  const items = groups.flat();
  const chosen = items.filter((item) => marked.has(keyOf(item)));
  const toggle = (these) => {
    const keys = these.filter(isStatement).map(keyOf);
    const next = new Set(marked);
    keys.forEach((key) => (keys.every((each) => marked.has(each)) ? next.delete(key) : next.add(key)));
    setMarked(next);
  };
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
  // What nobody wants to keep is closed in one call for each project.
  const close = async () => {
    try {
      for (const these of Object.values(Object.groupBy(chosen, (item) => item.project))) {
        await call("review.decide", { verdicts: these.map(({ id }) => ({ id, label: "other" })), ...scope(these[0]) });
      }
      say(t.told.sayClosed(chosen.length));
    } catch (problem) {
      say(problem.message);
    }
    setMarked(new Set());
    setClosing(false);
    setDecided((count) => count + 1);
  };
  const current = items[at];
  useKeys({
    j: () => setSelected(Math.min(items.length - 1, at + 1)),
    k: () => setSelected(Math.max(0, at - 1)),
    a: () => current && decide(current, "approve"),
    r: () => (chosen.length ? setClosing(true) : current && decide(current, "refuse")),
    m: () => current && toggle([current]),
    "*": () => toggle(items),
    e: () => current?.becomes_rule && setWording(current),
    Escape: () => (chosen.length ? setMarked(new Set()) : go("told")),
  });
  const all = Object.values(counts).reduce((sum, count) => sum + count, 0);
  return html`
    <p class="muted">${t.told.inboxIntro}</p>
    ${data && html`<${Judge} judge=${data.judge} />`}
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${!data && !error && html`<${Skeleton} lines=${8} />`}
    ${all > 0 && html`<div class="filters" role="group" aria-label=${t.told.filterLabel}>${["", ...KINDS].filter((name) => !name || counts[name]).map((name) => html`<button type="button" class="chip ${kind === name ? "active" : ""}" aria-pressed=${kind === name} onClick=${() => refine({ kind: name })}>${name ? t.told.kindsOf[name] : t.told.kinds[""]} ${(name ? counts[name] : all).toLocaleString("en")}</button>`)}</div>`}
    ${data && !items.length && html`<${Notice} kind="calm"><p>${t.told.inboxEmpty}</p><//>`}
    ${items.some(isStatement) && html`<div class="line inbox-bulk"><button type="button" class="small" onClick=${() => toggle(items)}>${t.told.markAll(items.filter(isStatement).length)}</button>
      ${chosen.length > 0 && html`<button type="button" class="small danger" onClick=${() => setClosing(true)}>${t.told.closeMarked(chosen.length)}</button>`}</div>`}
    ${groups.map((members) => html`<section key=${groupOf(members[0])} class="inbox-group"><h2><${DayName} day=${localTime(members[0].date).slice(0, 10)} /> <span class="muted">${visible(baseName(members[0].project))}</span>
        ${members.filter(isStatement).length > 1 && html`<button type="button" class="small" onClick=${() => toggle(members)}>${t.told.markDay(members.filter(isStatement).length)}</button>`}</h2>
      <ul class="inbox">${members.map((item) => html`<${Item} key=${keyOf(item)} item=${item} selected=${item === items[at]} marked=${marked.has(keyOf(item))} onMark=${() => toggle([item])} onSelect=${() => setSelected(items.indexOf(item))} decide=${decide} onWord=${() => setWording(item)} />`)}</ul></section>`)}
    ${data && data.total_count > items.length && html`<p class="muted">${t.told.shown(items.length, data.total_count)} ${limit < 1000 && html`<button type="button" onClick=${() => setLimit(1000)}>${t.timeline.older}</button>`}</p>`}
    ${closing && html`<${Dialog} title=${t.told.closeTitle(chosen.length)} onClose=${() => setClosing(false)}><p>${t.told.closeDoes}</p>
      <footer><button type="button" onClick=${() => setClosing(false)}>${t.cancel}</button><button type="button" class="danger" autofocus onClick=${close}>${t.told.closeMarked(chosen.length)}</button></footer><//>`}
    ${wording && html`<${WordDialog} item=${wording} onClose=${() => setWording(null)} onApprove=${(text) => decide(wording, "approve", { text })} />`}`;
}

// Who may judge, what waits for it, and what it did and cost.
function Judge({ judge }) {
  const who = judge.judge === "none" ? html`${t.told.noJudge} <a href=${address("settings", [], { q: "review.judge" })}>${t.told.allowJudge}</a>.` : t.told.judgeIs(visible(judge.judge));
  const counts = ({ statements, filed, calls, failures, tokens }) => [statements, filed, calls, failures, tokens];
  return html`<div class="judge-state muted"><p>${who}${judge.open > 0 && ` ${t.told.judgeWaits(judge.open, judge.tokens)}`}</p>
    ${judge.problem && html`<${Notice} kind="warn"><p>${visible(judge.problem)}. ${t.told.judgeFailed}</p><//>`}
    ${judge.runs.length > 0 && html`<details><summary>${t.told.judgeRuns}</summary><${Table} label=${t.told.judgeRuns} columns=${t.told.runColumns} numbers=${[2, 3, 4, 5, 6]}>
      <tbody>${judge.runs.map((run) => html`<tr><td><time>${showDate(localTime(run.at))}</time></td><td>${visible(run.judge)}</td>${counts(run).map((count, index) => html`<td class="number">${count.toLocaleString("en")} <span class="only-narrow">${t.told.runColumns[index + 2]}</span></td>`)}</tr>`)}</tbody><//></details>`}</div>`;
}

// The first sentence is the title; lists, which have none, are shown as they are.
function ItemText({ item }) {
  if (isStatement(item)) return html`<p class="markdown said item-title" dir="auto"><${Inline} text=${item.text} /></p>`;
  if (/^\s*([-*+|>#]|\d+[.)])\s/.test(item.text)) return html`<${Markdown} text=${item.text} />`;
  const { title, rest } = splitTitle(item.text);
  return rest === item.text ? html`<${Markdown} text=${item.text} />` : html`<p class="markdown item-title" dir="auto"><${Inline} text=${title} /></p>${rest && html`<${Markdown} text=${rest} />`}`;
}

const KIND_COLOURS = { guard: "warn", rule: "new", statement: "new", proposal: "new" };

function Item({ item, selected, marked, onMark, onSelect, decide, onWord }) {
  const here = project.value || server.value?.project;
  const isGuard = item.kind === "guard";
  const does = item.kind === "import" && item.becomes_rule ? "importRule" : item.kind;
  const open = isGuard ? item.source && address("memory", [item.source]) : address("memory", [item.id]);
  const said = t.told.saidAs[item.type];
  return html`<li class="inbox-item ${selected ? "selected" : ""}" aria-current=${selected ? "true" : null} onClick=${onSelect} onFocusIn=${onSelect}>
    <div class="inbox-head">
      ${isStatement(item) && html`<input type="checkbox" aria-label=${t.told.mark} checked=${marked} onChange=${onMark} />`}
      <${Chip} kind=${KIND_COLOURS[item.kind] || ""}>${t.told.kindsOf[item.kind]}<//>
      ${isStatement(item) ? said && html`<span class="muted small">${said}</span>` : !isGuard && item.type !== item.kind && html`<${Type} type=${item.type} />`}
      ${!isStatement(item) && html`<span class="muted small">${t.told.origin[item.origin] || visible(item.origin)}</span>`}
      ${item.sessions > 1 && html`<${Chip}>${t.told.sessions(item.sessions)}<//>`}
      ${item.project !== here && html`<${Chip} title=${item.project}>${visible(baseName(item.project))}<//>`}
      <span class="grow"></span>
      ${item.session && html`<a class="small" href=${address("timeline", [], { session: item.session })}>${t.told.oneSession} <span class="mono">${visible(shortId(item.session))}</span></a>`}
      ${open && html`<a class="small" href=${open}>${t.memory}</a>`}
      <time class="muted small">${localTime(item.date).slice(11, 16)}</time>
    </div>
    <${ItemText} item=${item} />
    ${isGuard && html`<p><code>${visible(item.conditions)}</code></p>`}
    ${item.about && html`<p class="muted small" dir="auto">${t.told.about} <${Inline} text=${item.about} /></p>`}
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
