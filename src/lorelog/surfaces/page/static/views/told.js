// What agents were told: deliveries by session, guards with their back-test, and an inbox of what waits for a person's word.

import { html, useState, useLoad, useKeys, Chip, Notice, ErrorNotice, Section, visible, showDate, shortId, baseName, plural } from "../ui.js";
import { call, revision, project, session as server } from "../api.js";
import { route, refine, address, go, everywhere } from "../state.js";
import { t } from "../texts.js";
import { localTime } from "./timeline.js";
import { Guards, Rules } from "./told_guards.js";
import { Inbox } from "./told_inbox.js";

const FIRST = 300, FEW = 20;

export default function Told() {
  const part = route.value.path[0] || "";
  const { data: waiting } = useLoad((abort) => call("review.list", { limit: 1, all_projects: everywhere.value }, abort), [project.value, everywhere.value, revision.value.memories, revision.value.deliveries]);
  const Part = { rules: Rules, guards: Guards, inbox: Inbox }[part] || Sessions;
  return html`<div class="told">
    <header class="view-head"><h1>${t.nav.told}</h1>
      <nav class="tabs" aria-label=${t.told.parts}>${Object.entries(t.told.tabs).map(([name, label]) => html`<a href=${address("told", name ? [name] : [])} aria-current=${name === part ? "page" : null}>${label}${name === "inbox" && waiting?.total_count ? html` <span class="badge">${waiting.total_count}</span>` : ""}</a>`)}</nav>
    </header>
    <${Part} /></div>`;
}

function Sessions() {
  const { query } = route.value;
  const [limit, setLimit] = useState(FIRST);
  const filters = { limit, kind: query.kind || "", session: query.session || "", all_projects: everywhere.value };
  const { data, error } = useLoad((abort) => call("delivery.list", filters, abort), [JSON.stringify(filters), project.value, revision.value.deliveries, revision.value.memories]);
  useKeys({ Escape: () => (query.session || query.kind ? go("told") : go("search")) });
  const found = data?.deliveries || [];
  const sessions = Object.entries(Object.groupBy(found, (each) => `${each.host} ${each.session}`));
  return html`
    <div class="filters">
      <label class="inline">${t.told.kindLabel} <select value=${query.kind || ""} onChange=${(event) => refine({ kind: event.target.value })}>
        ${Object.entries(t.told.kinds).map(([value, label]) => html`<option value=${value}>${label}</option>`)}</select></label>
      ${query.session && html`<button type="button" class="chip active" onClick=${() => refine({ session: "" })}>${t.told.only(visible(shortId(query.session)))} ✕</button>`}
      ${data && html`<span class="muted" aria-live="polite">${t.told.total(data.total_count, data.total_tokens)}</span>`}
    </div>
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${!data && !error && html`<p class="muted">${t.loading}</p>`}
    ${data && !found.length && html`<${Notice} kind="calm"><p>${query.kind || query.session ? t.told.emptyFilter : t.told.empty}</p><//>`}
    ${sessions.map(([key, deliveries]) => html`<${SessionDeliveries} key=${key} deliveries=${deliveries} />`)}
    ${data && data.total_count > found.length && limit < 1000 && html`<p><button type="button" onClick=${() => setLimit(1000)}>${t.timeline.older}</button></p>`}
    <${Balance} />`;
}

function SessionDeliveries({ deliveries }) {
  const [{ host, session, project: place }] = deliveries;
  const here = project.value || server.value?.project;
  const memories = deliveries.flatMap(({ memories: each }) => each);
  const known = memories.filter(({ used }) => used !== null);
  const tokens = deliveries.reduce((sum, each) => sum + each.tokens, 0);
  const first = localTime(deliveries.at(-1).at);
  const ordered = [...deliveries].sort((a, b) => a.at.localeCompare(b.at));
  return html`<section class="told-session">
    <h2><strong>${visible(host)}</strong> <a class="mono" href=${address("timeline", [], { session })} title=${t.told.timeline}>${visible(shortId(session))}</a>
      ${place !== here && html`<${Chip} title=${place}>${visible(baseName(place))}<//>`}
      <time class="muted">${showDate(first)}</time>
      <span class="grow"></span><span class="muted">${t.told.session(known.filter(({ used }) => used).length, known.length)} · ${plural(tokens, "token")}</span></h2>
    <div class="scroll-x" tabIndex="0" role="region" aria-label=${`${host} ${shortId(session)}`}><table class="told-table"><thead><tr>${t.told.columns.map((name) => html`<th scope="col" class=${name === t.told.columns[5] ? "number" : ""}>${name}</th>`)}</tr></thead>
      ${ordered.map((each) => html`<${DeliveryRows} each=${each} day=${first.slice(0, 10)} />`)}
    </table></div></section>`;
}

function Use({ memory, kind }) {
  if (memory.used) return html`<span class="use yes">${t.told.how[memory.how] || visible(memory.how)}</span>`;
  // A rule of the list at the start that is silently obeyed leaves no sign: only a memory that a match brought may be of no use.
  return html`<span class="use ${memory.used === false && kind !== "standing" ? "no" : ""}">${memory.used === false ? t.told.noSign : t.card.unknownUse}</span>`;
}

function DeliveryRows({ each, day }) {
  const at = localTime(each.at);
  const because = each.guard
    ? html`<a href=${address("told", ["guards"])}>${visible(shortId(each.guard))}</a> ${t.told.action[each.action] || visible(each.action)}`
    : html`${each.cue ? html`<code>${visible(each.cue)}</code>` : t.told.because[each.kind] || visible(each.kind)}${each.action && html` · ${t.told.action[each.action] || visible(each.action)}`}`;
  const rows = each.memories.length ? each.memories : [null];
  return html`<tbody>${rows.map((memory, index) => html`<tr>
    ${index === 0 && html`<td rowSpan=${rows.length}><time>${at.startsWith(day) ? at.slice(11) : showDate(at)}</time></td>
      <td rowSpan=${rows.length}>${t.told.moments[each.moment] || visible(each.moment)}</td>
      <td rowSpan=${rows.length} class="because">${because}</td>`}
    <td class="what">${memory && html`${memory.type && html`<${Chip} kind="type">${visible(memory.type)}<//> `}<a href=${address("memory", [memory.id])} dir="auto">${visible(memory.text) || html`<span class="muted">${shortId(memory.id)} ${t.told.gone}</span>`}</a>`}</td>
    <td>${memory && html`<${Use} memory=${memory} kind=${each.kind} />`}</td>
    ${index === 0 && html`<td rowSpan=${rows.length} class="number">${each.tokens}</td>`}</tr>`)}</tbody>`;
}

// What each memory cost, and what was seen of its use; the most expensive first.
function Balance() {
  const [limit, setLimit] = useState(FEW);
  const { data } = useLoad((abort) => call("delivery.balance", { limit, all_projects: everywhere.value }, abort), [limit, everywhere.value, project.value, revision.value.deliveries, revision.value.memories]);
  if (!data?.total_count) return null;
  const signs = (memory) => Object.entries(memory.signs).map(([sign, count]) => `${t.told.times(count)} ${t.told.how[sign] || sign}`).join(", ");
  return html`<${Section} title=${t.told.balance} aside=${data.sinking ? t.told.sinking(data.sinking, data.sinking_delivered) : ""}>
    <div class="scroll-x" tabIndex="0" role="region" aria-label=${t.told.balance}><table class="told-table"><thead><tr>${t.told.balanceColumns.map((name, index) => html`<th scope="col" class=${index < 2 ? "number" : ""}>${name}</th>`)}</tr></thead>
      <tbody>${data.memories.map((memory) => html`<tr>
        <td class="number">${t.told.times(memory.delivered)}</td><td class="number">${memory.tokens.toLocaleString("en")}</td>
        <td><span class="use ${memory.used ? "yes" : memory.sinks ? "no" : ""}">${signs(memory) || t.told.noSign}</span></td>
        <td>${memory.contradicted ? t.told.times(memory.contradicted) : ""}</td>
        <td class="what">${memory.type && html`<${Chip} kind="type">${visible(memory.type)}<//> `}<a href=${address("memory", [memory.id])} dir="auto">${visible(memory.text)}</a> ${memory.sinks && html`<${Chip} kind="warn">${t.told.sinks}<//>`}</td>
        <td><time class="muted">${showDate(memory.last).slice(0, 10)}</time></td></tr>`)}</tbody></table></div>
    ${data.total_count > data.memories.length && limit < 1000 && html`<p><button type="button" onClick=${() => setLimit(1000)}>${t.told.all}</button></p>`}<//>`;
}
