// Generated from src/lorelog/hosts/sources/pi.ts: change it there and run `make plugins`.
import { spawn } from "node:child_process"
import type { ExtensionAPI, ExtensionContext } from "@earendil-works/pi-coding-agent"

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

/** Oh My Pi, a fork, has the same extensions. */
const HOST = "pi"

/** Contexts of a session's start, until they were shown with its first prompt. */
const started = shared<Promise<string>>("started")

const sessionOf = (context: ExtensionContext): string => context.sessionManager.getSessionId()

const placeOf = (context: ExtensionContext): Payload => ({
  session: sessionOf(context),
  directory: context.cwd,
  transcript: context.sessionManager.getSessionFile(),
})

const report = (moment: string, context: ExtensionContext, more: Payload = {}): Promise<Answer> =>
  hook(HOST, moment, { ...placeOf(context), ...more })

const textOf = (content: readonly { type: string; text?: string }[]): string => content.map((part) => part.text ?? "").join("\n")

export default function lorelog(pi: ExtensionAPI): void {
  pi.on("session_start", (event, context) => {
    const source = (event as { reason?: string }).reason ?? "startup"
    started.set(sessionOf(context), report("session-start", context, { source }).then((answer) => answer.context))
  })
  pi.on("before_agent_start", async ({ prompt }, context) => {
    const session = sessionOf(context)
    const contexts = await Promise.all([started.get(session) ?? "", report("prompt", context, { prompt }).then((answer) => answer.context)])
    started.delete(session)
    const content = contexts.filter(Boolean).join("\n\n")
    if (content) return { message: { customType: "lorelog", content, display: false } }
  })
  pi.on("tool_call", async ({ toolName: tool, toolCallId: call, input }, context) => {
    const answer = await report("tool-before", context, { tool, call, input: cut(input) })
    if (answer.block) return { block: true, reason: answer.block }
    keepForResult(call, sessionOf(context), answer.context)
  })
  pi.on("tool_result", async ({ toolName: tool, toolCallId: call, input, content, isError }, context) => {
    const contexts = [takeForResult(call)]
    if (isError) {
      const more = { tool, call, input: cut(input), output: cut(textOf(content)), failed: true }
      contexts.push((await report("tool-after", context, more)).context)
    }
    const added = contexts.filter(Boolean).map((text) => ({ type: "text" as const, text }))
    if (added.length) return { content: [...content, ...added] }
  })
  // Not awaited: the hook continues by itself when the program exits.
  pi.on("agent_end", ({ messages }, context) => {
    const last = messages.findLast((message) => message.role === "assistant")
    const failed = last?.role === "assistant" && last.stopReason === "error"
    // The answer tells whether it is in the transcript yet, which Oh My Pi writes late.
    const answer_text = last?.role === "assistant" ? textOf(last.content as { type: string; text?: string }[]) : ""
    void report(failed ? "turn-failed" : "turn-end", context, { answer_text })
  })
  pi.on("session_compact", (_event, context) => void report("compact", context))
  pi.on("session_shutdown", async (event, context) => {
    await report("session-end", context, { source: (event as { reason?: string }).reason })
  })
}
