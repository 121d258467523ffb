// One line of Markdown as elements: the only renderer of rows, titles and cells. The text of a memory is data: what is not markup
// without doubt stays as it was written (`a*b`, `src/*`, `{{7*7}}`), comments are left out, hidden characters are named.

import { h } from "./vendor/preact.js";

const HIDDEN = /[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

// Name characters that are invisible or reorder other text: memory text may come from anywhere.
export function visible(text) {
  return String(text ?? "").replace(HIDDEN, (c) => `⟨U+${c.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

const MAX_CHARS = 1000; // a row shows less
const BEFORE = String.raw`(?<![\p{L}\p{N}*_~\\/])`;
const AFTER = String.raw`(?![\p{L}\p{N}*_~/]|\.\p{L})`;
const pair = (mark) => String.raw`${BEFORE}${mark}(?=[\p{L}\p{N}"'\x60(\[\\])((?:(?!${mark})[\s\S])*?[^\s\\/.,])${mark}${AFTER}`;
const TOKEN = new RegExp(
  [
    String.raw`(?<comment><!--[\s\S]*?-->|<!--\s*[\w-]+:[\s\S]*$)`,
    String.raw`(?<ticks>\x60+)(?!\x60)(?<code>[\s\S]*?[^\x60])\k<ticks>(?!\x60)`,
    String.raw`\\(?<escaped>[!-/:-@[-\x60{-~])`,
    String.raw`!?\[(?<link>[^\[\]]*)\]\((?:[^()\s]|\([^()\s]*\))*(?:\s+"[^"]*")?\)`,
    String.raw`<(?<address>(?:https?|mailto):[^\s<>]+)>`,
    `(?<strong>${pair(String.raw`\*\*`)}|(?=__\\S+\\s)${pair("__")})`,
    `(?<s>${pair("~~")})`,
    `(?<em>${pair(String.raw`\*`)}|${pair("_")})`,
    String.raw`(?<lead>(?:^|\n)[ \t]*(?:(?:[-*+]|#{1,6}|>)[ \t]+)+(?:\[[ xX]\][ \t]+)?)`,
    String.raw`(?<fence>(?:^|\n)[ \t]*\x60{3,}[^\n\x60]*(?=\n|$))`,
  ].join("|"),
  "gu",
);

// The runs of a text: each is a piece of the source, with the elements around it. `at` is its place in the source.
export function inlineRuns(source, at = 0, around = []) {
  const text = source.slice(0, MAX_CHARS);
  const runs = [];
  const add = (piece, from, tags = around) => piece && runs.push({ text: piece, at: at + from, tags });
  let end = 0;
  for (const found of text.matchAll(TOKEN)) {
    const { comment, code, escaped, link, address, strong, s, em, lead } = found.groups;
    add(text.slice(end, found.index), end);
    end = found.index + found[0].length;
    if (code !== undefined) add(code, found.index + found.groups.ticks.length, [...around, "code"]);
    else if (escaped !== undefined) add(escaped, found.index + 1);
    else if (link !== undefined) runs.push(...inlineRuns(link, at + found.index + found[0].indexOf("[") + 1, around));
    else if (address !== undefined) add(address, found.index + 1);
    else if (strong || s || em) {
      const width = em ? 1 : 2;
      runs.push(...inlineRuns(found[0].slice(width, -width), at + found.index + width, [...around, strong ? "strong" : em ? "em" : "s"]));
    } else if (lead && !around.length && runs.some((run) => run.text.trim())) runs.push({ text: " · ", at: -1, tags: around });
    else if (comment === undefined && lead === undefined && found.groups.fence === undefined) add(found[0], found.index);
  }
  add(text.slice(end), end);
  return runs;
}

// The text without its markup, for names, labels and titles of the window.
export const inlineText = (source) => visible(inlineRuns(source || "").map((run) => run.text).join("").replace(/\s+/g, " ").trim());

// Spans are [start, end] in code points, as operations return them; strings are counted in units.
function unitSpans(text, spans) {
  if (!spans?.length) return [];
  const places = [0];
  for (const letter of text) places.push(places.at(-1) + letter.length);
  return spans.map(([start, end]) => [places[start] ?? text.length, places[end] ?? text.length]);
}

function marked({ text, at }, spans) {
  const parts = [];
  let done = 0;
  for (const [start, end] of at < 0 ? [] : spans) {
    const [from, to] = [Math.max(done, start - at), Math.min(text.length, end - at)];
    if (from >= to) continue;
    parts.push(visible(text.slice(done, from)), h("mark", null, visible(text.slice(from, to))));
    done = to;
  }
  return [...parts, visible(text.slice(done))];
}

// A line of Markdown, with the matched spans marked.
export function Inline({ text, spans }) {
  const units = unitSpans(text || "", spans);
  return inlineRuns(text || "").map((run) => run.tags.reduceRight((inner, tag) => h(tag, null, inner), marked(run, units)));
}

// the title of a memory

const MAX_TITLE = 180;
const MAX_HEAD = 4000; // where the first sentence is looked for
const NO_SENTENCE = /^\s*(?:\||\x60{3}|~~~|!\[|[-*_]{3,}\s*$)/;
const ASKED = /^User asked:\s*/;
const LEAD = /^[ \t]*(?:(?:[-*+>]|\d{1,3}[.)])[ \t]+)*(?:\[[ xX]\][ \t]+)?/;

// The id in the anchor stays when the text changes; that of a chunk does not, but its first characters differ from others'.
export const memoryId = (memory) => memory.anchor?.memory || memory.id;
export const isTime = (heading) => /^\d\d:\d\d|^\d{4}-\d\d-\d\d/.test(heading || "");

// Where the first sentence ends: before a capital, a digit or a new line, and not inside of code.
function sentenceEnd(line) {
  const bare = line.replace(/(\x60+)[\s\S]*?\1/g, (code) => "x".repeat(code.length));
  for (const { index, 0: mark } of bare.matchAll(/[.!?…]["')\]*_”’»]*(?=\s|$)|[。！？]/g)) {
    const end = index + mark.length;
    if (end >= 12 && !/^\s*\p{Ll}/u.test(bare.slice(end))) return end;
  }
  return -1;
}

// The first sentence of a memory as Markdown, and what follows it. A title that had to be cut leaves the text whole.
export function splitTitle(content, heading = "") {
  const tail = (content || "").slice(MAX_HEAD);
  const { title, rest } = splitHead((content || "").slice(0, MAX_HEAD), heading);
  return { title, rest: rest + tail };
}

function splitHead(content, heading) {
  const whole = content.replace(/^[ \t]*<!--[\s\S]*?-->[ \t]*\n?/gm, "").replace(/^#{1,6}[ \t][^\n]*\n*/, "");
  const named = isTime(heading) ? "" : heading;
  const lines = whole.split("\n");
  const first = lines.findIndex((line) => line.trim());
  if (first < 0 || NO_SENTENCE.test(lines[first])) {
    const plain = lines.find((line) => /\p{L}/u.test(line) && !/^\s*(\x60{3}|~~~)/.test(line)) || "";
    return { title: named || plain.replaceAll("|", " ").trim().slice(0, MAX_TITLE) || heading, rest: whole };
  }
  const lead = lines[first].match(LEAD)[0];
  let last = first + 1;
  while (last < lines.length && lines[last].trim() && !/^\s*(?:[-*+>#|]|\d{1,3}[.)]|\x60{3}|<!--)/.test(lines[last])) last += 1;
  const paragraph = lines.slice(first, last).join("\n").slice(lead.length);
  const asked = paragraph.match(ASKED)?.[0] || "";
  const text = paragraph.slice(asked.length);
  const end = asked && text.length <= MAX_TITLE ? text.length : sentenceEnd(text.slice(0, MAX_TITLE * 2));
  if (end < 0 ? text.length > MAX_TITLE : end > MAX_TITLE * 1.5) return { title: `${text.slice(0, MAX_TITLE).replace(/\s\S*$/, "")}…`, rest: whole };
  const title = end < 0 ? text : text.slice(0, end);
  const left = text.slice(title.length).trim();
  return { title, rest: [...lines.slice(0, first), ...(left ? [lead + asked + left] : []), ...lines.slice(last)].join("\n").trimStart() };
}

export const titleOf = (memory) => splitTitle(memory.content, memory.heading ?? memory.heading_path?.at(-1)).title;
