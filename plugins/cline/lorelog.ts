// Generated from src/lorelog/hosts/sources/cline.ts: change it there and run `make plugins`.
import { spawn } from "node:child_process"
import type { AgentPlugin } from "@cline/core"

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

const HOST = "cline"

type Hooks = NonNullable<AgentPlugin["hooks"]>
type Snapshot = Parameters<NonNullable<Hooks["beforeRun"]>>[0]["snapshot"]

let session = ""
let directory = ""
let isNew = true

/** Path of the session, from which lorelog reads the turn: no conversation passes through here. */
function transcript(): string {
  const { HOME = "", CLINE_DIR: root = `${HOME}/.cline`, CLINE_DATA_DIR: data = `${root}/data` } = process.env
  return `${process.env.CLINE_SESSION_DATA_DIR ?? `${data}/sessions`}/${session}/${session}.messages.json`
}

const report = (moment: string, more: Payload = {}): Promise<Answer> =>
  hook(HOST, moment, { session, directory, transcript: transcript(), ...more })

/** Returns what the user asked for last; a message of Cline's own is not that. */
function promptOf({ messages }: Snapshot): string {
  const asked = messages.findLast((message) => message.role === "user" && message.metadata?.displayRole !== "system")
  const text = (asked?.content ?? []).map((part) => (part.type === "text" ? part.text : "")).join("\n")
  return /^<user_input mode="\w+">([^]*)<\/user_input>\s*$/.exec(text)?.[1] ?? text
}

/** Returns a call in the fields of other hosts: several commands are one. */
function callOf({ snapshot, toolCall, input }: Parameters<NonNullable<Hooks["beforeTool"]>>[0]): Payload {
  const commands = input && typeof input === "object" && "commands" in input ? input.commands : undefined
  const command = Array.isArray(commands) ? commands.map((each) => (typeof each === "string" ? each : JSON.stringify(each))).join("\n") : ""
  const agent = snapshot.parentAgentId ? snapshot.agentId : ""
  return { tool: toolCall.toolName, call: toolCall.toolCallId, agent, input: cut(command ? { command } : input) }
}

const textOf = (output: unknown): string => (typeof output === "string" ? output : JSON.stringify(output ?? ""))

const plugin: AgentPlugin = {
  name: "lorelog",
  manifest: { capabilities: ["hooks"] },
  setup(_api, context) {
    session = context.session?.sessionId ?? ""
    directory = context.workspaceInfo?.rootPath ?? process.cwd()
  },
  hooks: {
    async beforeRun({ snapshot }) {
      if (snapshot.parentAgentId) return
      const source = snapshot.messages.length > 1 ? "resume" : "startup"
      const start = isNew ? report("session-start", { source }) : undefined
      isNew = false
      const answers = await Promise.all([start, report("prompt", { prompt: promptOf(snapshot) })])
      const appendContext = answers.flatMap((answer) => answer?.context || []).join("\n\n")
      if (appendContext) return { appendContext }
    },
    async beforeTool(context) {
      const answer = await report("tool-before", callOf(context))
      if (answer.block) return { skip: true, reason: answer.block }
      if (answer.context) return { appendContext: answer.context }
    },
    async afterTool(context) {
      const output = textOf(context.result.output)
      if (!context.result.isError && !output.includes('"success":false')) return
      const { context: appendContext } = await report("tool-after", { ...callOf(context), output: cut(output), failed: true })
      if (appendContext) return { appendContext }
    },
    // Awaited: Cline ends this process soon after its run.
    async afterRun({ snapshot, result }) {
      if (snapshot.parentAgentId) return
      await report(result.status === "failed" ? "turn-failed" : "turn-end", { answer_text: result.outputText })
    },
  },
}

export default plugin
