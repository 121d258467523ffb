// The tables of what agents were shown: their frame, and a memory as a cell.

import { html, Inline, Type, inlineText, splitTitle, shortId } from "../ui.js";
import { address } from "../state.js";
import { t } from "../texts.js";

// A table that scrolls by itself where it is wider than the screen. On a phone, its rows are blocks without the headings.
export function Table({ label, columns, numbers = [], children }) {
  return html`<div class="scroll-x" tabIndex="0" role="region" aria-label=${label}><table class="told-table"><thead><tr>${columns.map((name, index) => html`<th scope="col" class=${numbers.includes(index) ? "number" : ""}>${name}</th>`)}</tr></thead>${children}</table></div>`;
}

// The title of a memory that operations give on one line, with its type; its id if it is deleted.
export function MemoryLink({ memory }) {
  const name = memory.text ? html`<${Inline} text=${splitTitle(memory.text).title} />` : html`<span class="muted">${t.told.gone} <span class="mono">${shortId(memory.id)}</span></span>`;
  return html`<${Type} type=${memory.type} /> <a href=${address("memory", [memory.id])} title=${inlineText(memory.text)} dir="auto">${name}</a>`;
}
