// Generated from src/lorelog/hosts/sources/opencode.ts: change it there and run `make plugins`.
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import type { Event, Part } from "@opencode-ai/sdk"
import type { Hooks, Plugin } from "@opencode-ai/plugin"

const COMMAND = "lorelog"
const WAIT_MS = 2_000
const KILL_AFTER_MS = 20_000
const SUMMARY_WAIT_MS = 15_000
const MAX_CONTEXTS = 8
const MAX_TEXT_CHARS = 20_000
const MAX_PENDING = 500

type Payload = Record<string, unknown>
type Answer = { context: string; block: string }

/** Reports an event to lorelog; returns context for the model, and why a tool call is blocked. Never throws, never waits long. */
const hook = (host: string, moment: string, payload: Payload): Promise<Answer> =>
  runHook(host, moment, payload, WAIT_MS).then(answerOf)

/** Runs a hook and returns its output; empty if that takes too long. */
function runHook(host: string, moment: string, payload: Payload, waitMs: number): Promise<string> {
  return new Promise((resolve) => {
    try {
      // Detached: the end of a turn is recorded even if the host exits or is interrupted.
      const child = spawn(COMMAND, ["hook", host, moment], { stdio: ["pipe", "pipe", "ignore"], detached: true })
      let output = ""
      const killTimer = setTimeout(() => child.kill("SIGKILL"), KILL_AFTER_MS)
      const waitTimer = setTimeout(() => done(""), waitMs)
      const done = (answer: string): void => {
        clearTimeout(waitTimer)
        resolve(answer)
      }
      killTimer.unref?.()
      child.on("error", () => done(""))
      child.on("close", () => {
        clearTimeout(killTimer)
        done(output)
      })
      child.stdin.on("error", () => undefined)
      child.stdout.on("data", (chunk) => (output += String(chunk)))
      child.stdin.end(JSON.stringify(payload))
      child.unref()
    } catch {
      resolve("")
    }
  })
}

function answerOf(output: string): Answer {
  let answer: Record<string, unknown> = {}
  try {
    answer = (JSON.parse(output) ?? {}) as Record<string, unknown>
  } catch {
    // No answer: nothing is added and nothing is blocked.
  }
  const textOf = (name: string): string => (typeof answer[name] === "string" ? (answer[name] as string) : "")
  return { context: textOf("context"), block: textOf("block") }
}

/** Returns a tool's input or output with long texts cut: a pipe with megabytes would delay the call. */
function cut(value: unknown, depth = 0): unknown {
  if (typeof value === "string") return value.length <= MAX_TEXT_CHARS ? value : value.slice(0, 4_000) + "\n…\n" + value.slice(-15_000)
  if (typeof value !== "object" || value === null) return value
  if (depth > 5) return undefined
  if (Array.isArray(value)) return value.slice(0, 100).map((item) => cut(item, depth + 1))
  return Object.fromEntries(Object.entries(value).slice(0, 100).map(([name, item]) => [name, cut(item, depth + 1)]))
}

/** Contexts of tool calls that are under way: hosts take them with the result of a call, not before it. */
const pendingCalls = shared<{ session: string; context: string }>("calls")

function keepForResult(call: string, session: string, context: string): void {
  if (pendingCalls.size >= MAX_PENDING) pendingCalls.clear()
  if (context) pendingCalls.set(call, { session, context })
}

function takeForResult(call: string): string {
  const context = pendingCalls.get(call)?.context ?? ""
  pendingCalls.delete(call)
  return context
}

type SummaryRequest = { id: string; system: string; text: string; max_tokens: number }
type SummaryResult = { text: string; tokens_in: number; tokens_out: number }

let isLending = true

/** Writes the notes of a turn with the host's own model, if the user chose that. Never throws. */
async function summarizeTurn(host: string, session: string, write: (request: SummaryRequest) => Promise<SummaryResult>): Promise<void> {
  if (!isLending) return
  try {
    const reply = JSON.parse(await runHook(host, "summary-request", { session }, SUMMARY_WAIT_MS)) as { summarize?: SummaryRequest | null }
    isLending = reply.summarize !== undefined
    if (!reply.summarize) return
    // An empty text is reported too: lorelog then extracts the note from the turn without waiting.
    const result = await write(reply.summarize).catch(() => ({ text: "" }))
    await runHook(host, "summary", { id: reply.summarize.id, ...result }, WAIT_MS)
  } catch {
    // No reply: lorelog extracts the note after a timeout.
  }
}

/** A process-wide map: a host may load a plugin several times, and hooks of one turn run in any instance. */
function shared<Value>(name: string): Map<string, Value> {
  const globals = globalThis as unknown as Record<symbol, Map<string, Value> | undefined>
  return (globals[Symbol.for(`lorelog.${name}`)] ??= new Map<string, Value>())
}

const contexts = shared<string[]>("told")

/** Returns the contexts of a session's last prompts: lorelog never sends the same one twice. */
function remembered(session: string, context: string): string {
  const before = (contexts.get(session) ?? []).filter((earlier) => earlier !== context)
  const all = [...before, context].filter(Boolean).slice(-MAX_CONTEXTS)
  contexts.set(session, all)
  return all.join("\n\n")
}

/** Kilo Code, a fork, has the same plugins. */
const HOST = "opencode"

/** Prefix of OpenCode's own requests (titles, summaries), which get no memory. */
const SIDE_REQUEST = /^[^\n]{0,80}\b(title|summar)/i

type Loose = { mcp?: Record<string, unknown>; skills?: { paths?: string[] } }

/** Path of OpenCode's database, from which lorelog reads the turn: no conversation passes through here. */
function database(): string {
  const { HOME = "", XDG_DATA_HOME: data = `${HOME}/.local/share`, [`${HOST.toUpperCase()}_DB`]: chosen = `${HOST}.db` } = process.env
  return chosen.startsWith("/") ? chosen : `${data}/${HOST}/${chosen}`
}

/** Tells whether a command failed; OpenCode reports its exit status with the result. */
function isFailure(metadata: unknown): boolean {
  const exit = metadata && typeof metadata === "object" && "exit" in metadata ? metadata.exit : 0
  return typeof exit === "number" && exit !== 0
}

function wordsOf(parts: Part[]): string {
  return parts.flatMap((part) => (part.type === "text" && !part.synthetic ? [part.text] : [])).join("\n")
}

export const Lorelog: Plugin = async ({ client, directory }) => {
  const started = new Map<string, Promise<string>>()
  const prompted = new Map<string, string>()
  const turns = new Map<string, string>()
  const subagents = new Set<string>()
  const compacting = new Set<string>()
  const pending = new Set<Promise<string>>()

  const report = (moment: string, session: string, more: Payload = {}): Promise<string> => {
    const turn = turns.get(session) ?? ""
    const sent = hook(HOST, moment, { session, turn, directory, transcript: database(), ...more })
    const answer = sent.then(({ context }) => context)
    pending.add(answer)
    void answer.then(() => pending.delete(answer))
    return answer
  }

  const reportCall = (moment: string, session: string, more: Payload): Promise<Answer> =>
    hook(HOST, moment, { session, turn: turns.get(session) ?? "", directory, ...more })

  const start = (session: string, source: string): Promise<string> => {
    const startup = started.get(session) ?? report("session-start", session, { source })
    started.set(session, startup)
    return startup
  }

  const end = (moment: string, session: string | undefined, source = ""): void => {
    if (session && !subagents.has(session)) void report(moment, session, { source })
  }

  /** Writes notes in a child session, so that it counts as a subagent's; without tools, and deleted afterwards. */
  const write = async (parentID: string, { system, text }: SummaryRequest): Promise<SummaryResult> => {
    const { data: own } = await client.session.create({ body: { parentID, title: "lorelog: notes of a turn" } })
    if (!own) throw new Error("no session")
    subagents.add(own.id)
    try {
      const body = { system, tools: { "*": false }, parts: [{ type: "text" as const, text }] }
      const { data } = await client.session.prompt({ path: { id: own.id }, body })
      if (!data) throw new Error("no answer")
      const { input, output, reasoning, cache } = data.info.tokens
      return { text: wordsOf(data.parts), tokens_in: input + cache.read + cache.write, tokens_out: output + reasoning }
    } finally {
      await client.session.delete({ path: { id: own.id } })
    }
  }

  const idle = (session: string): void => {
    end("turn-end", session)
    if (!subagents.has(session)) void summarizeTurn(HOST, session, (request) => write(session, request))
  }

  const handle = (event: Event): void => {
    if (event.type === "session.created") {
      const { id, parentID } = event.properties.info
      if (parentID) subagents.add(id)
      else void start(id, "startup")
    } else if (event.type === "session.idle") idle(event.properties.sessionID)
    else if (event.type === "session.compacted") end("compact", event.properties.sessionID)
    else if (event.type === "session.error") end("turn-failed", event.properties.sessionID, event.properties.error?.name)
  }

  const hooks: Hooks = {
    config: async (config) => {
      const open = config as Loose
      open.mcp = { lorelog: { type: "local", command: [COMMAND, "mcp"], enabled: true }, ...open.mcp }
      const skills = `${import.meta.dirname}/skills`
      if (existsSync(skills)) open.skills = { ...open.skills, paths: [...(open.skills?.paths ?? []), skills] }
    },
    event: async ({ event }) => handle(event),
    "chat.message": async ({ sessionID, messageID }, { message, parts }) => {
      if (subagents.has(sessionID)) return
      turns.set(sessionID, message.id ?? messageID ?? "")
      const startup = start(sessionID, "resume")
      prompted.set(sessionID, remembered(sessionID, await report("prompt", sessionID, { prompt: wordsOf(parts) })))
      await startup
    },
    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
      const { context, block } = await reportCall("tool-before", sessionID, { tool, call: callID, input: cut(args) })
      if (block) throw new Error(block)
      keepForResult(callID, sessionID, context)
    },
    "tool.execute.after": async ({ tool, sessionID, callID, args }, result) => {
      const contexts = [takeForResult(callID)]
      if (isFailure(result.metadata)) {
        const more = { tool, call: callID, input: cut(args), output: cut(result.output), failed: true }
        contexts.push((await reportCall("tool-after", sessionID, more)).context)
      }
      const added = contexts.filter(Boolean)
      if (added.length && typeof result.output === "string") result.output = [result.output, ...added].join("\n\n")
    },
    "experimental.session.compacting": async ({ sessionID }) => void compacting.add(sessionID),
    "experimental.chat.system.transform": async ({ sessionID = "" }, { system }) => {
      if (!started.has(sessionID) || compacting.delete(sessionID) || SIDE_REQUEST.test(system[0] ?? "")) return
      // A call that failed has no result that can be extended: its context follows with the next request.
      for (const [call, { session, context }] of pendingCalls) {
        if (session !== sessionID) continue
        pendingCalls.delete(call)
        prompted.set(sessionID, remembered(sessionID, context))
      }
      const context = [await start(sessionID, "resume"), prompted.get(sessionID)].filter(Boolean)
      if (context.length) system.push(context.join("\n\n"))
    },
    // The only hook that OpenCode waits for when it exits.
    dispose: async () => {
      for (const session of turns.keys()) void report("session-end", session)
      await Promise.all(pending)
    },
  }
  return hooks
}
