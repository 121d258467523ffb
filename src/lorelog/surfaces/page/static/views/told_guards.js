// Rules compared with what agents did. Guards: what they match, who wrote them, their back-test over captured calls, and every verb on them.

import { html, useState, useLoad, useKeys, Chip, Notice, ErrorNotice, Dialog, Inline, Skeleton, inlineText, localTime, visible, showDate, shortId } from "../ui.js";
import { call, revision, project } from "../api.js";
import { address, go, everywhere, say } from "../state.js";
import { t } from "../texts.js";
import { Table } from "./told_table.js";

export function Guards() {
  const [adding, setAdding] = useState(false);
  const { data, error } = useLoad((abort) => call("guard.list", { all_projects: everywhere.value }, abort), [everywhere.value, project.value, revision.value.deliveries]);
  const { data: inbox } = useLoad((abort) => call("review.list", { kind: "guard", limit: 200, all_projects: everywhere.value }, abort), [data]);
  const waits = new Set((inbox?.items || []).map(({ id }) => id));
  useKeys({ Escape: () => go("told") });
  return html`
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${!data && !error && html`<${Skeleton} lines=${6} />`}
    ${(data?.notices || []).map((notice) => html`<${Notice} kind="warn">${visible(notice)}<//>`)}
    ${data && !data.guards.length && html`<${Notice} kind="calm"><p>${t.told.noGuards}</p><//>`}
    <ul class="guards">${(data?.guards || []).map((guard, index) => html`<${Guard} key=${guard.id} guard=${guard} waits=${waits.has(guard.id)} open=${index === 0} />`)}</ul>
    <p><button type="button" onClick=${() => setAdding(true)}>${t.told.addGuard}</button></p>
    ${adding && html`<${AddGuard} onClose=${() => setAdding(false)} />`}`;
}

const scope = (guard) => (guard.project ? { project: guard.project } : {});

function Guard({ guard, waits, open }) {
  const [error, setError] = useState(null);
  const act = async (op, args, text, undo = null) => {
    try {
      const reply = await call(op, { id: guard.id, ...scope(guard), ...args });
      setError(null);
      say(reply.notes[0] || text, undo);
    } catch (problem) {
      setError(problem);
    }
  };
  const restore = async () => {
    const { tool, paths, command, content, message, action, memory, id } = guard;
    try {
      await call("guard.add", { tool, paths, command, content, message, action, memory, to_global: !guard.project, ...scope(guard) });
      if (on) await call("guard.enable", { id, action, ...scope(guard) });
    } catch (problem) {
      say(problem.message);
    }
  };
  const on = guard.state === "on";
  return html`<li class="guard ${on ? "" : "off"}">
    <div class="guard-head">
      <h2 class="guard-message" dir="auto"><${Inline} text=${guard.message} /></h2>
      <${Chip} kind=${on ? (guard.action === "block" ? "bad" : "warn") : ""}>${on ? t.told.action[guard.action] : t.told.guardState[guard.state] || guard.state}<//>
      ${waits && html`<a class="chip warn" href=${address("told", ["inbox"], { kind: "guard" })}>${t.told.waits}</a>`}
      ${guard.dismissals > 0 && html`<${Chip} kind="warn">${t.told.dismissals(guard.dismissals)}<//>`}
    </div>
    <p class="line small muted"><${Conditions} guard=${guard} /><span class="grow"></span>
      <span>${guard.approved && guard.created_by === "agent" ? t.told.approved : t.told.by[guard.created_by] || ""} · ${localTime(guard.created).slice(0, 10)}${guard.project ? "" : ` · ${t.told.everywhere}`}</span>
      ${guard.memory && html`<a href=${address("memory", [guard.memory])}>${t.told.from}</a>`}<span class="mono">${visible(guard.id)}</span></p>
    ${error && html`<${ErrorNotice} error=${error} />`}
    <div class="verbs" role="group" aria-label=${inlineText(guard.message)}>
      ${on ? html`<button type="button" onClick=${() => act("guard.change", { change: "disable" }, t.told.saySwitched("off"))}>${t.told.turnOff}</button>` : html`
        <button type="button" onClick=${() => act("guard.enable", { action: "warn" }, t.told.saySwitched("on"))}>${t.told.turnOn}</button>
        <button type="button" onClick=${() => act("guard.enable", { action: "block" }, t.told.saySwitched("on"))}>${t.told.turnOnBlock}</button>`}
      ${on && html`<button type="button" onClick=${() => act("guard.change", { change: "dismiss" }, t.told.sayDismissed)}>${t.told.dismiss}</button>`}
      <button type="button" class="danger" onClick=${() => act("guard.change", { change: "remove" }, t.told.sayRemoved, restore)}>${t.told.remove}</button>
      ${on && html`<span class="muted small">${t.told.dismiss}: ${t.told.dismissDoes}</span>`}
    </div>
    <${BackTest} id=${guard.id} project=${guard.project} open=${open} />
  </li>`;
}

export function Conditions({ guard }) {
  const parts = [["tool", guard.tool], ["command", guard.command], ["content", guard.content], ["paths", guard.paths.join(", ")]].filter(([, value]) => value);
  return html`<span class="conditions">${parts.map(([name, value]) => html`<span class="muted">${t.told.conditions[name]}</span> <code>${visible(value)}</code> `)}</span>`;
}

const verdictOf = (reply) => (reply.hit_count ? t.told.caught(reply.hit_count, reply.total, reply.corrected) : reply.verdict);

// Replay a guard over all captured calls, when it is opened: that may read many conversations.
export function BackTest({ id, project: place, open = false }) {
  const [shown, setShown] = useState(open);
  const { data, error } = useLoad((abort) => (shown ? call("guard.test", { id, limit: 20, ...(place ? { project: place } : {}) }, abort) : null), [id, shown]);
  return html`<details class="back-test" open=${shown} onToggle=${(event) => setShown(event.currentTarget.open)}>
    <summary>${t.told.test}${data && html`: <strong>${visible(verdictOf(data))}</strong>`}</summary>
    ${shown && !data && !error && html`<p class="muted small">${t.told.testing}</p>`}
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${data && html`
      ${data.refused && html`<${Notice} kind="warn" title=${t.told.refusedBy}><p>${visible(data.refused)}</p><//>`}
      ${data.notes.map((note) => html`<${Notice}>${visible(note)}<//>`)}
      <ul class="plain-list">${data.hits.map((hit) => html`<${Hit} hit=${hit} />`)}</ul>`}
  </details>`;
}

function Hit({ hit }) {
  return html`<li class="replay-hit"><div>
        <time class="muted">${showDate(localTime(hit.at))}</time> ${visible(hit.host)} <a class="mono small" href=${address("timeline", [], { session: hit.session_id })}>${visible(shortId(hit.session_id))}</a>
        <code>${visible(hit.call)}</code> ${visible(hit.verdict)} <span class="use ${hit.corrected ? "against" : ""}">${hit.corrected ? t.told.youCorrected : t.told.notCorrected}</span></div>
        ${hit.statement && html`<blockquote class="said" dir="auto">${visible(hit.statement)}</blockquote>`}</li>`;
}

export function Rules() {
  const { data, error } = useLoad((abort) => call("guard.rules", {}, abort), [project.value, revision.value.memories]);
  useKeys({ Escape: () => go("told") });
  const isTelling = (rule) => rule.forbids || rule.followed || rule.corrected;
  const [telling, others] = [(data?.rules || []).filter(isTelling), (data?.rules || []).filter((rule) => !isTelling(rule))];
  return html`<p class="muted">${t.told.rulesIntro}</p>
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${!data && !error && html`<${Skeleton} lines=${6} />`}
    ${data && !telling.length && html`<${Notice} kind="calm"><p><${Inline} text=${t.told.noRules} /></p><//>`}
    ${telling.length > 0 && html`<p class="muted" aria-live="polite">${t.told.rulesTotal(telling.length, data.total)}</p>
      <${Table} label=${t.told.tabs.rules} columns=${t.told.ruleColumns} numbers=${[1, 2, 3, 4]}>${telling.map((rule) => html`<${RuleRow} key=${rule.id} rule=${rule} />`)}<//>`}
    ${others.length > 0 && html`<details class="back-test"><summary>${t.told.uncheckable(others.length)}</summary><ul class="plain-list">${others.map((rule) => html`<li dir="auto"><${RuleText} rule=${rule} /></li>`)}</ul></details>`}`;
}

const RuleText = ({ rule }) => html`${rule.is_line && html`<code>${visible(rule.id)}</code> `}<${Inline} text=${rule.text} />`;

// How often a rule was followed and broken, of the calls that it applies to: what is left of the bar shows neither.
function RuleRow({ rule }) {
  const counts = [["followed", rule.followed], ["broken", rule.broken], ["corrected", rule.corrected]];
  const share = (count) => ({ width: `${(100 * count) / Math.max(1, rule.applies)}%` });
  return html`<tbody><tr>
    <td class="what"><${RuleCalls} rule=${rule} /></td>
    <td class="number">${rule.applies > 0 && html`<span class="adherence" aria-hidden="true"><i class="yes" style=${share(rule.followed)}></i><i class="against" style=${share(rule.broken)}></i></span>`}${rule.applies.toLocaleString("en")} <span class="only-narrow">${rule.applies === 1 ? t.told.call : t.told.calls}</span></td>
    ${counts.map(([name, count]) => html`<td class="number">${count > 0 && html`<span class="use ${name === "followed" ? "yes" : "against"}">${count.toLocaleString("en")} <span class="only-narrow">${t.told[name]}</span></span>`}</td>`)}
    <td><time class="muted">${rule.last_broken && showDate(localTime(rule.last_broken)).slice(0, 10)}</time></td></tr></tbody>`;
}

function RuleCalls({ rule }) {
  const [shown, setShown] = useState(false);
  const { data, error } = useLoad((abort) => (shown ? call("guard.rules", { id: rule.id, limit: 50 }, abort) : null), [rule.id, shown]);
  return html`<details class="back-test" open=${shown} onToggle=${(event) => setShown(event.currentTarget.open)}>
    <summary dir="auto"><${RuleText} rule=${rule} />${rule.rests && html` <${Chip}>${t.told.rests}<//>`}</summary>
    ${shown && !data && !error && html`<${Skeleton} lines=${2} />`}
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${data && !data.calls.length && html`<p class="muted small">${t.told.noCalls}</p>`}
    <ul class="plain-list">${(data?.calls || []).map((hit) => html`<${Hit} hit=${hit} />`)}</ul>
    ${!rule.is_line && html`<p class="small"><a href=${address("memory", [rule.id])}>${t.told.openRule}</a></p>`}</details>`;
}

function AddGuard({ onClose }) {
  const [fields, setFields] = useState({ command: "", paths: "", content: "", message: "", block: false });
  const [error, setError] = useState(null);
  const [tested, setTested] = useState(null);
  const set = (name) => (event) => setFields({ ...fields, [name]: event.target.type === "checkbox" ? event.target.checked : event.target.value });
  const conditions = { command: fields.command, content: fields.content, paths: fields.paths.split(",").map((path) => path.trim()).filter(Boolean) };
  const run = async (work) => {
    try {
      setError(null);
      await work();
    } catch (problem) {
      setError(problem);
    }
  };
  const test = () => run(async () => setTested(await call("guard.test", { ...conditions, limit: 5 })));
  const add = (event) => {
    event.preventDefault();
    run(async () => {
      const reply = await call("guard.add", { ...conditions, message: fields.message, action: fields.block ? "block" : "warn" });
      say(reply.notes[0] || t.told.sayAdded);
      onClose();
    });
  };
  return html`<${Dialog} title=${t.told.addGuard.replace("…", "")} onClose=${onClose}><form onSubmit=${add}>
    ${Object.entries(t.told.guardFields).map(([name, label]) => html`<label>${label}<input name=${name} class=${name === "message" ? "" : "mono"} maxlength=${name === "message" ? 400 : 300} value=${fields[name]} onInput=${set(name)} autocomplete="off" /></label>`)}
    <label class="inline"><input type="checkbox" checked=${fields.block} onChange=${set("block")} /> ${t.told.guardBlocks}</label>
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${tested && html`<${Notice} kind=${tested.refused ? "warn" : "calm"} title=${visible(verdictOf(tested))}>${tested.refused && html`<p>${visible(tested.refused)}</p>`}<//>`}
    <footer><button type="button" onClick=${test}>${t.told.test}</button><button type="submit" class="primary" disabled=${!fields.message.trim()}>${t.told.add}</button></footer>
  </form><//>`;
}
