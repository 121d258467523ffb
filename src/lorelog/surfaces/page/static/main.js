// The frame: navigation, keys, theme, notices. Each view is a module of its own, loaded when it is opened.

import { html, render, useEffect, useState, Notice, Key, Dialog, baseName, isTyping } from "./ui.js";
import { session, signedOut, online, project, start } from "./api.js";
import { route, theme, everywhere, toast, address, go } from "./state.js";
import { t } from "./texts.js";

const VIEWS = [
  { name: "search", icon: "⌕", load: () => import("./views/search.js") },
  { name: "timeline", icon: "≡", load: () => import("./views/timeline.js") },
  { name: "told", icon: "›", load: () => import("./views/told.js") },
  { name: "records", icon: "§", load: () => import("./views/records.js") },
  { name: "health", icon: "♥", load: () => import("./views/health.js") },
  { name: "settings", icon: "⚙", load: () => import("./views/settings.js") },
];
const HIDDEN_VIEWS = [{ name: "memory", load: () => import("./views/memory.js") }];

function Nav({ onHelp }) {
  const shown = route.value.view === "memory" ? "search" : route.value.view;
  const themes = { system: "dark", dark: "light", light: "system" };
  return html`<nav class="rail" aria-label=${t.views}>
    <a class="brand" href="#/search"><img src="/page/icon.svg" alt="" width="20" height="20" />lorelog</a>
    <ul>${VIEWS.map((view, index) => html`<li><a href=${address(view.name)} aria-current=${view.name === shown ? "page" : null}>
      <span class="icon" aria-hidden="true">${view.icon}</span><span class="label">${t.nav[view.name]}</span><kbd aria-hidden="true">${index + 1}</kbd></a></li>`)}</ul>
    <div class="rail-foot">
      <div class="scope" title=${project.value || session.value?.project}>
        <button type="button" aria-pressed=${!everywhere.value} onClick=${() => { everywhere.value = false; }}>${baseName(project.value || session.value?.project || "")}</button>
        <button type="button" aria-pressed=${everywhere.value} onClick=${() => { everywhere.value = true; }}>${t.allProjects}</button>
      </div>
      <div class="tools">
        <span class="live ${online.value ? "" : "off"}" role="status">${online.value ? t.live : t.offline}</span>
        <button type="button" class="plain" title=${t.themeIs(theme.value)} aria-label=${t.themeIs(theme.value)} onClick=${() => { theme.value = themes[theme.value]; }}>◐</button>
        <button type="button" class="plain" title=${t.keys} aria-label=${t.keys} onClick=${onHelp}>?</button>
      </div>
    </div>
  </nav>`;
}

function Keys({ onClose }) {
  return html`<${Dialog} title=${t.keys} onClose=${onClose}>
    <dl class="keys">${t.keyTable.map(([keys, meaning]) => html`<div><dt>${keys.split(" ").map((key) => html`<${Key}>${key}<//> `)}</dt><dd>${meaning}</dd></div>`)}</dl>
  <//>`;
}

function SignedOut() {
  return html`<main class="signed-out"><h1>${t.signedOutTitle}</h1><p>${t.signedOut}</p><pre>lorelog ui</pre><p class="muted">${t.signedOutWhy}</p></main>`;
}

function Page() {
  const { view } = route.value;
  const [loaded, setLoaded] = useState({ name: "", View: null, error: null });
  const [help, setHelp] = useState(false);
  useEffect(() => {
    const found = [...VIEWS, ...HIDDEN_VIEWS].find((each) => each.name === view) || VIEWS[0];
    let current = true;
    found.load().then(
      (module) => current && setLoaded({ name: found.name, View: module.default, error: null }),
      (error) => current && setLoaded({ name: found.name, View: null, error }),
    );
    document.title = `${t.nav[found.name] || t.memory} · lorelog`;
    return () => { current = false; };
  }, [view]);
  useEffect(() => {
    const pressed = (event) => {
      if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector("dialog[open]")) return;
      if (event.key === "?") setHelp(true);
      else if (/^[1-6]$/.test(event.key)) go(VIEWS[Number(event.key) - 1].name);
      else if (event.key === "/" && view !== "search") go("search");
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [view]);
  if (signedOut.value) return html`<${SignedOut} />`;
  return html`<a class="skip" href="#main" onClick=${(event) => { event.preventDefault(); document.getElementById("main").focus(); }}>${t.skip}</a>
    <${Nav} onHelp=${() => setHelp(true)} />
    <main id="main" class="view-${loaded.name}" tabIndex="-1">
      ${session.value?.agent && html`<${Notice} kind="warn">${t.agentStarted(session.value.agent)}<//>`}
      ${loaded.error && html`<${Notice} kind="error" title=${t.viewFailed} />`}
      ${loaded.View && loaded.name === view && html`<${loaded.View} />`}
    </main>
    ${help && html`<${Keys} onClose=${() => setHelp(false)} />`}
    <div class="toast-place" role="status" aria-live="polite">${toast.value && html`<div class="toast">${toast.value.text}
      ${toast.value.undo && html`<button type="button" onClick=${() => { const { undo } = toast.value; toast.value = null; undo(); }}>${t.undo}</button>`}</div>`}</div>`;
}

render(html`<${Page} />`, document.getElementById("page"));
start().then(() => {
  if (!project.value && !session.value.project) everywhere.value = true; // the daemon's own server has no project
}, () => {});
