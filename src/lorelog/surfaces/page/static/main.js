// The frame: navigation, keys, theme, notices. Each view is a module of its own, loaded when it is opened.

import { html, render, useEffect, useState, useLoad, loadForKey, Icon, Notice, Key, Dialog, baseName, isTyping } from "./ui.js";
import { call, session, signedOut, online, project, revision, start } from "./api.js";
import { route, theme, everywhere, toast, waiting, address, go, placeOf } from "./state.js";
import { t } from "./texts.js";

// Home is the search without a question: one module and one box, so that no letter is lost between them.
const searching = () => import("./views/search.js");
const VIEWS = {
  home: searching,
  search: searching,
  timeline: () => import("./views/timeline.js"),
  told: () => import("./views/told.js"),
  records: () => import("./views/records.js"),
  health: () => import("./views/health.js"),
  settings: () => import("./views/settings.js"),
};
const NAMES = ["home", "search", "timeline", "told", "inbox", "records", "health", "settings"];
const ALL_VIEWS = { ...VIEWS, memory: () => import("./views/memory.js") };
const THEMES = { system: "dark", dark: "light", light: "system" };

function Nav({ shown, onHelp, onPalette }) {
  const scope = [Boolean(session.value), project.value, everywhere.value, revision.value.memories, revision.value.deliveries];
  const inbox = useLoad((abort) => (session.value ? call("review.list", { limit: 3, all_projects: everywhere.value }, abort) : null), scope); // three for Today
  useEffect(() => { waiting.value = inbox; }, [inbox]);
  const count = inbox.data?.total_count || 0;
  return html`<nav class="rail" aria-label=${t.views}>
    <a class="brand" href="#/"><svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7" /><path d="M9 7v18h14" /><path d="M15 12h8M15 17.500h5" /></svg>lorelog</a>
    <ul>${NAMES.map((name, index) => html`<li><a href=${address(...placeOf(name))} aria-current=${name === (shown === "memory" ? "search" : shown) ? "page" : null}>
      <${Icon} name=${name} /><span class="label">${t.nav[name]}</span>${t.navShort[name] && html`<span class="label-short" aria-hidden="true">${t.navShort[name]}</span>`}${name === "inbox" && count > 0 && html`<span class="badge">${count.toLocaleString("en")}</span>`}<kbd aria-hidden="true">${index + 1}</kbd></a></li>`)}</ul>
    <div class="rail-foot">
      <div class="scope" title=${project.value || session.value?.project}>
        <button type="button" aria-pressed=${!everywhere.value} onClick=${() => { everywhere.value = false; }}>${baseName(project.value || session.value?.project || "")}</button>
        <button type="button" aria-pressed=${everywhere.value} onClick=${() => { everywhere.value = true; }}>${t.allProjects}</button>
      </div>
      <div class="tools">
        <span class="live ${online.value ? "" : "off"}" role="status">${online.value ? t.live : t.offline}</span>
        <button type="button" class="icon-button" title=${`${t.palette.title} (Ctrl-K)`} aria-label=${t.palette.title} onClick=${onPalette}><${Icon} name="search" /></button>
        <button type="button" class="icon-button" title=${t.themeIs(theme.value)} aria-label=${t.themeIs(theme.value)} onClick=${() => { theme.value = THEMES[theme.value]; }}><${Icon} name="theme" /></button>
        <button type="button" class="icon-button" title=${`${t.keys} (?)`} aria-label=${t.keys} onClick=${onHelp}><${Icon} name="keys" /></button>
      </div>
    </div>
  </nav>`;
}

function Keys({ onClose }) {
  return html`<${Dialog} title=${t.keys} onClose=${onClose}>
    <dl class="keys">${t.keyTable.map(([keys, meaning]) => html`<div><dt>${keys.split(" ").map((key) => html`<${Key}>${key}<//>`)}</dt><dd>${meaning}</dd></div>`)}</dl>
  <//>`;
}

function SignedOut() {
  return html`<main class="signed-out"><h1>${t.signedOutTitle}</h1><p>${t.signedOut}</p><pre>lorelog ui</pre><p class="muted">${t.signedOutWhy}</p></main>`;
}

function Page() {
  const view = Object.hasOwn(ALL_VIEWS, route.value.view) ? route.value.view : "home";
  const shown = view === "told" && route.value.path[0] === "inbox" ? "inbox" : view;
  const [loaded, setLoaded] = useState({ name: "", View: null, error: null });
  const [help, setHelp] = useState(false);
  const [palette, setPalette] = useState(null);
  const openPalette = () => loadForKey(() => import("./palette.js")).then(setPalette, (error) => setLoaded({ name: view, View: null, error }));
  useEffect(() => {
    let current = true;
    ALL_VIEWS[view]().then(
      (module) => current && setLoaded({ name: view, View: module.default, error: null }),
      (error) => current && setLoaded({ name: view, View: null, error }),
    );
    return () => { current = false; };
  }, [view]);
  useEffect(() => { document.title = `${t.nav[shown]} · lorelog`; }, [shown]);
  useEffect(() => {
    const pressed = (event) => {
      if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
      if ((event.metaKey || event.ctrlKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
        event.preventDefault();
        openPalette();
      }
      if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target)) return;
      if (event.key === "?") setHelp(true);
      else if (/^[1-8]$/.test(event.key)) go(...placeOf(NAMES[Number(event.key) - 1]));
      else if (event.key === "/" && view !== "search" && view !== "home") go("search");
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [view]);
  if (signedOut.value) return html`<${SignedOut} />`;
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>${t.skip}</a>
    <${Nav} shown=${shown} onHelp=${() => setHelp(true)} onPalette=${openPalette} />
    <main id="main" class="view-${loaded.name}" tabIndex="-1">
      ${session.value?.agent && html`<${Notice} kind="warn">${t.agentStarted(session.value.agent)}<//>`}
      ${loaded.error && html`<${Notice} kind="error" title=${t.viewFailed} />`}
      ${loaded.View && ALL_VIEWS[loaded.name] === ALL_VIEWS[view] && html`<${loaded.View} />`}
    </main>
    ${palette && html`<${palette.module.Palette} names=${NAMES} typed=${palette.typed} onClose=${() => setPalette(null)} onHelp=${() => setHelp(true)} onTheme=${() => { theme.value = THEMES[theme.value]; }} />`}
    ${help && html`<${Keys} onClose=${() => setHelp(false)} />`}
    <div class="toast-place" role="status" aria-live="polite">${toast.value && html`<div class="toast">${toast.value.text}
      ${toast.value.undo && html`<button type="button" onClick=${() => { const { undo } = toast.value; toast.value = null; undo(); }}>${t.undo}</button>`}</div>`}</div>`;
}

render(html`<${Page} />`, document.getElementById("page"));
start().then(() => {
  if (!project.value && !session.value.project) everywhere.value = true; // the daemon's own server has no project
}, () => {});
