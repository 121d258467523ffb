// What agents were shown: deliveries by session, what each memory cost, rules, failures, guards, and an inbox of what waits for a person's word.

import { html, lazy, useState, useLoad, useKeys, Chip, Notice, ErrorNotice, Skeleton, localTime, visible, showDate, shortId, baseName, plural } from "../ui.js";
import { call, revision, project, session as server } from "../api.js";
import { route, refine, address, go, everywhere } from "../state.js";
import { t } from "../texts.js";
import { MemoryLink, Table } from "./told_table.js";

const FIRST = 300, FEW = 50;
const guards = () => import("./told_guards.js");
const PARTS = { balance: Balance, rules: lazy(guards, "Rules"), failures: lazy(() => import("./told_failures.js"), "Failures"), guards: lazy(guards, "Guards"), inbox: lazy(() => import("./told_inbox.js"), "Inbox") };

export default function Told() {
  const part = PARTS[route.value.path[0]] ? route.value.path[0] : "";
  const Part = PARTS[part] || Sessions;
  return html`<div class="told">
    <header class="view-head"><h1>${part === "inbox" ? t.nav.inbox : t.nav.told}</h1>
      ${part !== "inbox" && html`<nav class="tabs" aria-label=${t.told.parts}>${Object.entries(t.told.tabs).map(([name, label]) => html`<a href=${address("told", name ? [name] : [])} aria-current=${name === part ? "page" : null}>${label}</a>`)}</nav>`}
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
  const hasGuards = found.some(({ guard }) => guard);
  const { data: listed } = useLoad((abort) => (hasGuards ? call("guard.list", { all_projects: everywhere.value }, abort) : null), [hasGuards, everywhere.value, project.value, revision.value.deliveries]);
  const guards = new Map((listed?.guards || []).map((guard) => [guard.id, guard]));
  const sessions = Object.entries(Object.groupBy(found, (each) => `${each.host} ${each.session}`));
  return html`
    <div class="filters">
      <label class="inline">${t.told.kindLabel} <select value=${query.kind || ""} onChange=${(event) => refine({ kind: event.target.value })}>
        ${Object.entries(t.told.kinds).map(([value, label]) => html`<option value=${value}>${label}</option>`)}</select></label>
      ${query.session && html`<button type="button" class="chip active" onClick=${() => refine({ session: "" })}>${t.told.only(visible(shortId(query.session)))} ✕</button>`}
      ${data && html`<span class="muted" aria-live="polite">${t.told.total(data.total_count, data.total_tokens)}</span>`}
    </div>
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${!data && !error && html`<${Skeleton} lines=${8} />`}
    ${data && !found.length && html`<${Notice} kind="calm"><p>${query.kind || query.session ? t.told.emptyFilter : t.told.empty}</p><//>`}
    ${sessions.map(([key, deliveries]) => html`<${SessionDeliveries} key=${key} deliveries=${deliveries} guards=${guards} />`)}
    ${data && data.total_count > found.length && limit < 1000 && html`<p><button type="button" onClick=${() => setLimit(1000)}>${t.timeline.older}</button></p>`}`;
}

function SessionDeliveries({ deliveries, guards }) {
  const [{ host, session, project: place }] = deliveries;
  const here = project.value || server.value?.project;
  const memories = deliveries.flatMap(({ memories: each }) => each);
  const known = memories.filter(({ used }) => used !== null);
  const tokens = deliveries.reduce((sum, each) => sum + each.tokens, 0);
  const first = localTime(deliveries.at(-1).at);
  const ordered = [...deliveries].sort((a, b) => a.at.localeCompare(b.at));
  return html`<section class="told-session">
    <h2><strong>${visible(host)}</strong> <a href=${address("timeline", [], { session })} title=${t.told.timeline}>${t.told.oneSession} <span class="mono">${visible(shortId(session))}</span></a>
      ${place !== here && html`<${Chip} title=${place}>${visible(baseName(place))}<//>`}
      <time class="muted">${showDate(first)}</time>
      <span class="grow"></span><span class="muted">${t.told.session(known.filter(({ used }) => used).length, known.length)} · ${plural(tokens, "token")}</span></h2>
    <${Table} label=${`${host} ${shortId(session)}`} columns=${t.told.columns} numbers=${[5]}>
      ${ordered.map((each) => html`<${DeliveryRows} each=${each} day=${first.slice(0, 10)} guard=${guards.get(each.guard)} />`)}<//></section>`;
}

// Green: a use was seen. Red: the user was against it. Grey: nothing was seen, or nothing is known yet.
function Use({ memory }) {
  if (memory.how) return html`<span class="use ${memory.used ? "yes" : "against"}">${t.told.how[memory.how] || visible(memory.how)}</span>`;
  return html`<span class="use" title=${memory.used === null ? t.told.unknownWhy : t.told.unusedWhy}>${memory.used === null ? t.told.unknownUse : t.told.noUse}</span>`;
}

function DeliveryRows({ each, day, guard }) {
  const at = localTime(each.at);
  const action = each.action && (t.told.action[each.action] || visible(each.action));
  const because = each.guard
    ? html`<a href=${address("told", ["guards"])}>${t.told.kinds.guard}</a> ${guard && html`<code>${visible(guard.command || guard.content || guard.paths.join(", ") || guard.tool)}</code> `}${action}`
    : html`${each.cue ? html`<code>${visible(each.cue)}</code>` : t.told.because[each.kind] || visible(each.kind)}${action && ` · ${action}`}`;
  const rows = each.memories.length ? each.memories : [null];
  return html`<tbody>${rows.map((memory, index) => html`<tr>
    ${index === 0 && html`<td rowSpan=${rows.length}><time>${at.startsWith(day) ? at.slice(11) : showDate(at)}</time></td>
      <td rowSpan=${rows.length}>${t.told.moments[each.moment] || visible(each.moment)}</td>
      <td rowSpan=${rows.length} class="because">${because}</td>`}
    <td class="what">${memory && html`<${MemoryLink} memory=${memory} />`}</td>
    <td>${memory && html`<${Use} memory=${memory} />`}</td>
    ${index === 0 && html`<td rowSpan=${rows.length} class="number tokens">${each.tokens}</td>`}</tr>`)}</tbody>`;
}

// what each memory cost, and what was seen of its use; the most expensive first

function Balance() {
  const [limit, setLimit] = useState(FEW);
  const unused = Boolean(route.value.query.unused);
  const { data, error } = useLoad((abort) => call("delivery.balance", { limit, unused, all_projects: everywhere.value }, abort), [limit, unused, everywhere.value, project.value, revision.value.deliveries, revision.value.memories]);
  useKeys({ Escape: () => go("told") });
  return html`<p class="muted">${t.told.balanceIntro}</p>
    ${error && html`<${ErrorNotice} error=${error} />`}
    ${!data && !error && html`<${Skeleton} lines=${8} />`}
    ${(data?.sinking > 0 || unused) && html`<div class="filters"><label class="inline"><input type="checkbox" checked=${unused} onChange=${(event) => refine({ unused: event.currentTarget.checked ? "yes" : "" })} />${t.told.onlySinking}</label></div>`}
    ${data?.sinking > 0 && html`<${Notice} kind="warn"><p>${t.told.sinking(data.sinking, data.sinking_delivered)}</p><//>`}
    ${data && !data.total_count && html`<${Notice} kind="calm"><p>${unused ? t.told.noSinking : t.told.empty}</p><//>`}
    ${data?.total_count > 0 && html`<p class="muted" aria-live="polite">${t.told.balanceTotal(data.total_count, data.total_tokens)}</p>
      <${Table} label=${t.told.tabs.balance} columns=${t.told.balanceColumns} numbers=${[1, 2, 4]}>
        ${data.memories.map((memory) => html`<${BalanceRow} key=${memory.id} memory=${memory} />`)}<//>`}
    ${data && data.total_count > data.memories.length && limit < 1000 && html`<p><button type="button" onClick=${() => setLimit(1000)}>${t.told.all}</button></p>`}`;
}

function BalanceRow({ memory }) {
  const signs = Object.entries(memory.signs).map(([sign, count]) => `${t.told.how[sign] || visible(sign)} ${t.told.times(count)}`).join(", ");
  return html`<tbody><tr>
    <td class="what"><${MemoryLink} memory=${memory} /> ${memory.sinks && html`<${Chip} kind="warn" title=${t.told.sinksWhy}>${t.told.sinks}<//>`}</td>
    <td class="number"><span class="only-narrow">${t.told.wasShown} </span>${t.told.times(memory.delivered)}</td>
    <td class="number tokens">${memory.tokens.toLocaleString("en")}</td>
    <td><span class="use ${memory.used ? "yes" : ""}">${signs || (memory.unused ? t.told.noUse : t.told.unknownUse)}</span></td>
    <td class="number">${memory.contradicted > 0 && html`<span class="use against">${t.told.times(memory.contradicted)} <span class="only-narrow">${t.told.contradicted}</span></span>`}</td>
    <td><time class="muted">${showDate(localTime(memory.last)).slice(0, 10)}</time></td></tr></tbody>`;
}
