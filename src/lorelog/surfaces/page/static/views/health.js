// Health and cost: the index, the daemon, the hosts, problems with their remedies, and what grew and was spent, as plots.

import { html, useLayoutEffect, useLoad, useRef, useState, Chip, Copy, ErrorNotice, Icon, Section, Skeleton, captureOf, visible, showDate, shortPath, plural } from "../ui.js";
import { call, loadDaemon, revision, project } from "../api.js";
import { route, everywhere, address, refine } from "../state.js";
import { t } from "../texts.js";

const s = t.health;
const PERIODS = ["7d", "30d", "3m", "1y"];
const PURPOSE_COLOURS = ["--meaning", "--words", "--time", "--entry", "--rerank", "--other"];

const load = (op, args) => (abort) => call(op, args, abort);

export default function HealthView() {
  const { memories, sessions, settings, costs, deliveries } = revision.value;
  const since = PERIODS.includes(route.value.query.since) ? route.value.query.since : "30d";
  const scope = [project.value];
  const stats = useLoad(load("memory.stats", { growth_since: since, all_projects: everywhere.value }), [since, memories, deliveries, everywhere.value, ...scope]);
  const health = useLoad(load("memory.health", { duplicates: 0 }), [memories, settings, ...scope]);
  const hosts = useLoad(load("session.hosts", {}), [sessions, ...scope]);
  const status = useLoad(load("session.status", {}), [sessions, costs, ...scope]);
  const roots = useLoad(load("roots.list", {}), [memories, ...scope]);
  const failed = useLoad(load("debug.find_tool_calls", { errors_only: true, source: "operation", time_from: "7d", limit: 5 }), [memories, ...scope]);
  const daemon = useLoad((abort) => loadDaemon(abort), [sessions, memories]);
  const cost = useLoad(load("memory.cost", { since, by: ["day", "purpose"] }), [since, costs, ...scope]);
  const errors = [stats, health, hosts, status, roots, cost].map((each) => each.error).filter(Boolean);
  const problems = collectProblems(health.data, hosts.data, status.data, daemon);
  return html`<div class="health"><header class="line"><h1>${s.title}</h1><span class="grow"></span>
      <div class="periods" role="group" aria-label=${s.period}>${PERIODS.map((each) => html`<button type="button" aria-pressed=${each === since} onClick=${() => refine({ since: each })}>${s.periods[each]}</button>`)}</div></header>
    ${errors.slice(0, 1).map((error) => html`<${ErrorNotice} error=${error} />`)}
    <div class="tiles"><${IndexTile} stats=${stats.data} roots=${roots.data} /><${DaemonTile} daemon=${daemon.data} /><${HostsTile} hosts=${hosts.data} status=${status.data} /><${WatchTile} roots=${roots.data} daemon=${daemon.data} /></div>
    <${Problems} problems=${problems} ready=${health.data && hosts.data} />
    <div class="plots">
      ${cost.data && html`<${CostPlot} cost=${cost.data} />`}
      ${stats.data && html`<${GrowthPlots} days=${stats.data.growth} />`}
      ${stats.data && html`<${DeliveryPlot} days=${stats.data.deliveries.days} />`}
    </div>
    ${failed.data?.tool_calls.length > 0 && html`<${Section} title=${s.failed} aside=${s.failedWhen}><ul class="plain-list">${failed.data.tool_calls.map((trace) => html`<li><time class="muted">${visible(trace.timestamp_formatted.slice(0, 16))}</time> <code>${visible(trace.tool_name)}</code> ${visible(trace.error)}</li>`)}</ul><//>`}
    <${Checks} checks=${health.data?.checks || []} />
  </div>`;
}

// the state, in four tiles

const megabytes = (bytes) => `${(bytes / 1e6).toFixed(bytes < 1e7 ? 1 : 0)} MB`;
const Tile = ({ title, state, children }) => html`<section class="tile"><h2>${title}${state}</h2>${children}</section>`;
const Fact = ({ name, children }) => html`<div><dt>${name}</dt><dd>${children}</dd></div>`;

function IndexTile({ stats, roots }) {
  if (!stats || !roots) return html`<${Tile} title=${s.index}><${Skeleton} lines=${3} /><//>`;
  const { coverage, documents, id } = stats.project;
  const files = roots.roots.reduce((sum, root) => sum + (root.project === id ? root.documents : 0), 0);
  const share = coverage.chunks ? coverage.with_vectors / coverage.chunks : 1;
  return html`<${Tile} title=${s.index} state=${html`<${Chip} kind=${share === 1 ? "trust" : "warn"}>${s.covered(share)}<//>`}>
    <meter min="0" max="1" low="0.9" optimum="1" value=${share} aria-label=${s.coverage}>${s.covered(share)}</meter>
    <dl class="facts"><${Fact} name=${s.here}>${plural(coverage.chunks, "chunk")}, ${plural(files, "document")}${documents > files && html`, ${plural(documents - files, "page")} of records`}<//>
      <${Fact} name=${s.everywhere}>${plural(stats.chunks, "chunk")}, ${plural(Object.values(stats.projects).filter(Boolean).length, "project")}, ${megabytes(stats.bytes_on_disk)}<//>
      <${Fact} name=${s.model}><span class="mono">${visible(stats.model)}</span><//></dl><//>`;
}

const duration = (seconds) => (seconds < 90 ? `${Math.round(seconds)} s` : seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`);

function DaemonTile({ daemon }) {
  if (!daemon) return html`<${Tile} title=${s.daemon}><${Skeleton} lines=${3} /><//>`;
  if (!daemon.running) return html`<${Tile} title=${s.daemon} state=${html`<${Chip}>${s.stopped}<//>`}><p class="muted small">${s.startsItself}</p><p class="small"><${Copy} text="lorelog daemon start">lorelog daemon start<//></p><//>`;
  return html`<${Tile} title=${s.daemon} state=${html`<${Chip} kind="trust">${s.running}<//>`}>
    <dl class="facts"><${Fact} name=${s.since}>${showDate(daemon.started_at)} (${duration(daemon.uptime_s)})<//>
      <${Fact} name=${s.memory}>${megabytes(daemon.rss_bytes)}, ${plural(daemon.models_loaded || 0, "model")}<//>
      <${Fact} name=${s.calls}>${daemon.calls.toLocaleString("en")}, ${s.callsFailed(daemon.errors)}<//>
      <${Fact} name=${s.version}>lorelog ${visible(daemon.version)}, ${s.process} ${daemon.pid}<//></dl><//>`;
}

const HOST_KINDS = { current: "trust", native: "trust", stale: "warn", missing: "" };

function HostsTile({ hosts, status }) {
  if (!hosts) return html`<${Tile} title=${s.hosts}><${Skeleton} lines=${3} /><//>`;
  const isHere = (host) => host.found || host.installed !== "missing" || host.last_capture;
  const [here, absent] = [hosts.hosts.filter(isHere), hosts.hosts.filter((host) => !isHere(host))];
  return html`<${Tile} title=${s.hosts} state=${status?.waiting ? html`<${Chip} kind="warn">${s.waiting(status.waiting)}<//>` : null}>
    ${here.length > 0 && html`<dl class="facts">${here.map((host) => html`<${Fact} name=${host.title}><${Chip} kind=${HOST_KINDS[host.installed]}>${s.installed[host.installed] || host.installed}<//> <span class="muted">${captureOf(host)}</span><//>`)}</dl>`}
    ${absent.length > 0 && html`<p class="muted small">${s.absent(absent.map((host) => host.title).join(", "))}</p>`}<//>`;
}

function WatchTile({ roots, daemon }) {
  if (!roots) return html`<${Tile} title=${s.watch}><${Skeleton} lines=${3} /><//>`;
  const missing = roots.roots.filter((root) => !root.exists).length;
  const watching = daemon?.running && daemon.watch;
  const state = watching ? html`<${Chip} kind="trust">${s.watching}<//>` : html`<${Chip}>${s.notWatching}<//>`;
  return html`<${Tile} title=${s.watch} state=${missing ? html`<${Chip} kind="bad">${s.missing(missing)}<//>` : state}>
    <ul class="plain-list small">${roots.roots.slice(0, 5).map((root) => html`<li class="line"><span class="mono cut" title=${root.path}>${visible(shortPath(root.path, root.project))}</span><span class="grow"></span><span class="muted">${plural(root.documents, "document")}</span></li>`)}
      ${roots.roots.length > 5 && html`<li class="muted">${s.more(roots.roots.length - 5)}</li>`}</ul><//>`;
}

// problems, each with its remedy

function collectProblems(health, hosts, status, daemon) {
  const problems = (health?.checks || []).filter((check) => !check.ok || check.hint).map((check) => ({ bad: !check.ok, name: check.name, text: check.message, remedy: check.hint }));
  for (const host of hosts?.hosts || []) {
    const remedy = `lorelog hosts install ${host.host}`;
    host.approve.forEach((text) => problems.push({ bad: false, name: host.title, text, remedy: "" }));
    host.warnings.forEach((text) => problems.push({ bad: true, name: host.title, text, remedy: text.includes("lorelog ") ? "" : remedy }));
    if (host.found && host.installed === "missing") problems.push({ bad: false, name: host.title, text: s.notInstalled, remedy });
  }
  if (status?.failed) problems.push({ bad: true, name: s.hosts, text: s.failedEvents(status.failed), remedy: "lorelog hosts status" });
  if (daemon.error) problems.push({ bad: true, name: s.daemon, text: daemon.error.message, remedy: daemon.error.hint });
  const { last_error: last, watch } = daemon.data || {};
  if (last && last.ago_s < 3600) problems.push({ bad: true, name: s.daemon, text: `${last.op}: ${last.message} (${duration(last.ago_s)})`, remedy: `lorelog daemon status` });
  if (watch?.last_error) problems.push({ bad: true, name: s.watch, text: watch.last_error.message, remedy: watch.last_error.hint });
  return problems.sort((a, b) => b.bad - a.bad);
}

// What the page can show instead of the command that lists it.
const LISTED_BY = { "lorelog list --due": ["search", [], { due: "1" }], "lorelog review": ["told", ["inbox"]], "lorelog config show": ["settings"] };
const COMMAND = /^(?:lorelog [\w -]+|chmod .+)$/;

// A remedy is a command, or a sentence that may name commands in quotes: what the page shows itself is a link, others are copied.
function Remedy({ text }) {
  if (LISTED_BY[text]) return html`<a class="button" href=${address(...LISTED_BY[text])}>${s.showIt}</a>`;
  if (COMMAND.test(text)) return html`<${Copy} text=${text}>${visible(text)} <${Icon} name="copy" /><//>`;
  return text.split(/'(lorelog [^']+)'/).map((part, index) => (index % 2 ? html`<${Remedy} text=${part} />` : visible(part)));
}

function Problems({ problems, ready }) {
  if (!ready) return null;
  return html`<${Section} title=${s.problems} aside=${problems.length ? String(problems.length) : s.none}>
    <ul class="problems">${problems.map((problem) => html`<li class=${problem.bad ? "bad" : "warn"}><strong>${visible(problem.name)}</strong><span>${visible(problem.text)}</span><span class="remedy">${problem.remedy && html`<${Remedy} text=${problem.remedy} />`}</span></li>`)}</ul><//>`;
}

function Checks({ checks }) {
  const fine = checks.filter((check) => check.ok && !check.hint);
  if (!fine.length) return null;
  return html`<${Section} title=${s.fine} aside=${String(fine.length)} open=${false}><dl class="facts">${fine.map((check) => html`<${Fact} name=${visible(check.name)}>${visible(check.message)}<//>`)}</dl><//>`;
}

// plots

const count = (value) => (value >= 1e6 ? `${+(value / 1e6).toFixed(1)} M` : value >= 1000 ? `${+(value / 1000).toFixed(value < 1e4 ? 1 : 0)} k` : String(value));
const kilobytes = (value) => (value >= 1e6 ? `${+(value / 1e6).toFixed(1)} MB` : value >= 1000 ? `${Math.round(value / 1000)} kB` : `${value} B`);
const seconds = (day) => Date.parse(`${day}T00:00:00Z`) / 1000;
const DAY_S = 86400;

// All days from the first to today: a day without a value is part of the picture.
function eachDay(first) {
  const days = [];
  const today = new Date(Date.now() - new Date().getTimezoneOffset() * 60000).toISOString().slice(0, 10);
  for (let at = seconds(first); at <= seconds(today); at += DAY_S) days.push(new Date(at * 1000).toISOString().slice(0, 10));
  return days;
}

function CostPlot({ cost }) {
  const days = eachDay(cost.since);
  const spent = (line) => line.tokens_in + line.tokens_out;
  const totals = new Map();
  for (const line of cost.lines) totals.set(line.purpose, (totals.get(line.purpose) || 0) + spent(line));
  const purposes = [...totals.keys()].sort((a, b) => totals.get(b) - totals.get(a));
  const of = (purpose) => days.map((day) => cost.lines.filter((line) => line.day === day && line.purpose === purpose).reduce((sum, line) => sum + spent(line), 0));
  const series = purposes.map((purpose, index) => ({ label: s.purposes[purpose] || purpose, values: of(purpose), colour: PURPOSE_COLOURS[Math.min(index, 5)] }));
  const { total } = cost;
  return html`<figure class="plot wide"><figcaption><h2>${s.bill}</h2><span class="muted">${s.billTotal(count(spent(total)), plural(total.calls, "call"), total.failures)}</span><span class="grow"></span>${cost.today.map((limit) => html`<span class="limit small" title=${limit.setting}><a href=${address("settings", [], { q: limit.setting })}>${s.limits[limit.setting] || limit.setting}</a> ${count(limit.spent)} / ${count(limit.tokens)}</span>`)}</figcaption>
    ${series.length ? html`<${Plot} days=${days} series=${series} stacked format=${count} label=${s.bill} unit=${s.tokens} />` : html`<p class="muted empty">${s.noCost}</p>`}
    ${cost.notes.map((note) => html`<p class="muted small">${visible(note)}</p>`)}</figure>`;
}

function GrowthPlots({ days: grown }) {
  if (!grown.length) return null;
  const days = eachDay(grown[0].day);
  const sums = (name) => {
    const byDay = new Map(grown.map((line) => [line.day, line[name]]));
    let sum = 0;
    return days.map((day) => (sum += byDay.get(day) || 0));
  };
  const chunks = sums("chunks");
  const bytes = sums("bytes");
  const gained = (values) => values.at(-1) - values[0];
  return html`<figure class="plot"><figcaption><h2>${s.indexGrowth}</h2><span class="muted">${count(chunks.at(-1))} ${s.chunks}, +${count(gained(chunks))}</span></figcaption>
      <${Plot} days=${days} series=${[{ label: s.chunks, values: chunks, colour: "--meaning" }]} format=${count} label=${s.indexGrowth} unit=${s.chunks} /></figure>
    <figure class="plot"><figcaption><h2>${s.journalGrowth}</h2><span class="muted">${kilobytes(bytes.at(-1))}, +${kilobytes(gained(bytes))}</span></figcaption>
      <${Plot} days=${days} series=${[{ label: s.bytes, values: bytes, colour: "--words" }]} format=${kilobytes} label=${s.journalGrowth} unit="" /></figure>`;
}

function DeliveryPlot({ days: lines }) {
  const since = new Date(Date.now() - 29 * DAY_S * 1000).toISOString().slice(0, 10);
  const days = eachDay(since);
  const byDay = new Map(lines.map((line) => [line.day, line.tokens]));
  const values = days.map((day) => byDay.get(day) || 0);
  return html`<figure class="plot"><figcaption><h2>${s.shown}</h2><span class="muted">${count(values.reduce((sum, value) => sum + value, 0))} ${s.tokens}, ${s.periods["30d"]}</span></figcaption>
    <${Plot} days=${days} series=${[{ label: s.tokens, values, colour: "--time" }]} stacked format=${count} label=${s.shown} unit=${s.tokens} /></figure>`;
}

const HEIGHT = 150, LEFT = 54, RIGHT = 8, TOP = 8, BOTTOM = 24;
const LABEL_SPACE = 46; // for the name of a day
const MAX_BAR = 28;

// The lines across a plot: at most five, at round numbers.
function steps(high) {
  const unit = 10 ** Math.floor(Math.log10(high / 4));
  const step = [1, 2, 2.5, 5, 10].map((n) => n * unit).find((n) => high / n <= 4 && (n >= 1 || high < 1)) || unit;
  return Array.from({ length: Math.floor(high / step) + 1 }, (_, index) => index * step);
}

// Bars that stand on each other (`stacked`), or lines. The same numbers follow as a table, for readers who do not see the drawing.
function Plot({ days, series, stacked = false, format, label, unit }) {
  const box = useRef(null);
  const [width, setWidth] = useState(0);
  const [at, setAt] = useState(-1);
  useLayoutEffect(() => {
    const observer = new ResizeObserver(() => setWidth(box.current.clientWidth));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  const wide = Math.max(1, (width - LEFT - RIGHT) / days.length);
  const sums = days.map((_, day) => series.reduce((sum, { values }) => sum + values[day], 0));
  const high = Math.max(1, ...(stacked ? sums : series.flatMap(({ values }) => values)));
  const x = (day) => LEFT + (day + 0.5) * wide;
  const y = (value) => HEIGHT - BOTTOM - (value / (high * 1.08)) * (HEIGHT - TOP - BOTTOM);
  const every = [1, 2, 7, 14, 30, 60, 90].find((count) => count * wide >= LABEL_SPACE) || 180;
  const bar = Math.max(1, Math.min(MAX_BAR, wide * 0.7));
  const bars = ({ values, colour }, index) => values.map((value, day) => {
    const below = series.slice(0, index).reduce((sum, each) => sum + each.values[day], 0);
    return value > 0 && html`<rect x=${x(day) - bar / 2} y=${y(below + value)} width=${bar} height=${y(below) - y(below + value)} style=${{ fill: `var(${colour})` }} />`;
  });
  const line = ({ values, colour }) => {
    const points = values.map((value, day) => `${x(day)} ${y(value)}`).join("L");
    return html`<g style=${{ color: `var(${colour})` }}><path class="area" d=${`M${x(0)} ${y(0)}L${points}L${x(days.length - 1)} ${y(0)}Z`} /><path class="stroke" d=${`M${points}`} /></g>`;
  };
  const pointed = (event) => setAt(Math.max(0, Math.min(days.length - 1, Math.floor((event.clientX - box.current.getBoundingClientRect().left - LEFT) / wide))));
  const rows = days.map((day, index) => ({ day, values: series.map((each) => each.values[index]) })).filter((row) => row.values.some(Boolean));
  return html`<div class="canvas" ref=${box} onPointerMove=${pointed} onPointerLeave=${() => setAt(-1)}>${width > 0 && html`<svg width=${width} height=${HEIGHT} aria-hidden="true">
      ${steps(high * 1.08).map((value) => html`<path class="rule" d=${`M${LEFT} ${y(value)}H${width - RIGHT}`} /><text x=${LEFT - 8} y=${y(value) + 4} text-anchor="end">${format(value)}</text>`)}
      ${days.map((day, index) => (days.length - 1 - index) % every === 0 && html`<text x=${x(index)} y=${HEIGHT - 7} text-anchor=${x(index) + LABEL_SPACE / 2 > width ? "end" : "middle"}>${day.slice(5)}</text>`)}
      ${series.map(stacked ? bars : line)}
      ${at >= 0 && html`<path class="rule here" d=${`M${x(at)} ${TOP}V${HEIGHT - BOTTOM}`} />`}</svg>`}</div>
    <p class="legend small">${series.length > 1 && series.map((each) => html`<span><i class="dot" style=${{ background: `var(${each.colour})` }}></i>${visible(each.label)}</span>`)}<span class="read-out muted mono" aria-hidden="true">${days[at] && `${days[at]}  ${series.map((each) => `${series.length > 1 ? `${each.label} ` : ""}${format(each.values[at])}`).join("  ")} ${unit}`}</span></p>
    <details class="as-table"><summary class="small">${s.asTable}</summary><div class="scroll" tabIndex="0" role="region" aria-label=${label}><table><caption class="sr-only">${label}</caption><thead><tr><th scope="col">${s.day}</th>${series.map((each) => html`<th scope="col" class="number">${visible(each.label)}</th>`)}</tr></thead>
      <tbody>${rows.slice(-60).reverse().map((row) => html`<tr><th scope="row">${row.day}</th>${row.values.map((value) => html`<td class="number">${format(value)}</td>`)}</tr>`)}</tbody></table></div></details>`;
}
