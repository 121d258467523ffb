// Health and cost: the index, the daemon, the hosts, problems with their remedies, and what grew and was spent, as plots.

import { html, useLoad, useEffect, useRef, Chip, Copy, ErrorNotice, Section, Skeleton, visible, showDate, shortPath, plural } from "../ui.js";
import { call, loadDaemon, revision, project } from "../api.js";
import { route, everywhere, theme, address, refine } from "../state.js";
import { t } from "../texts.js";

const s = t.health;
const PERIODS = ["7d", "30d", "3m", "1y"];
const PURPOSE_COLOURS = ["--meaning", "--words", "--time", "--entry", "--rerank", "--other"];

const load = (op, args) => (abort) => call(op, args, abort);

export default function HealthView() {
  const { memories, sessions, settings, costs, deliveries } = revision.value;
  const since = PERIODS.includes(route.value.query.since) ? route.value.query.since : "30d";
  const scope = [project.value];
  const stats = useLoad(load("memory.stats", {}), [memories, deliveries, ...scope]);
  const health = useLoad(load("memory.health", { duplicates: 0 }), [memories, settings, ...scope]);
  const hosts = useLoad(load("session.hosts", {}), [sessions, ...scope]);
  const status = useLoad(load("session.status", {}), [sessions, costs, ...scope]);
  const roots = useLoad(load("roots.list", {}), [memories, ...scope]);
  const failed = useLoad(load("debug.find_tool_calls", { errors_only: true, source: "operation", time_from: "7d", limit: 5 }), [memories, ...scope]);
  const daemon = useLoad((abort) => loadDaemon(abort), [sessions, memories]);
  const cost = useLoad(load("memory.cost", { since, by: ["day", "purpose"] }), [since, costs, ...scope]);
  const growth = useLoad(load("memory.growth", { since, all_projects: everywhere.value }), [since, memories, everywhere.value, ...scope]);
  const errors = [stats, health, hosts, status, roots, cost, growth].map((each) => each.error).filter(Boolean);
  const problems = collectProblems(health.data, hosts.data, status.data, daemon);
  return html`<div class="health"><header class="line"><h1>${s.title}</h1><span class="grow"></span>
      <div class="periods" role="group" aria-label=${s.period}>${PERIODS.map((each) => html`<button type="button" aria-pressed=${each === since} onClick=${() => refine({ since: each })}>${s.periods[each]}</button>`)}</div></header>
    ${errors.slice(0, 1).map((error) => html`<${ErrorNotice} error=${error} />`)}
    <div class="tiles"><${IndexTile} stats=${stats.data} /><${DaemonTile} daemon=${daemon.data} /><${HostsTile} hosts=${hosts.data} status=${status.data} /><${WatchTile} roots=${roots.data} daemon=${daemon.data} /></div>
    <${Problems} problems=${problems} ready=${health.data && hosts.data} />
    <div class="plots">
      ${cost.data && html`<${CostPlot} cost=${cost.data} />`}
      ${growth.data && html`<${GrowthPlots} growth=${growth.data} />`}
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

function IndexTile({ stats }) {
  if (!stats) return html`<${Tile} title=${s.index}><${Skeleton} lines=${3} /><//>`;
  const { coverage, documents } = stats.project;
  const share = coverage.chunks ? coverage.with_vectors / coverage.chunks : 1;
  return html`<${Tile} title=${s.index} state=${html`<${Chip} kind=${share === 1 ? "trust" : "warn"}>${s.covered(share)}<//>`}>
    <meter min="0" max="1" low="0.9" optimum="1" value=${share} aria-label=${s.coverage}>${s.covered(share)}</meter>
    <dl class="facts"><${Fact} name=${s.here}>${plural(coverage.chunks, "chunk")}, ${plural(documents, "document")}<//>
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

export const captureOf = (host) => (host.last_capture ? s.captured(showDate(host.last_capture), host.today) + (host.installed === "missing" ? s.backfillOnly : "") : s.nothingCaptured);

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

const COMMAND = /^lorelog [\w -]+$|^chmod .+$/;

function Problems({ problems, ready }) {
  if (!ready) return null;
  return html`<${Section} title=${s.problems} aside=${problems.length ? String(problems.length) : s.none}>
    <ul class="problems">${problems.map((problem) => html`<li class=${problem.bad ? "bad" : "warn"}><strong>${visible(problem.name)}</strong><span>${visible(problem.text)}${problem.remedy && html` <span class="remedy">${COMMAND.test(problem.remedy) ? html`<${Copy} text=${problem.remedy}>${visible(problem.remedy)}<//>` : visible(problem.remedy)}</span>`}</span></li>`)}</ul><//>`;
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

function GrowthPlots({ growth }) {
  if (!growth.days.length) return null;
  const days = eachDay(growth.days[0].day);
  const sums = (name) => {
    const byDay = new Map(growth.days.map((line) => [line.day, line[name]]));
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

// Loaded when the first plot is shown. A browser in the locale "C" names a language that its own functions refuse, and
// uPlot asks them for it while it is loaded.
async function loadPlotter() {
  try {
    new Intl.NumberFormat(navigator.language);
  } catch {
    Object.defineProperty(navigator, "language", { value: "en" });
  }
  return (await import("../vendor/uplot.js")).default;
}

// A canvas cannot use the page's variables: the browser is asked for the colour that one stands for.
function resolveColour(element, name) {
  element.style.color = `var(${name})`;
  const colour = getComputedStyle(element).color;
  element.style.color = "";
  return colour;
}

// Bars that stand on each other (`stacked`), or lines. The same numbers follow as a table, for readers who do not see the canvas.
function Plot({ days, series, stacked = false, format, label, unit }) {
  const ref = useRef(null);
  useEffect(() => {
    const box = ref.current;
    let plot = null;
    let uPlot = null;
    let shown = true;
    const draw = () => {
      if (!uPlot || !shown) return;
      plot?.destroy();
      const colour = (name) => resolveColour(box, name);
      plot = new uPlot(options(box.clientWidth, colour), plotData(), box);
      plot.root.setAttribute("aria-hidden", "true");
    };
    const sums = (upTo) => days.map((_, day) => series.slice(0, upTo + 1).reduce((sum, each) => sum + each.values[day], 0));
    // The tallest bars are drawn first, the lower ones over them.
    const order = series.map((_, index) => (stacked ? series.length - 1 - index : index));
    const plotData = () => [days.map(seconds), ...order.map((index) => (stacked ? sums(index) : series[index].values))];
    const options = (width, colour) => {
      const axis = { stroke: colour("--soft"), font: "11px system-ui, sans-serif", grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
      const bars = uPlot.paths.bars({ size: [0.7, 28], align: 0 });
      return {
        width, height: 150, legend: { show: false }, cursor: { y: false, drag: { x: false, y: false }, points: { show: !stacked } }, padding: [8, 8, 0, 0],
        tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
        scales: { y: { range: (_, __, high) => [0, Math.max(high * 1.08, 1)] }, x: { range: (_, low, high) => [low - DAY_S * 0.6, high + DAY_S * 0.6] } },
        axes: [{ ...axis, grid: { show: false }, space: 46, values: (_, ticks) => ticks.map((at) => new Date(at * 1000).toISOString().slice(5, 10)), incrs: [1, 2, 7, 14, 30, 60, 90].map((n) => n * DAY_S), size: 24 }, { ...axis, size: 54, space: 26, values: (_, ticks) => ticks.map(format) }],
        series: [{}, ...order.map((index) => ({
          stroke: stacked ? null : colour(series[index].colour), width: stacked ? 0 : 1.5, points: { show: false },
          fill: stacked ? colour(series[index].colour) : colour(series[index].colour).replace("rgb(", "rgba(").replace(")", ", .12)"),
          ...(stacked ? { paths: bars } : {}),
        }))],
        hooks: { setCursor: [(self) => readOut(box.parentElement.querySelector(".read-out"), self.cursor.idx)] },
      };
    };
    const readOut = (place, index) => {
      if (!place) return;
      place.textContent = index == null ? "" : `${days[index]}  ${series.map((each) => `${series.length > 1 ? `${each.label} ` : ""}${format(each.values[index])}`).join("  ")} ${unit}`;
    };
    loadPlotter().then((loaded) => { uPlot = loaded; draw(); });
    const observer = new ResizeObserver(() => plot && box.clientWidth !== plot.width && plot.setSize({ width: box.clientWidth, height: 150 }));
    observer.observe(box);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", draw);
    return () => { shown = false; dark.removeEventListener("change", draw); observer.disconnect(); plot?.destroy(); };
  }, [days.join(), JSON.stringify(series), theme.value]);
  const rows = days.map((day, index) => ({ day, values: series.map((each) => each.values[index]) })).filter((row) => row.values.some(Boolean));
  return html`<div class="canvas" ref=${ref}></div>
    <p class="legend small">${series.length > 1 && series.map((each) => html`<span><i class="dot" style=${{ background: `var(${each.colour})` }}></i>${visible(each.label)}</span>`)}<span class="read-out muted mono" aria-hidden="true"></span></p>
    <details class="as-table"><summary class="small">${s.asTable}</summary><div class="scroll" tabIndex="0" role="region" aria-label=${label}><table><caption class="sr-only">${label}</caption><thead><tr><th scope="col">${s.day}</th>${series.map((each) => html`<th scope="col" class="number">${visible(each.label)}</th>`)}</tr></thead>
      <tbody>${rows.slice(-60).reverse().map((row) => html`<tr><th scope="row">${row.day}</th>${row.values.map((value) => html`<td class="number">${format(value)}</td>`)}</tr>`)}</tbody></table></div></details>`;
}
