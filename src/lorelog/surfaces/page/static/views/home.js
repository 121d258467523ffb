// What is new, on one screen: the last session, what waits for a word, and what agents were shown. Each part leads to its view.

import { html, useLoad, Day, Icon, Inline, ErrorNotice, Skeleton, Type, visible, shortId, baseName, plural } from "../ui.js";
import { call, revision, project, session as server } from "../api.js";
import { address, everywhere, waiting } from "../state.js";
import { t } from "../texts.js";

const FEW = 4;

function useCall(op, args, subjects) {
  const scope = { ...args, all_projects: everywhere.value };
  return useLoad((abort) => call(op, scope, abort), [everywhere.value, project.value, ...subjects.map((subject) => revision.value[subject])]);
}

export default function Home() {
  return html`<div class="home-parts"><${LastSession} /><${Waiting} /><${Shown} /></div>`;
}

function Part({ icon, title, aside, href, link, load, children }) {
  const { data, error } = load;
  return html`<section class="home-part"><header><h2><${Icon} name=${icon} />${title}</h2>${aside && html`<span class="muted">${aside}</span>`}<a href=${href}>${link}</a></header>
    ${error ? html`<${ErrorNotice} error=${error} />` : data ? children() : html`<${Skeleton} />`}</section>`;
}

const Row = ({ href, children, under, end }) => html`<li><a href=${href}><span class="home-text" dir="auto">${children}</span>${under && html`<span class="home-text home-under" dir="auto"><${Inline} text=${under} /></span>`}</a>${end}</li>`;

function LastSession() {
  const load = useCall("session.timeline", { limit: 60 }, ["memories", "sessions"]);
  const last = (load.data?.sessions || []).filter(({ session, turns }) => session && turns.length).reduce((newest, each) => (newest && newest.ended >= each.ended ? newest : each), null);
  const here = project.value || server.value?.project;
  return html`<${Part} icon="session" title=${t.home.session} load=${load} href=${address("timeline")} link=${t.nav.timeline}
    aside=${last && html`${visible(last.host)} · <${Day} date=${last.ended || last.day} />${last.project !== here ? ` · ${visible(baseName(last.project))}` : ""}`}>${() =>
    last
      ? html`<ul class="home-list">${last.turns.slice(-3).map((turn) => html`<${Row} key=${turn.memory} href=${address("memory", [turn.memory])} under=${turn.outcome}><${Inline} text=${turn.asked} /><//>`)}</ul>
        <p class="muted small">${plural(last.turns.length, "request")}${last.deliveries ? `, ${t.timeline.shown(last.deliveries, last.tokens)}` : ""} · <a href=${address("timeline", [], { session: last.session })}>session ${visible(shortId(last.session))}</a></p>`
      : html`<p class="muted">${t.home.noSession}</p>`}<//>`;
}

function Waiting() {
  const load = waiting.value;
  const { items = [], total_count: total = 0 } = load.data || {};
  return html`<${Part} icon="inbox" title=${t.home.waiting} aside=${total > 0 && html`<span class="badge">${total.toLocaleString("en")}</span>`} load=${load} href=${address("told", ["inbox"])} link=${t.nav.inbox}>${() =>
    items.length
      ? html`<ul class="home-list">${items.map((item) => html`<${Row} key=${`${item.kind} ${item.id}`} href=${address("told", ["inbox"])} end=${html`<span class="muted small">${t.told.kindsOf[item.kind]}</span>`}><${Inline} text=${item.text} /><//>`)}</ul>
        ${total > items.length && html`<p class="small"><a href=${address("told", ["inbox"])}>${t.home.moreWait(total - items.length)}</a></p>`}`
      : html`<p class="muted">${t.told.inboxEmpty}</p>`}<//>`;
}

function Shown() {
  const load = useCall("delivery.list", { limit: 40 }, ["deliveries", "memories"]);
  const { deliveries = [], total_count: total = 0 } = load.data || {};
  const shown = deliveries.flatMap((each) => each.memories.map((memory) => ({ ...memory, at: each.at, host: each.host })));
  const newest = [...new Map(shown.toReversed().map((memory) => [memory.id, memory])).values()].toReversed().sort((a, b) => Number(b.used === true) - Number(a.used === true)).slice(0, FEW);
  const use = (memory) => (memory.used ? t.card.used : memory.used === false ? t.card.unused : t.card.unknownUse);
  return html`<${Part} icon="told" title=${t.home.shown} aside=${total > 0 && t.home.shownOf(newest.length, total)} load=${load} href=${address("told")} link=${t.told.tabs[""]}>${() =>
    newest.length
      ? html`<ul class="home-list">${newest.map((memory) => html`<${Row} key=${memory.id} href=${address("memory", [memory.id])} end=${html`<span class="use ${memory.used ? "yes" : ""}">${use(memory)}</span>`}><${Type} type=${memory.type} /> <${Inline} text=${memory.text} /><//>`)}</ul>`
      : html`<p class="muted">${t.told.empty}</p>`}<//>`;
}
