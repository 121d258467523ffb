// Failures of agents' commands: each error once, how often it came back, and what fixed it. An error can also be asked about in its own words.

import { html, useState, useLoad, useKeys, Notice, ErrorNotice, Inline, Skeleton, splitTitle, localTime, visible, showDate, shortId, shortPath, plural } from "../ui.js";
import { call, revision, project } from "../api.js";
import { route, refine, address, go, everywhere } from "../state.js";
import { t } from "../texts.js";

const f = t.failures;
const LIMIT = 500;
const named = ({ error_type: type, error_message: message }) => [type, message].filter(Boolean).join(": ");

export function Failures() {
  const { error: asked = "" } = route.value.query;
  const [text, setText] = useState(asked);
  const { data, error } = useLoad((abort) => call("debug.find_errors", { source: "turn", limit: LIMIT, include_frames: false, all_projects: everywhere.value }, abort), [everywhere.value, project.value, revision.value.memories]);
  useKeys({ Escape: () => (asked ? refine({ error: "" }) : go("told")) });
  const ask = (event) => {
    event.preventDefault();
    refine({ error: text.trim() });
  };
  const latest = new Map((data?.errors || []).toReversed().map((each) => [each.error_signature, each]));
  return html`<p class="muted">${f.intro}</p>
    <form class="filters ask-error" role="search" onSubmit=${ask}><input type="search" class="grow mono" aria-label=${f.ask} placeholder=${f.ask} value=${text} onInput=${(event) => { setText(event.currentTarget.value); if (!event.currentTarget.value) refine({ error: "" }); }} /><button>${f.askVerb}</button></form>
    ${asked && html`<section class="failure" aria-label=${f.ask}><${Remedies} text=${asked} /></section>`}
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${!data && !error && html`<${Skeleton} lines=${6} />`}
    ${data && !data.groups.length && html`<${Notice} kind="calm"><p>${f.empty}</p><//>`}
    <ul class="failures">${(data?.groups || []).map((group, index) => html`<${Failure} key=${group.error_signature} group=${group} last=${latest.get(group.error_signature)} open=${index === 0 && !asked} />`)}</ul>`;
}

function Failure({ group, last, open }) {
  const [shown, setShown] = useState(open);
  return html`<li class="failure"><h2 class="mono">${visible(named(group))}</h2>
    ${last?.command && html`<p><span class="muted">${f.command}</span> <code>${visible(last.command)}</code></p>`}
    <p class="line small muted"><span>${f.times(group.times, group.sessions)}</span><span>${f.last} <time>${showDate(localTime(group.last_formatted))}</time></span>
      ${last?.session_id && html`<span>${visible(last.host)} <a class="mono" href=${address("timeline", [], { session: last.session_id })}>${visible(shortId(last.session_id))}</a></span>`}</p>
    <details class="back-test" open=${shown} onToggle=${(event) => setShown(event.currentTarget.open)}><summary>${f.remedies}</summary>${shown && html`<${Remedies} text=${named(group)} />`}</details></li>`;
}

const first = (note) => splitTitle(note).title.replace(/^User asked:\s*/, "");

// What `lorelog why` says: the change after which the command passed, what was done about it, and who mentions it.
function Remedies({ text }) {
  const { data, error } = useLoad((abort) => call("debug.why", { text, all_projects: everywhere.value }, abort), [text, everywhere.value, project.value, revision.value.memories]);
  if (error) return html`<${ErrorNotice} error=${error} />`;
  if (!data) return html`<${Skeleton} lines=${2} />`;
  const mention = (item) => html`<li><time class="muted small">${showDate(item.date)}</time> <a href=${item.record ? address("records", ["evidence", item.record]) : address("memory", [item.id])} dir="auto"><${Inline} text=${item.snippet} /></a></li>`;
  const lists = [
    [f.fixed, data.fixes.map((fix) => html`<li><code>${visible(fix.command)}</code> ${f.passed(showDate(localTime(fix.passed_at)))}${fix.files.length > 0 && html` ${f.changed} ${fix.files.map((file, index) => html`${index ? ", " : ""}<code title=${file}>${visible(shortPath(file))}</code>`)}`}${fix.memory && html`: <a class="title" href=${address("memory", [fix.memory])} dir="auto"><${Inline} text=${first(fix.text) || t.memory} /></a>`}</li>`)],
    [f.turns, data.turns.map((turn) => html`<li><time class="muted small">${showDate(turn.date)}</time> <a class="title" href=${address("memory", [turn.memory || turn.id])} dir="auto"><${Inline} text=${first(turn.text)} /></a>${outcome(turn.text)}</li>`)],
    [f.decisions, data.decisions.map(mention)],
    [f.tasks, data.tasks.map(mention)],
    [f.memories, data.memories.map(mention)],
  ].filter(([, items]) => items.length);
  return html`${!lists.length && html`<p class="muted">${data.seen_before ? f.nothing : f.neverSeen}</p>`}
    ${lists.length > 0 && !data.fixes.length && html`<p class="muted small">${data.seen_before ? f.noFix : f.neverSeen}</p>`}
    ${lists.length > 0 && html`<dl class="facts remedies">${lists.map(([name, items]) => html`<div><dt>${name}</dt><dd><ul class="plain-list">${items}</ul></dd></div>`)}</dl>`}`;
}

function outcome(note) {
  const said = note.match(/^- Outcome: (.+)$/m)?.[1];
  return said && html`<p class="outcome" dir="auto"><${Inline} text=${said} /></p>`;
}
