// The server: operations, rendered Markdown, and the stream of changes. Nothing else is ever contacted.

import { signal } from "./vendor/signals.js";

export const session = signal(null); // { version, project, home, agent }
export const signedOut = signal(false);
export const online = signal(true);
export const revision = signal({}); // how often each subject has changed: memories, records, sessions, deliveries, settings, costs
export const project = signal(""); // directory of the shown project; empty: the server's own

export class ApiError extends Error {
  constructor({ code, message, hint }) {
    super(message);
    this.code = code;
    this.hint = hint;
  }
}

async function request(path, options) {
  let reply;
  try {
    reply = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    online.value = false;
    throw new ApiError({ code: "offline", message: "The server does not answer.", hint: "It was stopped; 'lorelog ui' starts it again." });
  }
  online.value = true;
  if (reply.status === 401) signedOut.value = true;
  const body = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new ApiError(body.error || { code: "error", message: `The server answered ${reply.status}.` });
  return body;
}

const post = (path, body, abort, headers = {}) =>
  request(path, { method: "POST", headers: { "Content-Type": "application/json", ...headers }, body: JSON.stringify(body), signal: abort });

const scoped = (args) => (project.value && args.project === undefined ? { project: project.value, ...args } : args);

// Call an operation, the same that the command line calls. `lorelog ops` lists them.
export const call = (op, args = {}, abort = undefined) => post(`/api/page/call/${op}`, scoped(args), abort);

// Call an operation that takes a memory away. The server compares the id that was typed or shown with that of the memory.
export const callConfirmed = (op, args, id) => post(`/api/page/call/${op}`, scoped(args), undefined, { "X-Lorelog-Confirm": id });

// Open the file of a memory in the editor. Only its id is sent.
export const openInEditor = (id) => post("/api/page/open", scoped({ id }));

export const loadDaemon = (abort) => request("/api/page/daemon", { signal: abort });

const trees = new Map();

export async function renderMarkdown(texts) {
  const missing = texts.filter((text) => !trees.has(text));
  if (missing.length) {
    const reply = await post("/api/page/markdown", { texts: missing });
    if (trees.size > 300) trees.clear();
    missing.forEach((text, index) => trees.set(text, reply.trees[index]));
  }
  return texts.map((text) => trees.get(text));
}

export async function start() {
  session.value = await request("/api/page/session");
  listen();
}

const SUBJECTS = ["memories", "records", "sessions", "deliveries", "settings", "costs"];
const RETRY_MS = 2000;
let greeted = false;

function changed(subjects) {
  const counts = { ...revision.value };
  for (const subject of subjects) counts[subject] = (counts[subject] || 0) + 1;
  revision.value = counts;
}

// After an interruption everything may have changed. A server of another version has other files: load them.
function listen() {
  const events = new EventSource("/api/page/events");
  events.addEventListener("hello", (event) => {
    online.value = true;
    if (JSON.parse(event.data).version !== session.value.version) location.reload();
    else if (greeted) changed(SUBJECTS);
    greeted = true;
  });
  events.addEventListener("changed", (event) => changed(JSON.parse(event.data).subjects));
  events.onerror = () => {
    online.value = false;
    if (events.readyState === EventSource.CLOSED) setTimeout(reconnect, RETRY_MS);
  };
}

function reconnect() {
  request("/api/page/session").then(listen, () => signedOut.value || setTimeout(reconnect, RETRY_MS));
}
