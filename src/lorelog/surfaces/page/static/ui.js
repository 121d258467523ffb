// Building blocks of all views: the libraries in one import, and small components without knowledge of any view.

import { h, render, Fragment } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
import { signal, computed, effect, batch } from "./vendor/signals.js";
import htm from "./vendor/htm.js";
import { t } from "./texts.js";
import { renderMarkdown } from "./api.js";
import { Inline, inlineText, isTime, splitTitle, titleOf, visible } from "./inline.js";

export const html = htm.bind(h);
export { h, render, Fragment, useEffect, useLayoutEffect, useMemo, useRef, useState, signal, computed, effect, batch, Inline, inlineText, isTime, splitTitle, titleOf, visible };

/* ---- loading ---------------------------------------------------------------------------------------------------- */

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

/* ---- text ------------------------------------------------------------------------------------------------------- */

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

export function showAge(iso) {
  const days = Math.round((Date.now() - new Date(iso)) / 86400000);
  if (!Number.isFinite(days)) return "";
  if (days < 1) return t.today;
  if (days === 1) return t.yesterday;
  return days < 60 ? `${days} d` : days < 730 ? `${Math.round(days / 30)} mo` : `${Math.round(days / 365)} y`;
}

/* ---- Markdown --------------------------------------------------------------------------------------------------- */

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
  if (/^h[1-6]$/.test(tag)) return h(`h${Math.min(6, Number(tag[1]) + 2)}`, null, inner);
  if (tag === "pre") return h("pre", { tabIndex: 0 }, inner);
  return h(tag, attributes.start ? { start: attributes.start } : null, inner);
}

export function Markdown({ text, headless = false, wiki = null }) {
  const { data, error } = useLoad(async () => (await renderMarkdown([text]))[0], [text]);
  if (error) return html`<pre class="markdown">${visible(text)}</pre>`;
  const nodes = headless && /^h[1-6]$/.test(data?.[0]?.[0] || "") ? data.slice(1) : data || [];
  return html`<div class="markdown" dir="auto">${nodes.map((node) => build(node, wiki))}</div>`;
}

/* ---- small components ------------------------------------------------------------------------------------------- */

// A chip that can be clicked is for the mouse only: it stands in rows, where a second target for the keyboard would be in the
// way. The memory's own page has a link for each.
export function Chip({ kind = "", title, onClick, children }) {
  const act = onClick && ((event) => { event.stopPropagation(); onClick(); });
  return html`<span class="chip ${kind} ${onClick ? "click" : ""}" title=${title} onClick=${act}>${children}</span>`;
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
  useEffect(() => {
    const before = document.activeElement;
    ref.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`<dialog ref=${ref} class=${wide ? "wide" : ""} aria-labelledby="dialog-title" onClose=${onClose} onCancel=${onClose}>
    <header><h2 id="dialog-title">${title}</h2><button type="button" class="plain" aria-label=${t.close} onClick=${onClose}>✕</button></header>
    ${children}
  </dialog>`;
}

// The parts of a score as a bar: their lengths add up to the score; a part that takes away is drawn over the end.
const PART_CLASSES = { lexical: "p-words", dense: "p-meaning", time: "p-time", entry: "p-entry", rerank: "p-rerank", freshness: "p-minus", feedback: "p-minus" };
export const partClass = (part) => (part.value < 0 ? "p-minus" : PART_CLASSES[part.name] || "p-other");

// As long as the hit is likely to be relevant, in the colours of what its score is made of.
export function ScoreBar({ parts, score, relevance }) {
  const gained = parts.filter((part) => part.value > 0.0005);
  const plus = gained.reduce((sum, part) => sum + part.value, 0) || 1;
  const lost = Math.max(0, plus - score);
  return html`<span class="score" role="img" aria-label=${t.relevanceIs(relevance)} title=${parts.map((part) => `${t.parts[part.name] || part.name} ${part.value.toFixed(3)}`).join("\n")}>
    <span class="score-bar" style=${{ width: `${relevance * 100}%` }}>
      ${gained.map((part) => html`<i class=${partClass(part)} style=${{ width: `${(part.value / plus) * 100}%` }}></i>`)}
      ${lost > 0.0005 && html`<i class="lost" style=${{ width: `${(lost / plus) * 100}%` }}></i>`}
    </span></span>`;
}

export function ScoreTable({ parts, score }) {
  return html`<table class="score-table"><tbody>
    ${parts.map((part) => html`<tr class=${Math.abs(part.value) < 0.0005 ? "zero" : ""}>
      <th scope="row"><i class="dot ${partClass(part)}"></i>${t.parts[part.name] || part.name}</th>
      <td class="number">${part.value.toFixed(3)}</td><td class="muted">${visible(part.note)}</td></tr>`)}
    <tr class="total"><th scope="row">${t.total}</th><td class="number">${score.toFixed(3)}</td><td></td></tr>
  </tbody></table>`;
}

/* ---- a list of any length --------------------------------------------------------------------------------------- */

// Only the visible rows exist. All rows have the same height, so that 10,000 of them scroll.
export function LongList({ items, rowHeight, selected, onSelect, onOpen, Row, label, onEnd }) {
  const ref = useRef(null);
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
    const top = selected * rowHeight;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (top + rowHeight > box.scrollTop + box.clientHeight) box.scrollTop = top + rowHeight - box.clientHeight;
  }, [selected, items]);
  const first = Math.max(0, Math.floor(view.top / rowHeight) - 4);
  const last = Math.min(items.length, Math.ceil((view.top + view.height) / rowHeight) + 4);
  const scrolled = () => {
    measure();
    const box = ref.current;
    if (onEnd && box.scrollTop + box.clientHeight > box.scrollHeight - 10 * rowHeight) onEnd();
  };
  return html`<div class="long-list" ref=${ref} onScroll=${scrolled} role="listbox" tabIndex="0" aria-label=${label}
      aria-activedescendant=${selected >= 0 && selected < items.length ? `row-${selected}` : null}>
    <div class="long-list-space" role="presentation" style=${{ height: `${items.length * rowHeight}px` }}>
      ${items.slice(first, last).map((item, index) => {
        const at = first + index;
        return html`<div key=${item.id ?? at} id="row-${at}" role="option" aria-selected=${at === selected} aria-setsize=${items.length} aria-posinset=${at + 1}
          class="row ${at === selected ? "selected" : ""}" style=${{ top: `${at * rowHeight}px`, height: `${rowHeight}px` }}
          onClick=${() => onSelect(at)} onDblClick=${() => onOpen?.(at)}><${Row} item=${item} /></div>`;
      })}
    </div></div>`;
}
