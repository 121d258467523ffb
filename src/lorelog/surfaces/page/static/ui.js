// Building blocks of all views: the libraries in one import, and small components without knowledge of any view.

import { h, render, Fragment } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
import { signal, computed, effect, batch } from "./vendor/signals.js";
import htm from "./vendor/htm.js";
import { t } from "./texts.js";
import { renderMarkdown } from "./api.js";
import { Inline, inlineText, isTime, memoryId, splitTitle, titleOf, visible } from "./inline.js";

export const html = htm.bind(h);
export { h, render, Fragment, useEffect, useLayoutEffect, useMemo, useRef, useState, signal, computed, effect, batch, Inline, inlineText, isTime, memoryId, splitTitle, titleOf, visible };

// One family of icons: 16 by 16, drawn with one line of 1.5, in the colour of the text around them.

const PATHS = {
  home: "M2.5 7.5 8 2.8l5.5 4.7M4 6.8V13h8V6.8M6.8 13V9.5h2.4V13",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9ZM10.3 10.3l3.2 3.2",
  timeline: "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2ZM8 4.8V8l2.3 1.5",
  told: "M2.5 3.5h11v7.5H8.3L5 13.5V11H2.5ZM5.2 6.2h5.6M5.2 8.5h3.6",
  records: "M3 2.5h10v11H3ZM5.5 8l1.7 1.7 3.3-3.5",
  health: "M1.8 8.5h2.9l1.7-4.7 3 8.4 1.8-3.7h3",
  settings: "M2.5 4.8h5.3M11.3 4.8h2.2M2.5 11.2h2.2M8.2 11.2h5.3M9.5 3a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6ZM6.4 9.4a1.8 1.8 0 1 0 0 3.6 1.8 1.8 0 0 0 0-3.6Z",
  inbox: "M2.5 9 4.3 3.5h7.4L13.5 9v4h-11ZM2.5 9h3.3l.8 1.7h2.8l.8-1.7h3.3",
  memory: "M4 2h5.5L12.5 5v9H4ZM9.3 2v3.2h3.2M6.3 8.2h4M6.3 10.8h2.7",
  theme: "M8 2.3a5.7 5.7 0 1 0 0 11.4ZM8 2.3a5.7 5.7 0 0 1 0 11.4",
  keys: "M1.8 4h12.4v8H1.8ZM4.3 6.5h.01M6.8 6.5h.01M9.3 6.5h.01M11.7 6.5h.01M5 9.5h6",
  edit: "M3 13l.7-2.9 7-7a1.3 1.3 0 0 1 1.9 0l.3.3a1.3 1.3 0 0 1 0 1.9l-7 7ZM9.7 4.2l2.2 2.2",
  delete: "M3 4.3h10M6.3 4.3V2.7h3.4v1.6M4.3 4.3l.5 9h6.4l.5-9M6.8 7v3.7M9.2 7v3.7",
  more: "M3.5 8h.01M8 8h.01M12.5 8h.01",
  close: "M4 4l8 8M12 4l-8 8",
  back: "M13 8H3.2M7 4 3 8l4 4",
  next: "M6 3.5 10.5 8 6 12.5",
  open: "M9 2.5h4.5V7M13.5 2.5 7.8 8.2M11.5 9v4.5h-9v-9H7",
  copy: "M5.5 5.5h8v8h-8ZM3.5 10.5h-1v-8h8v1",
  replace: "M2.5 6h9M8.8 3.2 11.6 6 8.8 8.8M13.5 11h-9M7.2 8.7 4.4 11l2.8 2.7",
  expire: "M2.5 3.8h11v9.7h-11ZM2.5 6.8h11M5.3 2.3v3M10.7 2.3v3",
  forget: "M8 2.5 14 13.2H2ZM8 6.5v3M8 11.4h.01",
  project: "M2 4h4.3l1.4 1.7H14v7.3H2Z",
  session: "M2.5 3h11v10h-11ZM5 6.3 6.8 8 5 9.7M8.3 10h2.7",
};

// Decoration beside a text, or inside of a control that has a name: never read aloud.
export const Icon = ({ name }) => h("svg", { class: `icon i-${name}`, viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false" }, h("path", { d: PATHS[name] }));

// loading

// Load data when `deps` change. The old data stays visible until the new data is there; an outdated reply is dropped.
export function useLoad(load, deps) {
  const [state, setState] = useState({ data: null, error: null, loading: true });
  useEffect(() => {
    const controller = new AbortController();
    setState((before) => ({ ...before, loading: true }));
    Promise.resolve(load(controller.signal)).then(
      (data) => controller.signal.aborted || setState({ data, error: null, loading: false }),
      (error) => controller.signal.aborted || setState((before) => ({ data: before.data, error, loading: false })),
    );
    return () => controller.abort();
  }, deps);
  return state;
}

// A component of another module, which is loaded when it is first shown.
export function lazy(load, name = "default") {
  return function Lazy(props) {
    const { data, error } = useLoad(load, []);
    return error ? h(Notice, { kind: "error", title: t.viewFailed }) : data && h(data[name], props);
  };
}

// Load what a key opens. What is typed until then is not for the keys of the view; it is returned with the module.
export async function loadForKey(load) {
  let typed = "";
  const hold = (event) => {
    if (event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey) typed += event.key;
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  addEventListener("keydown", hold, true);
  try {
    return { module: await load(), typed };
  } finally {
    removeEventListener("keydown", hold, true);
  }
}

// Keys of a view: a function by key. Nothing happens while a person types or a dialog is open.
export const isTyping = (target) => (/^(INPUT|TEXTAREA|SELECT)$/.test(target?.tagName || "") && target.type !== "checkbox") || target?.isContentEditable;

export function useKeys(table) {
  const current = useRef(table);
  current.current = table;
  useEffect(() => {
    const pressed = (event) => {
      if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey || isTyping(event.target)) return;
      if (document.querySelector("dialog[open]")) return;
      const act = current.current[event.key];
      if (!act || (event.key === "Enter" && event.target.closest?.("a,button,summary"))) return;
      event.preventDefault();
      act(event);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

// text

export const plural = (count, word, many = `${word}s`) => `${count.toLocaleString("en")} ${count === 1 ? word : many}`;

export function shortPath(path, base = "") {
  if (base && path.startsWith(`${base}/`)) return path.slice(base.length + 1);
  const parts = path.split("/");
  return parts.length > 4 ? `…/${parts.slice(-3).join("/")}` : path;
}

export const baseName = (path) => path.split("/").filter(Boolean).pop() || t.everywhere;
export const shortId = (id) => (id || "").slice(0, 8);

export function showDate(date) {
  if (!date) return "";
  const [day, time] = date.split("T");
  return time ? `${day} ${time.slice(0, 5)}` : day;
}

// A day as people say it: today, yesterday, Tuesday, 14 Nov, 14 Nov 2025. The full date belongs in the title beside it.
export function showDay(date) {
  const day = new Date(`${(date || "").slice(0, 10)}T12:00`);
  if (Number.isNaN(day.getTime())) return "";
  const ago = Math.round((new Date().setHours(12, 0, 0, 0) - day) / 86400000);
  if (ago === 0) return t.today;
  if (ago === 1) return t.yesterday;
  if (ago > 1 && ago < 7) return day.toLocaleDateString("en-GB", { weekday: "long" });
  return day.toLocaleDateString("en-GB", { day: "numeric", month: "short", ...(day.getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" }) });
}

const isoDay = (date) => `${date.getFullYear()}-${String(date.getMonth() + 1).padStart(2, "0")}-${String(date.getDate()).padStart(2, "0")}`;

// A time in this browser's zone, as ISO text. Times without a zone are local already.
export function localTime(at) {
  const date = new Date(at);
  return !at.includes("T") || Number.isNaN(date.getTime()) ? at : `${isoDay(date)}T${date.toTimeString().slice(0, 5)}`;
}

export function dayName(day) {
  const now = new Date();
  const name = new Date(`${day}T12:00`).toLocaleDateString("en-GB", { weekday: "long", day: "numeric", month: "long", ...(day.slice(0, 4) === String(now.getFullYear()) ? {} : { year: "numeric" }) });
  const near = day === isoDay(now) ? t.today : day === isoDay(new Date(now - 86400000)) ? t.yesterday : "";
  return { near, name };
}

export function DayName({ day }) {
  const { near, name } = dayName(day);
  return html`${near && html`<span class="near">${near}</span> `}${name}`;
}

// When the sessions of an agent were captured last.
export const captureOf = (host) => (host.last_capture ? t.health.captured(showDate(host.last_capture), host.today) + (host.installed === "missing" ? t.health.backfillOnly : "") : t.health.nothingCaptured);

export const Day = ({ date }) => date ? html`<time dateTime=${date} title=${showDate(date)}>${showDay(date)}</time>` : null;

// Markdown

const TAGS = new Set("p h1 h2 h3 h4 h5 h6 ul ol li blockquote hr br em strong s code pre table thead tbody tr th td a span".split(" "));

// The server sends elements, not HTML: an element that is not listed here cannot exist.
// `wiki` gives the address of a link to a page of the wiki; elsewhere such links lead nowhere.
function build(node, wiki = null) {
  if (typeof node === "string") return node;
  const [tag, attributes, ...children] = node;
  const inner = children.map((child) => build(child, wiki));
  if (!TAGS.has(tag)) return inner;
  if (tag === "a") {
    if (wiki && attributes.page) return html`<a href=${wiki(attributes)}>${inner}</a>`;
    if (!attributes.href) return html`<span class="dead-link">${inner}</span>`;
    const said = children.length === 1 && typeof children[0] === "string" ? children[0] : "";
    return html`<a href=${attributes.href} target="_blank" rel="noopener noreferrer nofollow" title=${attributes.href}>${inner}</a>${said.includes(attributes.host) ? null : html`<span class="host"> (${attributes.host})</span>`}`;
  }
  if (tag === "span") return html`<span class=${attributes.class === "image" ? "image" : null}>${inner}</span>`;
  if (/^h[1-6]$/.test(tag)) return h(`h${Math.min(6, Number(tag[1]) + (wiki ? 1 : 2))}`, null, inner);
  if (tag === "pre") return h("pre", { tabIndex: 0 }, inner);
  return h(tag, attributes.start ? { start: attributes.start } : null, inner);
}

export function Markdown({ text, headless = false, wiki = null }) {
  const { data, error } = useLoad(async () => (text.trim() ? (await renderMarkdown([text]))[0] : []), [text]);
  if (error) return html`<pre class="markdown">${visible(text)}</pre>`;
  const nodes = headless && /^h[1-6]$/.test(data?.[0]?.[0] || "") ? data.slice(1) : data || [];
  return html`<div class="markdown" dir="auto">${nodes.map((node) => build(node, wiki))}</div>`;
}

// small components

// A chip that can be clicked is for the mouse only: it stands in rows, where a second target for the keyboard would be in the
// way. The memory's own page has a link for each.
export function Chip({ kind = "", title, onClick, children }) {
  const act = onClick && ((event) => { event.stopPropagation(); onClick(); });
  return html`<span class="chip ${kind} ${onClick ? "click" : ""}" title=${title} onClick=${act}>${children}</span>`;
}

// The type of a memory in its own colour. A type that is not known here has the colour of the text.
const TYPES = new Set("decision preference correction lesson fact summary todo turn".split(" "));
export const typeName = (type) => t.types[type] || visible(type);
export const typeClass = (type) => `type t-${TYPES.has(type) ? type : "other"}`;

export function Type({ type, href, title, onClick }) {
  if (!type) return null;
  const name = typeName(type);
  if (href) return html`<a class=${typeClass(type)} href=${href} title=${title}>${name}</a>`;
  const act = onClick && ((event) => { event.stopPropagation(); onClick(); });
  return html`<span class="${typeClass(type)} ${onClick ? "click" : ""}" title=${title} onClick=${act}>${name}</span>`;
}

// In place of a text that is being loaded, where nothing older can be shown.
export const Skeleton = ({ lines = 3 }) => html`<div class="skeleton" role="status"><span class="sr-only">${t.loading}</span>${Array.from({ length: lines }, () => html`<i></i>`)}</div>`;

// A button that opens a menu: arrows, Home and End move, Enter chooses, Escape and Tab close it. An item is { name, icon, key, act, danger }.
export function Menu({ label, items }) {
  const [open, setOpen] = useState(false);
  const box = useRef(null);
  const list = () => [...box.current.querySelectorAll("[role=menuitem]")];
  const close = (focus = true) => {
    setOpen(false);
    if (focus) box.current.querySelector("button").focus();
  };
  useEffect(() => {
    if (!open) return undefined;
    list()[0].focus();
    const outside = (event) => box.current?.contains(event.target) || setOpen(false);
    addEventListener("pointerdown", outside);
    return () => removeEventListener("pointerdown", outside);
  }, [open]);
  const pressed = (event) => {
    if (!open) {
      if (event.key !== "ArrowDown") return;
      setOpen(true);
    } else {
      const all = list();
      const at = all.indexOf(document.activeElement);
      const to = { ArrowDown: (at + 1) % all.length, ArrowUp: (at - 1 + all.length) % all.length, Home: 0, End: all.length - 1 }[event.key];
      if (event.key === "Tab") return close();
      if (event.key === "Escape") close();
      else if (to !== undefined) all[to].focus();
      else if (event.key === "Enter" || event.key === " ") all[at]?.click();
      else return event.stopPropagation(); // a letter is no key of the view while the menu is open
    }
    event.preventDefault();
    return event.stopPropagation();
  };
  return html`<div class="menu" ref=${box} onKeyDown=${pressed}>
    <button type="button" class="icon-button" aria-haspopup="menu" aria-expanded=${open} aria-label=${label} title=${label} onClick=${() => setOpen(!open)}><${Icon} name="more" /></button>
    ${open && html`<ul class="menu-list" role="menu" aria-label=${label}>${items.filter(Boolean).map((item) => html`<li role="none"><button type="button" role="menuitem" tabIndex="-1" class=${item.danger ? "danger" : ""}
      onClick=${() => { close(); item.act(); }}><${Icon} name=${item.icon} /><span class="grow">${item.name}</span>${item.key && html`<kbd aria-hidden="true">${item.key}</kbd>`}</button></li>`)}</ul>`}
  </div>`;
}

export function Notice({ kind = "", title, children }) {
  return html`<div class="notice ${kind}" role=${kind === "error" ? "alert" : "status"}>${title && html`<strong>${title}</strong>`} ${children}</div>`;
}

export const ErrorNotice = ({ error }) =>
  html`<${Notice} kind="error" title=${visible(error.message)}>${error.hint && html`<p>${visible(error.hint)}</p>`}<//>`;

export function Section({ title, aside, children, open }) {
  if (open === undefined) {
    return html`<section class="block"><h3 class="block-title">${title}${aside && html`<span class="aside">${aside}</span>`}</h3>${children}</section>`;
  }
  return html`<details class="block" open=${open}><summary class="block-title">${title}${aside && html`<span class="aside">${aside}</span>`}</summary>${children}</details>`;
}

export function Copy({ text, children, title = t.copy }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1200);
  };
  return html`<button type="button" class="copy" title=${title} onClick=${copy}>${children ?? text}<span class="copied" aria-live="polite">${done ? t.copied : ""}</span></button>`;
}

export const Key = ({ children }) => html`<kbd>${children}</kbd>`;

// A modal dialog; the browser keeps the focus inside and closes it on Escape.
export function Dialog({ title, onClose, children, wide }) {
  const ref = useRef(null);
  useLayoutEffect(() => {
    const before = document.activeElement;
    ref.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`<dialog ref=${ref} class=${wide ? "wide" : ""} aria-labelledby="dialog-title" onClose=${onClose} onCancel=${onClose}>
    <header><h2 id="dialog-title">${title}</h2><button type="button" class="plain" aria-label=${t.close} onClick=${onClose}><${Icon} name="close" /></button></header>
    ${children}
  </dialog>`;
}

const PART_CLASSES = { lexical: "p-words", dense: "p-meaning", time: "p-time", entry: "p-entry", standing: "p-rerank", rerank: "p-rerank", freshness: "p-minus", feedback: "p-minus" };
export const partClass = (part) => (part.value < 0 ? "p-minus" : PART_CLASSES[part.name] || "p-other");

// How relevant a hit is, from nothing to certain: one colour, and the same scale in every row.
export function RelevanceBar({ relevance }) {
  return html`<span class="relevance" role="img" aria-label=${t.relevanceIs(relevance)} title=${t.relevanceIs(relevance)}><span class="relevance-bar" style=${{ width: `${relevance * 100}%` }}></span></span>`;
}

// What the score of a hit is made of: lengths that add up to it; a part that takes away is drawn over the end.
export function PartsBar({ parts, score }) {
  const gained = parts.filter((part) => part.value > 0.0005);
  const plus = gained.reduce((sum, part) => sum + part.value, 0) || 1;
  const lost = Math.max(0, plus - score);
  return html`<span class="parts-bar" aria-hidden="true">
    ${gained.map((part) => html`<i class=${partClass(part)} style=${{ width: `${(part.value / plus) * 100}%` }}></i>`)}
    ${lost > 0.0005 && html`<i class="lost" style=${{ width: `${(lost / plus) * 100}%` }}></i>`}</span>`;
}

export function ScoreTable({ parts, score }) {
  return html`<table class="score-table"><tbody>
    ${parts.map((part) => html`<tr class=${Math.abs(part.value) < 0.0005 ? "zero" : ""}>
      <th scope="row"><i class="dot ${partClass(part)}"></i>${t.parts[part.name] || part.name}</th>
      <td class="number">${part.value.toFixed(3)}</td><td class="muted">${visible(part.note)}</td></tr>`)}
    <tr class="total"><th scope="row">${t.total}</th><td class="number">${score.toFixed(3)}</td><td></td></tr>
  </tbody></table>`;
}

// a list of any length

const NEAR_END = 500;

// The row at a height, found by halving.
function rowAt(tops, height) {
  let [low, high] = [0, tops.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle] <= height) low = middle;
    else high = middle - 1;
  }
  return low;
}

// Only the visible rows exist, so that 10,000 of them scroll. The height of a row is known before it is drawn.
export function LongList({ items, heightOf, selected, onSelect, onOpen, Row, label, onEnd }) {
  const ref = useRef(null);
  const tops = useMemo(() => items.reduce((all, item) => (all.push(all.at(-1) + heightOf(item)), all), [0]), [items]);
  const space = tops.at(-1);
  const [view, setView] = useState({ top: 0, height: 800 });
  const measure = () => ref.current && setView({ top: ref.current.scrollTop, height: ref.current.clientHeight });
  useLayoutEffect(() => {
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    const box = ref.current;
    if (selected < 0 || !box) return;
    if (tops[selected] < box.scrollTop) box.scrollTop = tops[selected];
    else if (tops[selected + 1] > box.scrollTop + box.clientHeight) box.scrollTop = tops[selected + 1] - box.clientHeight;
  }, [selected, items]);
  const first = Math.max(0, rowAt(tops, view.top) - 4);
  const last = Math.min(items.length, rowAt(tops, view.top + view.height) + 5);
  const scrolled = () => {
    measure();
    const box = ref.current;
    if (onEnd && box.scrollTop + box.clientHeight > box.scrollHeight - NEAR_END) onEnd();
  };
  return html`<div class="long-list" ref=${ref} onScroll=${scrolled} role="listbox" tabIndex="0" aria-label=${label}
      aria-activedescendant=${selected >= 0 && selected < items.length ? `row-${selected}` : null}>
    <div class="long-list-space" role="presentation" style=${{ height: `${space}px` }}>
      ${items.slice(first, last).map((item, index) => {
        const at = first + index;
        return html`<div key=${item.id ?? at} id="row-${at}" role="option" aria-selected=${at === selected} aria-setsize=${items.length} aria-posinset=${at + 1}
          class="row ${at === selected ? "selected" : ""}" style=${{ top: `${tops[at]}px`, height: `${tops[at + 1] - tops[at]}px` }}
          onClick=${() => onSelect(at)} onDblClick=${() => onOpen?.(at)}><${Row} item=${item} /></div>`;
      })}
    </div></div>`;
}
